//! Installs what building and watching need: core's source, the BPF linker, tracefs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell::{self, say};

/// The linker's version. It has no LLVM of its own but uses the compiler's, so the two belong together:
/// newer linkers need an LLVM that the pinned compiler does not have.
const BPF_LINKER: &str = "0.10.4";

/// Announces how long the build will take if it is the first.
pub fn announce(profile: &str) {
    let minutes = match profile {
        "release" => 5,
        _ => 8,
    };
    if !shell::target().join(profile).join("mcpinspectd").is_file() {
        say(&format!(
            "a first build takes about {minutes} minutes on two cores; later ones one or two"
        ));
    }
}

/// Installs what compiling the probes needs.
pub fn toolchain() -> Result<()> {
    rust_source()?;
    bpf_linker()
}

fn rust_source() -> Result<()> {
    let rustc = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(shell::root())
        .output()
        .context("cannot start rustc")?;
    let sysroot = String::from_utf8_lossy(&rustc.stdout);
    let source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core");
    if source.is_dir() {
        return Ok(());
    }
    say("installing rust-src: the probes need core for a target that has no prebuilt one");
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add", "rust-src"]);
    rustup.current_dir(shell::root());
    shell::run(&mut rustup).context(
        "rust-src is required; without rustup, install the source of the Rust standard library yourself",
    )
}

fn bpf_linker() -> Result<()> {
    cargo_program("bpf-linker", BPF_LINKER, "it links the probes")
}

/// Builds a program from crates.io for this project alone, unless that version is there.
pub fn cargo_program(name: &str, version: &str, purpose: &str) -> Result<()> {
    let mut have = Command::new(name);
    // Cargo's own commands expect their name again.
    have.args(name.strip_prefix("cargo-"));
    let have = have
        .arg("--version")
        .env("PATH", shell::path())
        .stderr(Stdio::null())
        .output();
    let have = have.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if have.is_ok_and(|said| said.split_whitespace().nth(1) == Some(version)) {
        return Ok(());
    }
    let tools = shell::target().join("tools");
    say(&format!(
        "building {name} {version} in {}: {purpose}",
        tools.display()
    ));
    let mut install = shell::cargo();
    install
        .args(["install", "--locked", name, "--version", version])
        .arg("--root")
        .arg(&tools)
        // The work is done by what these programs call, which is already optimised: LLVM, cargo. The
        // rest takes as long without optimisations, and compiles in less than half the time.
        .arg("--debug")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // Built by itself: it shares nothing with this workspace.
        .env("CARGO_TARGET_DIR", shell::target().join("tools/build"));
    shell::run(&mut install).with_context(|| format!("{name} {version} is needed"))?;
    // Hundreds of megabytes that are not needed again.
    let _ = std::fs::remove_dir_all(shell::target().join("tools/build"));
    Ok(())
}

/// Mounts tracefs, which attaching the probes needs.
pub fn kernel() -> Result<()> {
    let place = "/sys/kernel/tracing";
    if mounted(place)? || mounted("/sys/kernel/debug/tracing")? {
        return Ok(());
    }
    say(&format!("mounting tracefs on {place}"));
    let mut mount = shell::as_root("mount", &[])?;
    mount.args(["-t", "tracefs", "tracefs", place]);
    shell::run(&mut mount).context("the probes attach through tracefs")
}

fn mounted(place: &str) -> Result<bool> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    Ok(mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(place)))
}

/// Ensures that programs are installed; each is listed with the Debian package that has it.
pub fn programs(needed: &[(&str, &str)]) -> Result<()> {
    let missing = |&&(program, _): &&(&str, &str)| shell::find(program).is_none();
    let mut packages: Vec<&str> = needed.iter().filter(missing).map(|(_, p)| *p).collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    // A person's machine is not changed without asking.
    let allowed = shell::is_root() || shell::in_ci();
    if !allowed || shell::find("apt-get").is_none() {
        bail!("missing programs; on Debian or Ubuntu: sudo apt-get install {list}");
    }
    say(&format!("installing Debian packages: {list}"));
    let apt = |arguments: &[&str]| {
        let quiet = ("DEBIAN_FRONTEND", OsStr::new("noninteractive"));
        let mut command = shell::as_root("apt-get", &[quiet])?;
        command
            .args(["-qq", "-o", "Dpkg::Use-Pty=0"])
            .args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        shell::run(&mut command)
    };
    let install = || {
        let mut arguments = vec!["install", "--no-install-recommends", "--yes"];
        arguments.extend(&packages);
        apt(&arguments)
    };
    // The package lists may be missing or old, but usually they are not.
    if install().is_err() {
        apt(&["update"])?;
        install()?;
    }
    Ok(())
}
