//! `cargo xtask check` and `eval`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::setup;
use crate::shell::{self, say};

/// Packages outside the workspace, because their host or tool chain is another.
const OUTSIDE: &[&str] = &["mcpinspectd-ebpf", "mcpinspectd/fuzz"];

/// The command line of `cargo xtask check`.
#[derive(clap::Args)]
pub struct Options {
    /// Also checks licences, sources and duplicates of all dependencies (needs `cargo deny`)
    #[arg(long)]
    dependencies: bool,
    /// Also builds the programs for aarch64 (installs what that needs)
    #[arg(long)]
    aarch64: bool,
}

/// Another architecture's programs are linked by Debian's cross compiler.
const AARCH64: &str = "aarch64-unknown-linux-gnu";
const CROSS: &[(&str, &str)] = &[
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("aarch64-linux-gnu-ld", "libc6-dev-arm64-cross"),
];

/// Checks format and lints.
pub fn run(options: &Options) -> Result<()> {
    setup::toolchain()?;
    say("checking the format");
    let mut format = shell::cargo();
    format.args(["fmt", "--all", "--check"]);
    shell::run(&mut format)?;
    for manifest in outside() {
        let mut format = shell::cargo();
        format
            .args(["fmt", "--check", "--manifest-path"])
            .arg(manifest);
        shell::run(&mut format)?;
    }
    say("checking the workspace");
    let mut lints = shell::cargo();
    lints.args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--quiet",
    ]);
    lints.args(["--", "--deny", "warnings"]);
    shell::run(&mut lints)?;
    probes()?;
    if options.aarch64 {
        aarch64()?;
    }
    if options.dependencies {
        say("checking the dependencies");
        let mut deny = shell::cargo();
        deny.args(["deny", "--offline", "check", "licenses", "bans", "sources"]);
        shell::run(&mut deny)
            .context("`cargo install --locked cargo-deny` installs what this needs")?;
    }
    Ok(())
}

fn aarch64() -> Result<()> {
    setup::programs(CROSS)?;
    let mut target = Command::new("rustup");
    shell::run(target.args(["target", "add", AARCH64]))?;
    say("building for aarch64");
    let mut build = shell::cargo();
    build.args(["build", "--package", "mcpinspectd", "--bins", "--locked"]);
    build.args(["--target", AARCH64]);
    let linker = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER";
    build.env(linker, "aarch64-linux-gnu-gcc");
    build.env("CC_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-gcc");
    shell::run(&mut build)
}

fn outside() -> impl Iterator<Item = PathBuf> {
    OUTSIDE
        .iter()
        .map(|package| shell::root().join(package).join("Cargo.toml"))
        .filter(|manifest| manifest.is_file())
}

/// Lints the probes for the target that they are built for.
fn probes() -> Result<()> {
    let manifest = shell::root().join("mcpinspectd-ebpf/Cargo.toml");
    ensure!(manifest.is_file(), "the probes' package is missing");
    say("checking the probes");
    let mut lints = shell::cargo();
    lints
        .args(["clippy", "--release", "--locked", "--quiet"])
        .args(["-Z", "build-std=core", "--target", "bpfel-unknown-none"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(shell::target().join("bpf"))
        .args(["--", "--deny", "warnings"])
        // The pinned stable compiler builds its own core for a target without a shipped one.
        .env("RUSTC_BOOTSTRAP", "1")
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            "--cfg=bpf_target_arch=\"x86_64\"",
        );
    shell::run(&mut lints)
}

/// Runs the evaluation of detection on a directory of labelled files.
pub fn eval(directory: &Path, arguments: &[String]) -> Result<()> {
    ensure!(
        directory.is_dir(),
        "{} is not a directory: name the one with the labelled files",
        directory.display()
    );
    let directory = directory.canonicalize()?;
    let mut eval = shell::cargo();
    eval.args(["run", "--release", "--quiet"]);
    eval.args(["--package", "mcpinspect-tests", "--bin", "evaluate", "--"]);
    eval.arg(directory).args(arguments);
    shell::run(&mut eval)
}
