//! Checks by other projects' programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::outcome::{Outcome, in_public_ci};
use super::sources::{OUTSIDE, manifest};
use crate::shell;
use crate::{python, setup};

/// Shell scripts below `packaging`.
const SCRIPTS: [&str; 6] = [
    "arch/PKGBUILD",
    "arch/mcpinspectd.install",
    "deb/postinst",
    "deb/postrm",
    "deb/prerm",
    "restart-backoff",
];

/// A program of the tools' environment.
fn tool(name: &str) -> Result<Command> {
    setup::programs(&[("python3", "python3-venv")])?;
    let place = shell::target().join("tools/python");
    python::environment(&place, include_str!("../../requirements.txt"))?;
    let mut tool = Command::new(place.join("bin").join(name));
    tool.current_dir(shell::root());
    Ok(tool)
}

/// Licences, sources and duplicates of all dependencies, and advisories about them.
pub(super) fn dependencies() -> Result<Outcome> {
    let config = shell::root().join("deny.toml");
    let manifests = std::iter::once(manifest(".")).chain(OUTSIDE.map(manifest));
    let manifests: Vec<PathBuf> = manifests.collect();
    let deny = |manifest: &PathBuf| -> Result<Command> {
        let mut deny = tool("cargo-deny")?;
        deny.arg("--locked").arg("--manifest-path").arg(manifest);
        deny.arg("--config").arg(&config);
        Ok(deny)
    };
    for manifest in &manifests {
        let mut check = deny(manifest)?;
        shell::run(check.args(["check", "licenses", "bans", "sources"]))
            .with_context(|| manifest.display().to_string())?;
    }
    let mut fetch = deny(&manifests[0])?;
    if let Err(error) = shell::run(fetch.args(["fetch", "db"])) {
        let reason = format!("no advisories, because their database cannot be reached ({error})");
        return Ok(Outcome::Unchecked(reason));
    }
    for manifest in &manifests {
        let mut check = deny(manifest)?;
        shell::run(check.args(["check", "--disable-fetch", "advisories"]))
            .with_context(|| manifest.display().to_string())?;
    }
    Ok(Outcome::Passed)
}

/// The recipes for Arch and Nix, and the scripts that packages run.
pub(super) fn recipes() -> Result<Outcome> {
    setup::programs(&[("shellcheck", "shellcheck"), ("nix-instantiate", "nix-bin")])?;
    let folder = shell::root().join("packaging");
    let mut scripts = Command::new("shellcheck");
    for script in SCRIPTS {
        scripts.arg(folder.join(script));
    }
    shell::run(&mut scripts)?;
    for entry in std::fs::read_dir(folder.join("nix"))? {
        let mut parse = Command::new("nix-instantiate");
        parse.arg("--parse").arg(entry?.path());
        shell::run(parse.stdout(Stdio::null()))?;
    }
    Ok(Outcome::Passed)
}

/// The syntax of the workflows for the public CI, and practices that are known to be unsafe.
pub(super) fn workflows() -> Result<Outcome> {
    let folder = shell::root().join(".github");
    let mut schema = tool("check-jsonschema")?;
    schema.args(["--builtin-schema", "vendor.github-workflows"]);
    for entry in std::fs::read_dir(folder.join("workflows"))? {
        schema.arg(entry?.path());
    }
    shell::run(&mut schema)?;
    let mut schema = tool("check-jsonschema")?;
    schema.args(["--builtin-schema", "vendor.dependabot"]);
    shell::run(schema.arg(folder.join("dependabot.yml")))?;
    let mut audit = tool("zizmor")?;
    if !in_public_ci() {
        audit.arg("--offline");
    }
    shell::run(audit.arg("--quiet").arg(folder))?;
    Ok(Outcome::Passed)
}
