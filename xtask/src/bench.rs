//! `cargo xtask bench`: how much watching costs other programs, and how fast the daemon is.

use anyhow::Result;

use crate::run::built;
use crate::shell::{self, say};
use crate::{peers, setup};

/// The command line of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Options {
    /// Run fewer rounds: rougher figures within a minute
    #[arg(long)]
    quick: bool,
    /// Measure only against the real kernel
    #[arg(long)]
    kernel: bool,
}

/// Measures and prints tables.
pub fn run(options: &Options) -> Result<()> {
    setup::announce("release");
    setup::toolchain()?;
    setup::kernel()?;
    setup::programs(&[("strace", "strace")])?;
    peers::install()?;
    say("building with optimisations");
    let mut build = shell::cargo();
    build.args(["build", "--release", "--bins", "--locked"]);
    build.args(["--package", "mcpinspectd", "--package", "mcpinspect-tests"]);
    shell::run(&mut build)?;
    let path = shell::path();
    let mut cost = shell::as_root(built("release", "cost"), &[("PATH", &path)])?;
    if options.quick {
        cost.arg("--quick");
    }
    shell::run(&mut cost)?;
    if !options.kernel {
        say("measuring the library");
        let mut library = shell::cargo();
        library.args(["bench", "--locked", "--package", "mcpinspectd"]);
        shell::run(&mut library)?;
    }
    Ok(())
}
