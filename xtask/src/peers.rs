//! Installs the real MCP clients and servers that the tests talk to, below `target`, in the versions
//! that `tests/peers` pins.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::shell::{self, say};
use crate::{python, setup};

/// Programs that the tests start, and the Debian packages that provide them. A test that lacks one
/// names the package from the same list.
const PROGRAMS: &[(&str, &str)] = include!("../../tests/support/programs.in");

/// Programs of the tests that run without privileges.
const UNPRIVILEGED: &[&str] = &[
    "/usr/lib/systemd/systemd-journal-remote",
    "chromium",
    "/usr/sbin/clickhouse-server",
    "python3",
    "systemd-analyze",
];

/// Makes sure that everything is there that the tests without privileges start.
pub fn unprivileged() -> Result<()> {
    let needed = PROGRAMS
        .iter()
        .filter(|(program, _)| UNPRIVILEGED.contains(program));
    setup::programs(&needed.copied().collect::<Vec<_>>())?;
    clickhouse()?;
    python()
}

/// Installs all peers.
pub fn install() -> Result<()> {
    setup::programs(PROGRAMS)?;
    clickhouse()?;
    python()?;
    node()?;
    go()
}

/// Whether `stamp` says that `wanted` is already installed.
fn installed(stamp: &Path, wanted: &str) -> bool {
    std::fs::read_to_string(stamp).is_ok_and(|have| have == wanted)
}

fn python() -> Result<()> {
    let source = shell::root().join("tests/peers/python/requirements.txt");
    let wanted = std::fs::read_to_string(&source).context("the Python requirements")?;
    python::environment(&shell::target().join("peers/python"), &wanted)
}

/// A current ClickHouse, which Debian does not have: the engine is a Python library. It is kept apart from the
/// other packages because it is large.
fn clickhouse() -> Result<()> {
    let source = shell::root().join("tests/peers/clickhouse/requirements.txt");
    let wanted = std::fs::read_to_string(&source).context("the requirements of ClickHouse")?;
    python::environment(&shell::target().join("peers/clickhouse"), &wanted)
}

fn node() -> Result<()> {
    let source = shell::root().join("tests/peers/node");
    let place = shell::target().join("peers/node");
    std::fs::create_dir_all(&place)?;
    // Node finds what the scripts import because they are next to the packages.
    for entry in std::fs::read_dir(&source)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), place.join(entry.file_name()))?;
        }
    }
    let wanted = std::fs::read_to_string(source.join("package-lock.json"))?;
    let stamp = place.join("installed.json");
    if installed(&stamp, &wanted) {
        return Ok(());
    }
    say(&format!("installing Node peers to {}", place.display()));
    let mut npm = Command::new("npm");
    npm.args(["ci", "--silent", "--prefix"]).arg(&place);
    shell::run(&mut npm)?;
    bun(&place)?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}

/// Builds the Go peers, as they are and stripped. The compiler and its caches are not kept: they are large, and
/// quickly fetched again.
fn go() -> Result<()> {
    let source = shell::root().join("tests/peers/go");
    let place = shell::target().join("peers/go");
    let mut wanted = String::new();
    let mut files: Vec<_> = std::fs::read_dir(&source)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    for file in files {
        wanted += &std::fs::read_to_string(file.path())?;
    }
    let stamp = place.join("built.txt");
    if installed(&stamp, &wanted) {
        return Ok(());
    }
    std::fs::create_dir_all(&place)?;
    let compiler = place.join("compiler");
    let requirements = std::fs::read_to_string(source.join("requirements.txt"))?;
    python::environment(&compiler, &requirements)?;
    say(&format!("building the peers in Go in {}", place.display()));
    for (name, flags) in [("peer", ""), ("peer-stripped", "-s -w")] {
        let mut build = Command::new(compiler.join("bin/go"));
        build.args(["build", "-trimpath", "-ldflags", flags, "-o"]);
        build.arg(place.join(name)).arg(".").current_dir(&source);
        // Nothing but its standard library, and none of this machine's settings.
        build.env("GOCACHE", compiler.join("cache"));
        build.env("GOPATH", compiler.join("path"));
        build.envs([
            ("CGO_ENABLED", "0"),
            ("GOENV", "off"),
            ("GOFLAGS", "-mod=mod"),
            ("GOPROXY", "off"),
            ("GOTOOLCHAIN", "local"),
        ]);
        shell::run(&mut build)?;
    }
    std::fs::remove_dir_all(compiler)?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}

/// Bun's package installs its program in a script, which npm may be configured not to run.
fn bun(place: &Path) -> Result<()> {
    let works = || {
        let mut bun = Command::new(place.join("node_modules/.bin/bun"));
        bun.arg("--version").stdout(Stdio::null());
        bun.stderr(Stdio::null());
        bun.status().is_ok_and(|status| status.success())
    };
    if !works() {
        let package = place.join("node_modules/bun");
        let mut install = Command::new("node");
        install.arg("install.js").current_dir(package);
        shell::run(&mut install)?;
        ensure!(works(), "Bun does not run on this machine");
    }
    Ok(())
}
