//! `cargo xtask train`: fits the model of what sentences ask to the project's own examples.

use anyhow::Result;

use crate::shell;

/// Where the examples are.
const EXAMPLES: &str = "mcpinspectd/training";
/// Where the model goes.
const MODEL: &str = "mcpinspectd/judge/rules/meaning.bin";

/// The command line of `cargo xtask train`.
#[derive(clap::Args)]
pub struct Options {
    /// Cross-validate on pairs, authors and languages that are held out in turn, and write nothing
    #[arg(long)]
    measure: bool,
}

/// Fits the model.
pub fn run(options: &Options) -> Result<()> {
    let mut train = shell::cargo();
    train.args(["run", "--release", "--locked"]);
    train.args(["--package", "mcpinspect-tests", "--bin", "train", "--"]);
    train.arg(EXAMPLES);
    match options.measure {
        true => train.arg("--measure"),
        false => train.args(["--out", MODEL]),
    };
    shell::run(&mut train)
}
