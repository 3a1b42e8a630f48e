//! `cargo xtask package`: a `.deb` and an `.rpm`.
//!
//! Both hold the same tree of files, made here; the packing is left to the distributions' own
//! `dpkg-deb` and `rpmbuild`. Those are on every machine that packages are made on (and one
//! `apt-get install` away elsewhere), write exactly what their package managers read, and cost no
//! build of their own, as crates that do the same would.

mod contents;
mod deb;
mod documents;
mod files;
mod page;
mod rpm;
mod tree;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::run::built;
use crate::setup;
use crate::shell::{self, say};
use contents::{PROGRAMS, Package};

/// The command line of `cargo xtask package`.
#[derive(clap::Args)]
pub struct Options {
    /// Cargo profile of the programs; `dev` builds and packs fast, for tests
    #[arg(long, default_value = "release")]
    profile: String,
    /// Which packages to build
    #[arg(long, value_enum, default_values_t = [Format::Deb, Format::Rpm])]
    format: Vec<Format>,
    /// Revision of the packaging, for several packages of one version
    #[arg(long, default_value_t = 1)]
    revision: u32,
    /// The programs are built already, with others whose needs their dependencies meet too: to build
    /// them alone would be to build all of those a second time
    #[arg(skip)]
    built: bool,
}

/// A package manager's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Debian, Ubuntu
    Deb,
    /// Fedora, RHEL, openSUSE
    Rpm,
}

impl Format {
    fn programs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Deb => &[("dpkg-deb", "dpkg")],
            Self::Rpm => &[("rpmbuild", "rpm")],
        }
    }
}

/// Builds the packages and prints where they are.
pub fn run(options: &Options) -> Result<()> {
    setup::toolchain()?;
    let packers = options.format.iter().flat_map(|format| format.programs());
    let tools = [
        ("strip", "binutils"),
        ("objdump", "binutils"),
        ("gzip", "gzip"),
    ];
    let needed: Vec<_> = tools.iter().chain(packers).copied().collect();
    setup::programs(&needed)?;
    let package = prepare(options)?;
    for format in &options.format {
        let made = match format {
            Format::Deb => deb::build(&package)?,
            Format::Rpm => rpm::build(&package)?,
        };
        println!("{}", made.display());
    }
    Ok(())
}

/// Builds what the tests install: the programs that they run anyway, as a package and its successor.
pub fn for_tests() -> Result<()> {
    for (revision, formats) in [(1, &[Format::Deb, Format::Rpm][..]), (2, &[Format::Deb])] {
        run(&Options {
            profile: "dev".to_owned(),
            format: formats.to_vec(),
            revision,
            built: true,
        })?;
    }
    Ok(())
}

/// Builds the programs and has them write their manual.
fn prepare(options: &Options) -> Result<Package> {
    if !options.built {
        let commit = shell::commit();
        say(&format!(
            "building the {} profile of {}",
            options.profile,
            commit.as_deref().unwrap_or("an unknown commit")
        ));
        let mut build = shell::cargo();
        build.args(["build", "--locked", "--package", "mcpinspectd", "--bins"]);
        build.args(["--profile", &options.profile]);
        shell::run(&mut build)?;
    }
    let profile = match options.profile.as_str() {
        "dev" | "test" => "debug",
        "bench" => "release",
        other => other,
    };
    let daemon = built(profile, "mcpinspectd");
    has_probes(&daemon)?;
    // What tests install is never taken for what people do.
    let mut folder = shell::target().join("package");
    if profile != "release" {
        folder.push(&options.profile);
    }
    std::fs::create_dir_all(&folder)?;
    let manual = folder.join("manual");
    let _ = std::fs::remove_dir_all(&manual);
    for program in PROGRAMS {
        let mut write = Command::new(built(profile, program));
        write.arg("--write-manual").arg(&manual);
        shell::run(&mut write)?;
    }
    let said = shell::output(Command::new(&daemon).arg("--version"))?;
    let version = said.split_whitespace().nth(1).context("no version")?;
    Ok(Package {
        version: version.to_owned(),
        revision: options.revision,
        architecture: std::env::consts::ARCH.to_owned(),
        glibc: glibc(&daemon)?,
        quick: profile == "debug",
        programs: daemon.parent().context("no folder")?.to_owned(),
        folder,
        manual,
    })
}

/// A package whose daemon cannot watch is none.
fn has_probes(daemon: &PathBuf) -> Result<()> {
    let said = Command::new(daemon)
        .args(["check", "--json"])
        .stderr(Stdio::inherit())
        // Its exit code is about this machine, which need not be one to watch.
        .output()
        .context("the daemon cannot be started")?;
    let report: Value = serde_json::from_slice(&said.stdout)?;
    let checks = report["checks"].as_array().context("no checks")?;
    let probes = checks.iter().find(|check| check["name"] == "probes");
    let probes = probes.context("the daemon says nothing of its probes")?;
    ensure!(probes["verdict"] == "ok", "probes: {}", probes["found"]);
    Ok(())
}

/// The newest version of the GNU C library's symbols that a program asks for.
fn glibc(program: &PathBuf) -> Result<String> {
    let symbols = shell::output(Command::new("objdump").arg("-T").arg(program))?;
    newest_glibc(&symbols).context("the programs are not linked to the GNU C library")
}

fn newest_glibc(symbols: &str) -> Option<String> {
    let versions = symbols.lines().filter(|line| {
        // A weak symbol may be absent.
        !line.contains(" w ")
    });
    let newest = versions
        .filter_map(|line| line.split("GLIBC_").nth(1))
        .filter_map(|rest| {
            let version = rest
                .split(|c: char| !c.is_ascii_digit() && c != '.')
                .next()?;
            let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
            Some((numbers.next()??, numbers.next()??))
        })
        .max()?;
    Some(format!("{}.{}", newest.0, newest.1))
}

#[cfg(test)]
mod tests {
    use super::newest_glibc;

    #[test]
    fn the_newest_symbol_that_must_be_there_counts() {
        let symbols = "\
0000000000000000      DF *UND*	0000000000000000 (GLIBC_2.2.5) read
0000000000000000      DF *UND*	0000000000000000 (GLIBC_2.34) dlsym
0000000000000000      DF *UND*	0000000000000000 (GLIBC_2.9) pipe2
0000000000000000  w   DF *UND*	0000000000000000 (GLIBC_2.39) pidfd_spawnp
0000000000000000      DF *UND*	0000000000000000 (GCC_3.0)   _Unwind_Resume
";
        assert_eq!(newest_glibc(symbols).as_deref(), Some("2.34"));
        assert_eq!(newest_glibc("(GCC_3.0)"), None);
    }
}
