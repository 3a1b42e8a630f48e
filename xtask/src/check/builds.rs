//! Other ways to build the project than the usual one.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::outcome::Outcome;
use super::sources::{self, manifest};
use crate::fuzz;
use crate::package::PROGRAMS;
use crate::run::built;
use crate::shell::{self, say};

const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// Lints the probes and type-checks the programs for aarch64. The release workflow builds and links them, on an
/// aarch64 machine.
pub(super) fn aarch64() -> Result<Outcome> {
    let mut target = Command::new("rustup");
    target
        .args(["target", "add", AARCH64])
        .current_dir(shell::root());
    if let Err(error) = shell::run(&mut target) {
        let reason = format!("its standard library cannot be installed ({error})");
        return Ok(Outcome::Unchecked(reason));
    }
    sources::probes("aarch64")?;
    let mut check = shell::cargo();
    check.args(["check", "--lib", "--bins"]);
    check.args(PROGRAMS.iter().flat_map(|program| ["--package", program]));
    check.args(["--locked", "--target", AARCH64]);
    // Nothing is linked, so the one library in C may be compiled for this machine.
    check.env("CC_aarch64_unknown_linux_gnu", "cc");
    check.env("AR_aarch64_unknown_linux_gnu", "ar");
    check.env("MCPINSPECT_PROBES", "off");
    shell::run(&mut check)?;
    Ok(Outcome::Passed)
}

/// Builds the daemon as on a machine without the tool chain for the probes. It must report that.
pub(super) fn without_probes() -> Result<Outcome> {
    let mut build = shell::cargo();
    build.args(["build", "--package", "mcpinspectd", "--bin", "mcpinspectd"]);
    build.arg("--locked");
    build.env("MCPINSPECT_PROBES", "off");
    shell::run(&mut build)?;
    let said = Command::new(built("debug", "mcpinspectd"))
        .args(["check", "--json"])
        .stderr(Stdio::inherit())
        // It fails, and not only because probes are missing.
        .output()
        .context("cannot start the daemon")?;
    let report: Value = serde_json::from_slice(&said.stdout)?;
    let checks = report["checks"].as_array().context("no checks")?;
    let probes = checks.iter().find(|check| check["name"] == "probes");
    let probes = probes.context("the daemon does not report on its probes")?;
    ensure!(
        probes["verdict"] == "failed" && !said.status.success(),
        "a daemon without probes reports {probes}"
    );
    Ok(Outcome::Passed)
}

/// Runs each fuzz target on the inputs that are kept for it, and then on others for a while.
///
/// This shows that the targets compile and that nothing obvious is broken. `cargo xtask fuzz` searches.
pub(super) fn fuzz(seconds: u64) -> Result<Outcome> {
    let mut cargo = shell::cargo();
    cargo.args(["build", "--bins", "--locked", "--manifest-path"]);
    cargo.arg(manifest("mcpinspectd/fuzz"));
    cargo.arg("--target-dir").arg(shell::target().join("fuzz"));
    // No target loads probes.
    cargo.env("MCPINSPECT_PROBES", "off");
    shell::run(&mut cargo)?;
    for name in fuzz::targets()? {
        say(&format!("fuzzing {name} for {seconds} s"));
        let program = shell::target().join("fuzz/debug").join(&name);
        let kept = std::fs::read_dir(fuzz::corpus(&name)?)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        shell::run(Command::new(&program).args(kept))?;
        shell::run(Command::new(program).arg(seconds.to_string()))?;
    }
    Ok(Outcome::Passed)
}
