//! Where to find the things that a test starts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The repository's root.
pub fn repository() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// The directory of the programs that were built with this one, such as `target/debug`.
pub fn programs() -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own path")?;
    let directory = own.parent().context("this program has no directory")?;
    // Tests and examples are one level below the programs.
    let below = |name: &str| directory.ends_with(name);
    let directory = match (below("deps") || below("examples"), directory.parent()) {
        (true, Some(parent)) => parent,
        _ => directory,
    };
    Ok(directory.to_owned())
}

fn existing(path: PathBuf, how: &str) -> Result<PathBuf> {
    ensure!(path.exists(), "{} is missing: {how}", path.display());
    Ok(path)
}

/// A program of this workspace, such as `oddpeer`.
pub fn program(name: &str) -> Result<PathBuf> {
    existing(programs()?.join(name), "`cargo xtask test` builds it")
}

/// A program built as an example, such as `rmcp_server`.
pub fn example(name: &str) -> Result<PathBuf> {
    existing(
        programs()?.join("examples").join(name),
        "`cargo xtask test` builds it",
    )
}

/// The daemon under test; `MCPINSPECTD` overrides it.
pub fn daemon() -> Result<PathBuf> {
    match std::env::var_os("MCPINSPECTD") {
        Some(path) => existing(path.into(), "MCPINSPECTD names it"),
        None => program("mcpinspectd"),
    }
}

/// Everything that cargo and `cargo xtask` build.
pub fn built() -> Result<PathBuf> {
    let programs = programs()?;
    let directory = programs.parent().context("no directory above")?;
    Ok(directory.to_owned())
}

/// The clean Debian that containers boot.
pub fn container() -> Result<PathBuf> {
    existing(
        built()?.join("container/bookworm"),
        "`cargo xtask setup` unpacks it",
    )
}

/// The newest package with this in its name and this ending.
pub fn package(part: &str, ending: &str) -> Result<PathBuf> {
    let how = "`cargo xtask package --profile dev` builds it";
    let directory = existing(built()?.join("package/dev"), how)?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains(part) && path.extension().is_some_and(|found| found == ending) {
            found.push((path.metadata()?.modified()?, path));
        }
    }
    found.sort();
    let (_, newest) = found.pop().with_context(|| format!("no package: {how}"))?;
    Ok(newest)
}

/// The repository of the packages that tests install.
pub fn package_repository() -> Result<PathBuf> {
    existing(
        built()?.join("package/dev/repository"),
        "`cargo xtask test` makes it",
    )
}

/// Where `cargo xtask` installs peers from other ecosystems.
pub fn peers() -> PathBuf {
    repository().join("target/peers")
}

/// The Python interpreter that has the Python SDK.
pub fn python() -> Result<PathBuf> {
    existing(
        peers().join("python/bin/python"),
        "`cargo xtask test` installs it",
    )
}

/// The directory whose `node_modules` has the TypeScript SDK, the reference servers and Bun.
pub fn node_directory() -> Result<PathBuf> {
    let directory = peers().join("node");
    existing(
        directory.join("node_modules"),
        "`cargo xtask test` installs it",
    )?;
    Ok(directory)
}

/// The peer in Go, or the same without symbols.
pub fn go_peer(is_stripped: bool) -> Result<PathBuf> {
    let name = if is_stripped { "peer-stripped" } else { "peer" };
    existing(
        peers().join("go").join(name),
        "`cargo xtask test` builds it",
    )
}

/// The Bun runtime.
pub fn bun() -> Result<PathBuf> {
    existing(
        node_directory()?.join("node_modules/.bin/bun"),
        "`cargo xtask test` installs it",
    )
}

/// A script of `tests/peers`.
pub fn script(name: &str) -> Result<PathBuf> {
    existing(
        repository().join("tests/peers").join(name),
        "it is part of the repository",
    )
}
