//! What goes wrong is said in one sentence that a person can act on, with an exit code.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::places;

/// Runs to the end, which has to come soon.
fn run(mut command: Command) -> Result<(Output, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            child.kill()?;
            anyhow::bail!("{command:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output, errors))
}

/// A refusal: exit code, a short text that names the cause, no panic, no backtrace.
fn refused(command: Command, names: &[&str]) -> Result<()> {
    let what = format!("{command:?}");
    let (output, errors) = run(command)?;
    ensure!(!output.status.success(), "{what} succeeded");
    ensure!(
        output.status.code().is_some(),
        "{what} was killed: {errors}"
    );
    let lines = errors
        .lines()
        .filter(|line| !line.trim().is_empty())
        .count();
    ensure!(
        (1..=4).contains(&lines),
        "{what} said in {lines} lines:\n{errors}"
    );
    ensure!(!errors.contains("panicked"), "{what} said:\n{errors}");
    let lower = errors.to_lowercase();
    ensure!(
        names.iter().any(|name| lower.contains(name)),
        "{what} should say one of {names:?}:\n{errors}"
    );
    Ok(())
}

/// The daemon at a path that every user may execute.
fn for_everyone() -> Result<(tempfile::TempDir, std::path::PathBuf)> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("mcpinspectd");
    std::fs::copy(places::daemon()?, &path)?;
    for place in [directory.path(), &path] {
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok((directory, path))
}

#[test]
fn without_root() -> Result<()> {
    let (_directory, daemon) = for_everyone()?;
    for arguments in [&["tap"][..], &["run"]] {
        let mut command = Command::new("setpriv");
        command
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--inh-caps=-all",
            ])
            .arg(&daemon)
            .args(arguments)
            .current_dir("/");
        refused(command, &["root", "cap_bpf", "sudo"])?;
    }
    Ok(())
}

#[test]
fn a_configuration_that_is_not_there_or_not_right() -> Result<()> {
    let files = tempfile::tempdir()?;
    let wrong = files.path().join("wrong.toml");
    std::fs::write(&wrong, "no_such_setting = 1\n")?;
    let broken = files.path().join("broken.toml");
    std::fs::write(&broken, "[sinks\n")?;
    let missing = files.path().join("missing.toml");
    for (path, names) in [
        (&wrong, "no_such_setting"),
        (&broken, "broken.toml"),
        (&missing, "missing.toml"),
    ] {
        let mut command = Command::new(places::daemon()?);
        command.arg("run").arg("--config").arg(path);
        refused(command, &[names])?;
    }
    Ok(())
}

#[test]
fn options_that_do_not_exist() -> Result<()> {
    let mut command = Command::new(places::daemon()?);
    command.args(["tap", "--format", "yaml"]);
    let (output, errors) = run(command)?;
    ensure!(
        output.status.code() == Some(2),
        "{:?}: {errors}",
        output.status
    );
    ensure!(
        errors.contains("jsonl"),
        "the formats are not named:\n{errors}"
    );
    Ok(())
}

#[test]
fn the_preflight_passes_here() -> Result<()> {
    let mut command = Command::new(places::daemon()?);
    command.arg("check");
    let (output, errors) = run(command)?;
    let report = String::from_utf8(output.stdout).context("its report")?;
    ensure!(output.status.success(), "{report}{errors}");
    let lower = report.to_lowercase();
    for subject in ["kernel", "btf", "lockdown", "capabilit", "tracefs", "ring"] {
        ensure!(
            lower.contains(subject),
            "nothing about {subject}:\n{report}"
        );
    }
    Ok(())
}

/// Without privileges the preflight says so and what to do, for each point.
#[test]
fn the_preflight_without_root() -> Result<()> {
    let (_directory, daemon) = for_everyone()?;
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
        ])
        .arg(&daemon)
        .arg("check")
        .current_dir("/");
    let (output, errors) = run(command)?;
    let report = String::from_utf8_lossy(&output.stdout).to_lowercase();
    ensure!(!output.status.success(), "{report}{errors}");
    ensure!(
        report.contains("root") || report.contains("cap_"),
        "{report}{errors}"
    );
    Ok(())
}
