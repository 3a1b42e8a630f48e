//! `cargo xtask run` and `build-ebpf`.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::setup;
use crate::shell::{self, say};

/// The command line of `cargo xtask run`.
#[derive(clap::Args)]
pub struct Options {
    /// Demonstrate the daemon on small live sessions over pipes and HTTP; one has a tool that turns malicious
    #[arg(long)]
    demo: bool,
    /// Build with optimisations
    #[arg(long)]
    release: bool,
    /// Arguments for mcpinspectd; by default `tap`, which prints every message as it happens
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds the daemon and replaces this process with it.
pub fn run(options: &Options) -> Result<()> {
    let profile = if options.release { "release" } else { "debug" };
    setup::announce(profile);
    setup::toolchain()?;
    setup::kernel()?;
    let mut build = shell::cargo();
    build.args(["build", "--locked", "--package", "mcpinspectd"]);
    build.args(["--bin", "mcpinspectd"]);
    if options.demo {
        // The demonstration starts the daemon and asks it with `mcpinspect`.
        build.args(["--package", "mcpinspect-tests", "--bin", "demo"]);
        build.args(["--package", "mcpinspect", "--bin", "mcpinspect"]);
    }
    if options.release {
        build.arg("--release");
    }
    say("building the daemon");
    shell::run(&mut build)?;
    let program = built(profile, if options.demo { "demo" } else { "mcpinspectd" });
    let mut command = shell::as_root(&program, &[])?;
    if !options.demo && options.arguments.is_empty() {
        say("watching every MCP server on this machine; press Ctrl-C to stop");
        command.arg("tap");
    }
    command.args(&options.arguments);
    // From here on Ctrl-C reaches the daemon alone.
    Err(command.exec()).with_context(|| format!("starting {}", program.display()))
}

/// Builds the probes and prints what is in them.
pub fn build_ebpf() -> Result<()> {
    setup::toolchain()?;
    let object = probes()?;
    let size = std::fs::metadata(&object)?.len();
    println!("{} ({size} bytes)", object.display());
    for (name, instructions) in programs(&std::fs::read(&object)?)? {
        println!("{instructions:>8} instructions  {name}");
    }
    Ok(())
}

/// Builds the probes and returns the object file that the daemon's build script made.
fn probes() -> Result<PathBuf> {
    let mut build = shell::cargo();
    build.args(["build", "--locked", "--package", "mcpinspect-capture"]);
    build.arg("--message-format=json-render-diagnostics");
    let said = shell::output(&mut build)?;
    let out = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "build-script-executed")
        .filter(|message| {
            let package = message["package_id"].as_str().unwrap_or_default();
            package.contains("/mcpinspectd/capture#")
        })
        .find_map(|message| message["out_dir"].as_str().map(PathBuf::from))
        .context("the build script of the probes did not run")?;
    let object = out.join("probes.o");
    let size = std::fs::metadata(&object).map(|data| data.len());
    ensure!(
        size.is_ok_and(|size| size > 0),
        "the probes were not built; see the warnings above"
    );
    Ok(object)
}

/// The executable sections of a 64-bit ELF object, with their lengths in BPF instructions.
fn programs(object: &[u8]) -> Result<Vec<(String, u64)>> {
    let number = |at: u64, size: usize| -> Result<u64> {
        let at = usize::try_from(at)?;
        let bytes = object
            .get(at..at + size)
            .context("the object is truncated")?;
        let little = bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Ok(little)
    };
    ensure!(
        object.starts_with(b"\x7fELF\x02\x01"),
        "not a little-endian ELF object"
    );
    let (table, size, count, names) = (
        number(40, 8)?,
        number(58, 2)?,
        number(60, 2)?,
        number(62, 2)?,
    );
    let names = number(table + names * size + 24, 8)?;
    let mut found = Vec::new();
    for section in (0..count).map(|n| table + n * size) {
        let (kind, flags, length) = (
            number(section + 4, 4)?,
            number(section + 8, 8)?,
            number(section + 32, 8)?,
        );
        let (program_bits, executable) = (1, 4);
        if kind != program_bits || flags & executable == 0 || length == 0 {
            continue;
        }
        let start = usize::try_from(names + number(section, 4)?)?;
        let name = object.get(start..).context("the object is truncated")?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        found.push((String::from_utf8_lossy(name).into_owned(), length / 8));
    }
    found.sort();
    Ok(found)
}

/// The path of a built program.
pub fn built(profile: &str, name: impl AsRef<Path>) -> PathBuf {
    shell::target().join(profile).join(name)
}
