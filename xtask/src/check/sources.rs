//! Format, lints and documentation.

use std::path::PathBuf;

use anyhow::Result;

use super::outcome::Outcome;
use crate::shell;

/// Packages outside the workspace: the probes have another target, the fuzz targets other flags.
pub(super) const OUTSIDE: [&str; 2] = ["mcpinspectd-ebpf", "mcpinspectd/fuzz"];

pub(super) fn manifest(package: &str) -> PathBuf {
    shell::root().join(package).join("Cargo.toml")
}

pub(super) fn format() -> Result<Outcome> {
    let mut format = shell::cargo();
    shell::run(format.args(["fmt", "--all", "--check"]))?;
    OUTSIDE.iter().try_for_each(|package| {
        let mut format = shell::cargo();
        format.args(["fmt", "--check", "--manifest-path"]);
        shell::run(format.arg(manifest(package)))
    })?;
    Ok(Outcome::Passed)
}

pub(super) fn lints() -> Result<Outcome> {
    let mut lints = shell::cargo();
    lints.args(["clippy", "--workspace", "--all-targets", "--locked"]);
    shell::run(lints.args(["--", "--deny", "warnings"]))?;
    Ok(Outcome::Passed)
}

/// Lints the probes as they are built for a machine of this architecture.
pub(super) fn probes(architecture: &str) -> Result<Outcome> {
    let mut lints = shell::cargo();
    lints
        .args(["clippy", "--release", "--locked"])
        .args(["-Z", "build-std=core", "--target", "bpfel-unknown-none"])
        .arg("--manifest-path")
        .arg(manifest("mcpinspectd-ebpf"))
        .arg("--target-dir")
        .arg(shell::target().join("bpf"))
        .args(["--", "--deny", "warnings"])
        // The pinned stable compiler builds its own core for a target without a shipped one.
        .env("RUSTC_BOOTSTRAP", "1")
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            format!("--cfg=bpf_target_arch=\"{architecture}\""),
        );
    shell::run(&mut lints)?;
    Ok(Outcome::Passed)
}

pub(super) fn documentation() -> Result<Outcome> {
    let mut documentation = shell::cargo();
    documentation.args(["doc", "--workspace", "--no-deps", "--locked"]);
    documentation.args(["--document-private-items"]);
    documentation.env("RUSTDOCFLAGS", "--deny warnings");
    shell::run(&mut documentation)?;
    Ok(Outcome::Passed)
}
