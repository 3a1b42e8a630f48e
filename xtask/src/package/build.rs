//! How the programs are built for a package: for which machine, against which C library, and so
//! that two builds of a commit are identical to the byte.
//!
//! Two builds differ in where their sources are. Those paths end up in panic messages, in the
//! assertions of the C libraries and in the names of debug information, so the compilers replace
//! them with names that are the same everywhere. The probes' own build does that itself.
//!
//! Programs carry a build ID, a hash of what is in them, by which debuggers find their symbols.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::shell::{self, say};

/// A kind of machine that packages are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Machine {
    /// 64-bit PCs; Debian's amd64
    #[value(name = "x86_64")]
    X86_64,
    /// 64-bit Arm; Debian's arm64
    #[value(name = "aarch64")]
    Aarch64,
}

impl Machine {
    /// The machine that this runs on.
    pub(super) fn host() -> Self {
        match std::env::consts::ARCH {
            "aarch64" => Self::Aarch64,
            _ => Self::X86_64,
        }
    }

    /// Its name, as `uname --machine` and rpm have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Debian's name for it.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    fn is_host(self) -> bool {
        self == Self::host()
    }

    /// A program of the GNU tools that reads or writes this machine's executables.
    pub(super) fn tool(self, name: &str) -> String {
        if self.is_host() {
            return name.to_owned();
        }
        format!("{}-linux-gnu-{name}", self.name())
    }

    /// The Debian package of those tools.
    pub(super) fn tools(self) -> &'static str {
        match self {
            _ if self.is_host() => "binutils",
            Self::X86_64 => "binutils-x86-64-linux-gnu",
            Self::Aarch64 => "binutils-aarch64-linux-gnu",
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The C library that programs are linked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Libc {
    /// GNU's, dynamically.
    Gnu,
    /// musl, statically.
    Musl,
}

/// A build.
#[derive(Clone, Debug)]
pub(super) struct Build {
    pub(super) machine: Machine,
    pub(super) libc: Libc,
    /// Cargo's profile.
    pub(super) profile: String,
}

impl Build {
    fn triple(&self) -> String {
        let libc = match self.libc {
            Libc::Gnu => "gnu",
            Libc::Musl => "musl",
        };
        format!("{}-unknown-linux-{libc}", self.machine)
    }

    /// Whether cargo builds it without an explicit target.
    fn is_native(&self) -> bool {
        self.machine.is_host() && self.libc == Libc::Gnu
    }

    /// Where cargo puts the programs.
    pub(super) fn folder(&self) -> PathBuf {
        let profile = match self.profile.as_str() {
            "dev" | "test" => "debug",
            "bench" => "release",
            other => other,
        };
        let mut folder = shell::target();
        if !self.is_native() {
            folder.push(self.triple());
        }
        folder.join(profile)
    }

    /// A command that runs one of the programs, on an emulated machine if it is for another one.
    pub(super) fn program(&self, name: &str) -> Command {
        let path = self.folder().join(name);
        if self.machine.is_host() {
            return Command::new(path);
        }
        let mut emulated = Command::new(format!("qemu-{}", self.machine));
        emulated.arg("-L");
        emulated.arg(format!("/usr/{}-linux-gnu", self.machine));
        emulated.arg(path);
        emulated
    }

    /// Installs what building and running for such a machine requires.
    pub(super) fn prepare(&self) -> Result<()> {
        match (self.machine.is_host(), self.libc, self.machine) {
            (true, Libc::Gnu, _) => return Ok(()),
            (true, Libc::Musl, _) => setup::programs(&[("musl-gcc", "musl-tools")])?,
            (false, Libc::Gnu, Machine::Aarch64) => setup::programs(&[
                ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
                (
                    "/usr/aarch64-linux-gnu/include/stdint.h",
                    "libc6-dev-arm64-cross",
                ),
                ("qemu-aarch64", "qemu-user"),
            ])?,
            (false, Libc::Gnu, Machine::X86_64) => setup::programs(&[
                ("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"),
                (
                    "/usr/x86_64-linux-gnu/include/stdint.h",
                    "libc6-dev-amd64-cross",
                ),
                ("qemu-x86_64", "qemu-user"),
            ])?,
            (false, Libc::Musl, _) => bail!(
                "Debian has no musl for other machines: build the static program on {}",
                self.machine
            ),
        }
        let mut target = Command::new("rustup");
        target.args(["target", "add", &self.triple()]);
        shell::run(target.current_dir(shell::root()))
            .with_context(|| format!("the standard library for {} is needed", self.triple()))
    }

    /// Builds with these arguments of `cargo build`.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<()> {
        say(&format!(
            "building the {} profile for {}",
            self.profile,
            self.triple()
        ));
        let mut build = shell::cargo();
        build.args(["build", "--locked"]);
        build.args(["--profile", &self.profile]).args(arguments);
        if !self.is_native() {
            let triple = self.triple();
            build.args(["--target", &triple]);
            let compiler = match self.libc {
                Libc::Gnu => self.machine.tool("gcc"),
                Libc::Musl => "musl-gcc".to_owned(),
            };
            let place = triple.replace('-', "_");
            build.env(format!("CC_{place}"), &compiler);
            if self.libc == Libc::Gnu {
                build.env(format!("AR_{place}"), self.machine.tool("ar"));
                let linker = format!("CARGO_TARGET_{}_LINKER", place.to_uppercase());
                build.env(linker, &compiler);
            }
        }
        if self.profile == "release" {
            for_packages(&mut build)?;
        }
        shell::run(&mut build)
    }
}

