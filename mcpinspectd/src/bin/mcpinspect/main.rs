//! `mcpinspect`: what a person types.

mod eval;
mod explain;
mod launch;
mod report;
mod rules;
mod scan;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks at MCP servers, their tools and their messages.
#[derive(Parser)]
#[command(name = "mcpinspect", version, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Scan(scan::Scan),
    Explain(explain::Explain),
    Rules(rules::Rules),
    Eval(eval::Eval),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Scan(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Rules(command) => command.run(),
        Command::Eval(command) => command.run(),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("mcpinspect: {error:#}");
            ExitCode::from(2)
        }
    }
}
