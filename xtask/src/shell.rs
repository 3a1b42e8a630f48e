//! Runs other programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// The repository's root.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Where cargo builds.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// Announces in one line what is about to happen.
pub fn say(what: &str) {
    eprintln!("xtask: {what}");
}

/// Whether this is CI, where packages may be installed without asking.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// The cargo that runs us.
pub fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).env("PATH", path());
    // What the programs print with `--version`.
    command.env("MCPINSPECT_COMMIT", commit().unwrap_or_default());
    // `cargo run` sets these for xtask itself; builds of other packages must not see them.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
        command.env_remove(name);
    }
    command
}

/// The commit that is being built, marked if files differ from it. `None` outside a repository.
pub fn commit() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() {
        commit
    } else {
        format!("{commit}-dirty")
    })
}

/// When the commit was made, in seconds since 1970. Packages carry this time.
pub fn commit_time() -> Option<String> {
    git(&["log", "-1", "--format=%ct"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    git.args(arguments)
        .current_dir(root())
        .stderr(Stdio::null());
    let output = git.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim_end().to_owned())
}

/// `PATH`, preceded by the tools that were installed for this project alone.
pub fn path() -> std::ffi::OsString {
    let mut path = target().join("tools/bin").into_os_string();
    if let Some(inherited) = std::env::var_os("PATH") {
        path.push(":");
        path.push(inherited);
    }
    path
}

/// Runs a program and fails if it does.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", name(command)))?;
    ensure!(status.success(), "{} ended with {status}", name(command));
    Ok(())
}

/// Runs a program and returns its output, or fails if it does.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", name(command)))?;
    ensure!(
        output.status.success(),
        "{} ended with {}",
        name(command),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let first = command.get_args().next().unwrap_or_default();
    format!("`{} {}`", program.display(), first.display())
        .trim()
        .to_owned()
}

/// Looks a program up in `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&path())
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

/// Whether this runs as root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A command to run as root, through `sudo` unless this is root already, with these variables set.
pub fn as_root(program: impl AsRef<OsStr>, variables: &[(&str, &OsStr)]) -> Result<Command> {
    if is_root() {
        let mut command = Command::new(program);
        command.envs(variables.iter().copied());
        return Ok(command);
    }
    let program = program.as_ref();
    if find("sudo").is_none() {
        bail!(
            "{} needs root, and sudo is not installed",
            program.display()
        );
    }
    let mut command = Command::new("sudo");
    command.arg("env");
    for (name, value) in variables {
        let mut assignment = std::ffi::OsString::from(name);
        assignment.push("=");
        assignment.push(value);
        command.arg(assignment);
    }
    command.arg(program);
    Ok(command)
}
