//! The project's own commands: `cargo xtask run`, `test`, `bench` and the rest.
//!
//! Each command installs what it needs, announces that in a line, and does its work. Steps that need
//! no privileges run as the user; the daemon and the tests that load probes run through `sudo`,
//! unless this is root already.

mod bench;
mod check;
mod container;
mod docs;
mod eval;
mod fuzz;
mod package;
mod peers;
mod pictures;
mod python;
mod run;
mod setup;
mod shell;
mod siege;
mod test;
mod train;
mod vm;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about, version)]
enum Command {
    /// Build the daemon and watch this machine
    Run(run::Options),
    /// Run all tests: first those without privileges, then those against the real kernel
    Test(test::Options),
    /// Measure what watching costs and print tables
    Bench(bench::Options),
    /// Run all attacks on one daemon at once, and watch its memory
    Siege(siege::Options),
    /// Build the packages for Debian and Fedora
    Package(package::Options),
    /// Run the exactness tests on other kernels in virtual machines
    Vm(vm::Options),
    /// Build the probes alone and print their sizes
    BuildEbpf,
    /// Measure detection on labelled definitions
    Eval(eval::Options),
    /// Fit the model of what sentences ask, or measure it on held-out data
    Train(train::Options),
    /// Search for inputs that break a parser, and keep those that reach new code
    Fuzz(fuzz::Options),
    /// Check format and lints, or with --all everything that CI checks
    Check(check::Options),
    /// Write the generated parts of the manual
    Docs,
    /// Regenerate the README's pictures: a recording of the tap, a screenshot of a notification
    Pictures,
    /// Install everything that the other commands need
    Setup,
}

fn main() -> ExitCode {
    match dispatch(Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Result<()> {
    match command {
        Command::Run(options) => run::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Siege(options) => siege::run(&options),
        Command::Package(options) => package::run(&options),
        Command::Vm(options) => vm::run(&options),
        Command::BuildEbpf => run::build_ebpf(),
        Command::Eval(options) => eval::run(&options),
        Command::Train(options) => train::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Docs => docs::update(),
        Command::Pictures => pictures::make(),
        Command::Setup => {
            setup::toolchain()?;
            setup::kernel()?;
            peers::install()?;
            container::install()
        }
    }
}
