//! `cargo xtask siege`: whether one daemon outlives all attacks at once.

use anyhow::Result;

use crate::run::built;
use crate::shell::{self, say};
use crate::{peers, setup, test};

/// The command line of `cargo xtask siege`.
#[derive(clap::Args)]
pub struct Options {
    /// How long to run, in minutes
    #[arg(long, default_value_t = 60)]
    minutes: u64,
}

/// Builds the daemon with optimisations, the attacks without, and lets these loose on it.
pub fn run(options: &Options) -> Result<()> {
    setup::announce("release");
    setup::toolchain()?;
    setup::kernel()?;
    peers::install()?;
    let attacks = test::end_to_end()?;
    say("building the daemon with optimisations");
    let mut build = shell::cargo();
    build.args(["build", "--release", "--locked"]);
    build.args(["--package", "mcpinspectd", "--bin", "mcpinspectd"]);
    shell::run(&mut build)?;
    say(&format!(
        "attacking it for {} minutes; leave the machine idle meanwhile",
        options.minutes
    ));
    let path = shell::path();
    let home = std::env::var_os("HOME").unwrap_or_default();
    let variables: [(&str, &std::ffi::OsStr); 3] = [
        ("PATH", &path),
        ("HOME", &home),
        ("CARGO_MANIFEST_DIR", attacks.package.as_os_str()),
    ];
    let mut siege = shell::as_root(built("debug", "siege"), &variables)?;
    siege.arg("--daemon").arg(built("release", "mcpinspectd"));
    siege.arg("--attacks").arg(&attacks.program);
    siege.args(["--minutes", &options.minutes.to_string()]);
    siege.current_dir(&attacks.package);
    shell::run(&mut siege)
}
