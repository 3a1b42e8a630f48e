//! `cargo xtask eval`: how well detection does on labelled definitions.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::shell;

/// Where the model's examples are.
const EXAMPLES: &str = "mcpinspectd/training";

/// The command line of `cargo xtask eval`.
#[derive(clap::Args)]
pub struct Options {
    /// Directory with the labelled files
    directory: PathBuf,
    /// Further arguments for the evaluation
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs the evaluation.
pub fn run(options: &Options) -> Result<()> {
    ensure!(
        options.directory.is_dir(),
        "{} is not a directory: give the directory with the labelled files",
        options.directory.display()
    );
    let directory = options.directory.canonicalize()?;
    let mut eval = shell::cargo();
    eval.args(["run", "--release", "--locked"]);
    eval.args(["--package", "mcpinspect-tests", "--bin", "evaluate", "--"]);
    eval.args(["--training", EXAMPLES]);
    eval.arg(directory).args(&options.arguments);
    shell::run(&mut eval)
}
