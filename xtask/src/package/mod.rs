//! `cargo xtask package`: a `.deb` and an `.rpm`.
//!
//! Both contain the same tree of files. The distributions' own `dpkg-deb` and `rpmbuild` pack it:
//! they write exactly what their package managers read, one `apt-get install` provides them, and
//! unlike crates for the same purpose they need not be compiled.

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
    /// Revision of the package, to tell packages of one version apart
    #[arg(long, default_value_t = 1)]
    revision: u32,
    /// The programs are built already, together with others. Building them alone would select other
    /// features and compile all dependencies again.
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

/// Packs what the tests install, as one package and its successor.
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

/// Builds the programs and has them write their man pages and completions.
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
    // Keep packages for tests apart from those for people.
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

/// Fails if the daemon was built without its probes.
fn has_probes(daemon: &PathBuf) -> Result<()> {
    let said = Command::new(daemon)
        .args(["check", "--json"])
        .stderr(Stdio::inherit())
        // Its exit code is about this machine, which need not be able to watch.
        .output()
        .context("cannot start the daemon")?;
    let report: Value = serde_json::from_slice(&said.stdout)?;
    let checks = report["checks"].as_array().context("no checks")?;
    let probes = checks.iter().find(|check| check["name"] == "probes");
    let probes = probes.context("the daemon does not report on its probes")?;
    ensure!(probes["verdict"] == "ok", "probes: {}", probes["found"]);
    Ok(())
}

/// The newest GNU C library symbol version that a program requires.
fn glibc(program: &PathBuf) -> Result<String> {
    let symbols = shell::output(Command::new("objdump").arg("-T").arg(program))?;
    newest_glibc(&symbols).context("the programs are not linked to the GNU C library")
}

fn newest_glibc(symbols: &str) -> Option<String> {
    let versions = symbols.lines().filter(|line| {
        // Weak symbols may be missing.
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
