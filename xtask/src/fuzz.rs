//! `cargo xtask fuzz`: looks for inputs that break a parser, and follows what code they reach.
//!
//! `cargo fuzz` needs a nightly compiler for its address sanitizer. What is fuzzed here has no unsafe code, so
//! coverage is all that the search needs, and any compiler adds that: it is a pass of LLVM. Inputs that together
//! reach all that was ever reached are kept in `mcpinspectd/fuzz/corpus`, an archive for each target because they
//! are many and short. Each search begins with them, and `cargo xtask check fuzz` replays them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell::{self, say};

/// Makes the compiler count which code is reached.
const COVERAGE: [&str; 7] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=4",
];
/// No input is longer, in bytes.
const LONGEST: u32 = 4096;
/// Seconds that one input may take.
const PATIENCE: u32 = 20;

/// The command line of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Options {
    /// Targets to fuzz; default: all
    targets: Vec<String>,
    /// Number of inputs to try for each target
    #[arg(long, default_value_t = 1_000_000)]
    runs: u64,
}

/// Fuzzes.
pub fn run(options: &Options) -> Result<()> {
    let known = targets()?;
    let wanted = match options.targets.as_slice() {
        [] => known.as_slice(),
        wanted => wanted,
    };
    for target in wanted {
        ensure!(
            known.contains(target),
            "unknown fuzz target {target}: the targets are {}",
            known.join(", ")
        );
    }
    let programs = build()?;
    for target in wanted {
        search(&programs.join(target), target, options.runs)?;
    }
    Ok(())
}

/// The fuzz targets by name.
pub fn targets() -> Result<Vec<String>> {
    let folder = shell::root().join("mcpinspectd/fuzz/fuzz_targets");
    let mut names: Vec<String> = std::fs::read_dir(folder)?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some(path.file_stem()?.to_string_lossy().into_owned())
        })
        .collect();
    names.sort();
    Ok(names)
}

/// The inputs that are kept for a target, as files in a folder.
pub fn corpus(target: &str) -> Result<PathBuf> {
    let folder = empty(&place().join("kept").join(target))?;
    let archive = archive(target);
    if archive.exists() {
        shell::run(
            Command::new("tar")
                .arg("-xzf")
                .arg(archive)
                .arg("-C")
                .arg(&folder),
        )?;
    }
    Ok(folder)
}

/// Keeps the inputs in a folder, and no others. The same inputs make the same archive.
fn keep(target: &str, folder: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--mtime=@0",
        "--mode=0644",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ]);
    tar.arg("-czf").arg(archive(target)).arg("-C").arg(folder);
    let mut names = std::fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<Result<Vec<_>>>()?;
    names.sort();
    shell::run(tar.args(names))
}

fn archive(target: &str) -> PathBuf {
    let folder = shell::root().join("mcpinspectd/fuzz/corpus");
    folder.join(target).with_extension("tar.gz")
}

/// An empty folder at a place.
fn empty(place: &Path) -> Result<PathBuf> {
    if place.exists() {
        std::fs::remove_dir_all(place)?;
    }
    std::fs::create_dir_all(place)?;
    Ok(place.to_owned())
}

/// Where the searches work, and save what they find.
fn place() -> PathBuf {
    shell::target().join("fuzz")
}

/// Builds the targets as programs that follow their coverage. Returns where they are.
fn build() -> Result<PathBuf> {
    let host = shell::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let host = host.trim();
    let directory = place().join("covered");
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--bins", "--locked", "--target", host]);
    cargo.arg("--manifest-path");
    cargo.arg(shell::root().join("mcpinspectd/fuzz/Cargo.toml"));
    cargo.arg("--target-dir").arg(&directory);
    // No target loads probes.
    cargo.env("MCPINSPECT_PROBES", "off");
    // Build scripts are for the host and get no flags, because the target is named.
    cargo.env("RUSTFLAGS", COVERAGE.join(" "));
    shell::run(&mut cargo)?;
    Ok(directory.join(host).join("release"))
}

/// Tries inputs, and keeps those that reach something new.
fn search(program: &Path, target: &str, runs: u64) -> Result<()> {
    let kept = corpus(target)?;
    let found = place().join("corpus").join(target);
    let failed = place().join("failed");
    for folder in [&found, &failed] {
        std::fs::create_dir_all(folder)?;
    }
    say(&format!("fuzzing {target} with {runs} inputs"));
    let libfuzzer = || {
        let mut command = Command::new(program);
        command.arg(format!("-max_len={LONGEST}"));
        command.arg(format!("-timeout={PATIENCE}"));
        command
    };
    let mut fuzz = libfuzzer();
    fuzz.arg(format!("-runs={runs}"));
    fuzz.arg(format!("-artifact_prefix={}/{target}-", failed.display()));
    fuzz.args(["-print_final_stats=1", "-verbosity=0"]);
    fuzz.args([&found, &kept]);
    shell::run(&mut fuzz).with_context(|| {
        let failed = failed.display();
        format!("an input breaks {target}; it was saved in {failed}")
    })?;
    // What reaches everything that these reach, however often.
    let fresh = empty(&place().join("merged").join(target))?;
    let mut merge = libfuzzer();
    merge.args(["-merge=1", "-use_counters=0", "-verbosity=0"]);
    shell::run(merge.args([&fresh, &kept, &found]))?;
    keep(target, &fresh)
}
