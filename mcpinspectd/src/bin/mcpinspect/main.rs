//! `mcpinspect`: what a person types.

mod eval;

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
    /// Measure detection on labelled files, or fit its weights to them.
    Eval(eval::Eval),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
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