/// Has the linker write build IDs, and keeps the paths of the sources out of what is built.
fn for_packages(build: &mut Command) -> Result<()> {
    let mut rust: Vec<OsString> = Vec::new();
    let mut c = OsString::new();
    for (from, to) in places()? {
        let mut mapping = from.into_os_string();
        mapping.push("=");
        mapping.push(to);
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(&mapping);
        rust.push(flag);
        if !c.is_empty() {
            c.push(" ");
        }
        c.push("-ffile-prefix-map=");
        c.push(&mapping);
    }
    rust.push("-Clink-arg=-Wl,--build-id=sha1".into());
    build.env(
        "CARGO_ENCODED_RUSTFLAGS",
        rust.join(&OsString::from("\x1f")),
    );
    build.env("CFLAGS", c);
    if let Some(time) = shell::commit_time() {
        build.env("SOURCE_DATE_EPOCH", time);
    }
    Ok(())
}

/// Folders that differ between machines, and what they are called instead.
fn places() -> Result<[(PathBuf, String); 4]> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    let target = shell::target();
    let target = std::fs::canonicalize(&target).unwrap_or(target);
    Ok([
        (shell::root(), "/mcpinspectd".to_owned()),
        (target, "/mcpinspectd/target".to_owned()),
        (straight(&home), "/cargo".to_owned()),
        standard_library()?,
    ])
}

/// The sources of the standard library, and what the compiler calls them where they are not installed.
fn standard_library() -> Result<(PathBuf, String)> {
    let ask = |question: &str, value: &[&str]| {
        let mut compiler = Command::new("rustc");
        compiler
            .arg(question)
            .args(value)
            .current_dir(shell::root());
        shell::output(&mut compiler)
    };
    let root = ask("--print", &["sysroot"])?;
    let version = ask("-vV", &[])?;
    let commit = version
        .lines()
        .find_map(|line| line.strip_prefix("commit-hash: "))
        .context("rustc does not say which commit it was built from")?;
    let sources = Path::new(root.trim()).join("lib/rustlib/src/rust");
    Ok((sources, format!("/rustc/{commit}")))
}

fn straight(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Build, Libc, Machine};
    use crate::shell;

    fn build(libc: Libc, machine: Machine) -> Build {
        Build {
            machine,
            libc,
            profile: "release".to_owned(),
        }
    }

    #[test]
    fn only_this_machines_own_programs_are_built_without_a_target() {
        let own = build(Libc::Gnu, Machine::host());
        assert_eq!(own.folder(), shell::target().join("release"));
        let own = build(Libc::Musl, Machine::host());
        let folder = own.folder();
        assert!(
            folder.to_string_lossy().contains("-unknown-linux-musl/"),
            "{folder:?}"
        );
    }

    #[test]
    fn programs_for_other_machines_run_emulated() {
        let other = match Machine::host() {
            Machine::X86_64 => Machine::Aarch64,
            Machine::Aarch64 => Machine::X86_64,
        };
        let command = build(Libc::Gnu, other).program("mcpinspect");
        let program = command.get_program().to_string_lossy().into_owned();
        assert_eq!(program, format!("qemu-{other}"));
    }
}
