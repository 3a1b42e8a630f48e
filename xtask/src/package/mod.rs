//! `cargo xtask package`: a `.deb` and an `.rpm`, and everything else that belongs to a release.
//!
//! Both contain the same tree of files. The distributions' own `dpkg-deb` and `rpmbuild` pack it:
//! they write exactly what their package managers read, one `apt-get install` provides them, and
//! unlike crates for the same purpose they need not be compiled.

mod archive;
mod build;
mod contents;
mod deb;
mod documents;
mod files;
mod page;
mod repository;
mod rpm;
mod sbom;
mod symbols;
mod tree;
mod twice;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::setup;
use crate::shell::{self, say};
use build::{Build, Libc, Machine};
pub use contents::PROGRAMS;
use contents::Package;
use repository::Key;

/// The command line of `cargo xtask package`.
#[derive(clap::Args)]
pub struct Options {
    /// Cargo profile of the programs; `dev` builds and packs fast, for tests
    #[arg(long, default_value = "release")]
    profile: String,
    /// Packages to build
    #[arg(long, value_enum, default_values_t = [Format::Deb, Format::Rpm])]
    format: Vec<Format>,
    /// Machines to build for; others than this one are built by a cross compiler and run by qemu
    #[arg(long, value_enum, default_value_t = Machine::host())]
    machine: Machine,
    /// Revision of the package, to distinguish packages of one version
    #[arg(long, default_value_t = 1)]
    revision: u32,
    /// Also list the components of the programs (SBOM), in CycloneDX's format
    #[arg(long)]
    sbom: bool,
    /// Also add the packages to a repository for apt and dnf in this folder
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
    /// Sign the repository with this GnuPG key
    #[arg(long, value_name = "KEY", requires = "repository")]
    sign: Option<String>,
    /// Build everything twice, in two folders, and fail if a package differs
    #[arg(long)]
    twice: bool,
    /// Pack the programs as they are. If they were built together with others, building them alone
    /// would select other features and compile all dependencies again.
    #[arg(long, conflicts_with = "twice")]
    no_build: bool,
    /// Sign with this key instead.
    #[arg(skip)]
    key: Option<Key>,
}

/// A package manager's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Debian, Ubuntu
    Deb,
    /// Fedora, RHEL, openSUSE
    Rpm,
    /// The same files as an archive, for recipes of other distributions
    Archive,
    /// `mcpinspect` alone, static, as an archive for any Linux
    Static,
}

impl Format {
    fn programs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Deb => &[("dpkg-deb", "dpkg")],
            Self::Rpm => &[("rpmbuild", "rpm")],
            Self::Archive | Self::Static => &[],
        }
    }
}

impl Options {
    /// The arguments that make the same packages elsewhere.
    fn again(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--profile={}", self.profile),
            format!("--machine={}", self.machine),
            format!("--revision={}", self.revision),
        ];
        for format in &self.format {
            let name = match format {
                Format::Deb => "deb",
                Format::Rpm => "rpm",
                Format::Archive => "archive",
                Format::Static => "static",
            };
            arguments.push(format!("--format={name}"));
        }
        if self.sbom {
            arguments.push("--sbom".to_owned());
        }
        arguments
    }
}

/// Builds the packages and prints where they are.
pub fn run(options: &Options) -> Result<()> {
    setup::toolchain()?;
    let packers = options.format.iter().flat_map(|format| format.programs());
    let tools = ["strip", "objcopy", "objdump", "readelf"].map(|name| options.machine.tool(name));
    let tools = tools
        .iter()
        .map(|tool| (tool.as_str(), options.machine.tools()));
    let needed: Vec<_> = tools
        .chain([("gzip", "gzip")])
        .chain(packers.copied())
        .collect();
    setup::programs(&needed)?;
    let package = prepare(options)?;
    let mut made = Vec::new();
    for format in &options.format {
        match format {
            Format::Deb => made.extend(deb::build(&package)?),
            Format::Rpm => made.extend(rpm::build(&package)?),
            Format::Archive => made.push(archive::tree(&package)?),
            Format::Static => made.push(archive::single(&package)?),
        }
    }
    if options.sbom {
        made.push(sbom::write(&package)?);
    }
    for path in &made {
        println!("{}", path.display());
    }
    if let Some(place) = &options.repository {
        let named = options.sign.as_deref().map(Key::of_the_user);
        repository::add(&made, place, options.key.as_ref().or(named.as_ref()))?;
    }
    if options.twice {
        twice::compare(&made, &options.again())?;
    }
    Ok(())
}

/// Packs what the tests install, as one package and its successor, and a repository of both.
pub fn for_tests() -> Result<()> {
    let repository = shell::target().join("package/dev/repository");
    let _ = std::fs::remove_dir_all(&repository);
    let key = Key::for_tests()?;
    for (revision, formats) in [(1, &[Format::Deb, Format::Rpm][..]), (2, &[Format::Deb])] {
        run(&Options {
            profile: "dev".to_owned(),
            format: formats.to_vec(),
            machine: Machine::host(),
            revision,
            sbom: false,
            repository: Some(repository.clone()),
            sign: None,
            twice: false,
            no_build: true,
            key: Some(key.clone()),
        })?;
    }
    Ok(())
}

/// Builds the programs and makes them write their man pages and completions.
fn prepare(options: &Options) -> Result<Package> {
    let build = Build {
        machine: options.machine,
        libc: Libc::Gnu,
        profile: options.profile.clone(),
    };
    build.prepare()?;
    if !options.no_build {
        let commit = shell::commit();
        let commit = commit.as_deref().unwrap_or("an unknown commit");
        say(&format!("packing {commit}"));
        let programs = PROGRAMS.iter().flat_map(|program| ["--package", program]);
        build.run(&programs.chain(["--bins"]).collect::<Vec<_>>())?;
    }
    has_probes(&build)?;
    // Keep packages for tests apart from those for people.
    let mut folder = shell::target().join("package");
    if options.profile != "release" {
        folder.push(&options.profile);
    }
    std::fs::create_dir_all(&folder)?;
    let manual = folder.join("manual");
    let _ = std::fs::remove_dir_all(&manual);
    for program in PROGRAMS {
        let mut write = build.program(program);
        write.arg("--write-manual").arg(&manual);
        shell::run(&mut write)?;
    }
    let programs = folder.join("programs");
    symbols::strip_all(&build, &programs)?;
    // Tests are not debugged from packages.
    let quick = options.profile == "dev";
    let symbols = if quick {
        None
    } else {
        symbols::collect(&build, &folder.join("debug"))?
    };
    let said = shell::output(build.program("mcpinspectd").arg("--version"))?;
    let version = said.split_whitespace().nth(1).context("no version")?;
    Ok(Package {
        version: version.to_owned(),
        revision: options.revision,
        glibc: glibc(&build)?,
        quick,
        build,
        folder,
        programs,
        symbols,
        manual,
    })
}

/// Fails if the daemon was built without its probes.
fn has_probes(build: &Build) -> Result<()> {
    let said = build
        .program("mcpinspectd")
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
fn glibc(build: &Build) -> Result<String> {
    let program = build.folder().join("mcpinspectd");
    let mut dump = Command::new(build.machine.tool("objdump"));
    let symbols = shell::output(dump.arg("-T").arg(program))?;
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
