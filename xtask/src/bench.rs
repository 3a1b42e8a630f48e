//! `cargo xtask bench`: how much watching costs other programs, and how fast the daemon is.

use std::process::Command;

use anyhow::{Context, Result};

use crate::run::built;
use crate::shell::{self, say};
use crate::{peers, setup};

/// Programs that the measurements start, and the Debian packages that provide them.
const PROGRAMS: &[(&str, &str)] = &[("openssl", "openssl"), ("strace", "strace"), ("wrk", "wrk")];

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
    setup::programs(PROGRAMS)?;
    nginx()?;
    peers::install()?;
    say("building with optimisations");
    let mut build = shell::cargo();
    build.args(["build", "--release", "--bins", "--locked"]);
    for package in ["mcpinspectd", "mcpinspect", "mcpinspect-tests"] {
        build.args(["--package", package]);
    }
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
        library.args(["bench", "--locked", "--workspace", "--benches"]);
        shell::run(&mut library)?;
    }
    Ok(())
}

/// Fetches the web server that is measured. It is unpacked rather than installed: an installed one is started
/// at once, and serves to everyone.
fn nginx() -> Result<()> {
    let place = shell::target().join("bench");
    if place.join("nginx/usr/sbin/nginx").is_file() {
        return Ok(());
    }
    say("fetching nginx, a web server to measure");
    std::fs::create_dir_all(&place)?;
    let mut fetch = Command::new("apt-get");
    fetch.args(["-qq", "download", "nginx"]);
    // As root: apt's own user may not write here.
    fetch.args(["-o", "APT::Sandbox::User=root"]);
    shell::run(fetch.current_dir(&place))
        .context("the web server is a Debian package, installed through apt")?;
    for entry in std::fs::read_dir(&place)? {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "deb") {
            let mut unpack = Command::new("dpkg-deb");
            shell::run(unpack.arg("-x").arg(&file).arg(place.join("nginx")))?;
            std::fs::remove_file(file)?;
        }
    }
    Ok(())
}
