//! `mcpinspect fleet` where something goes wrong: it is killed, or a disk is full.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failing test may panic"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

#[path = "support/mod.rs"]
mod support;

/// Hosts of the made collection, each with `TOOLS` tools.
const HOSTS: u64 = 400;
const TOOLS: u64 = 100;

/// Writes entries of hosts as `journalctl -o json` shows them.
fn make(path: &Path, hosts: std::ops::Range<u64>) {
    let mut text = String::new();
    for host in hosts {
        for tool in 0..TOOLS {
            let time = 1_760_000_000_000_000 + host;
            writeln!(
                text,
                "{{\"__REALTIME_TIMESTAMP\":\"{time}\",\"_HOSTNAME\":\"host{host}\",\
                 \"_MACHINE_ID\":\"{host:032x}\",\"_UID\":\"0\",\
                 \"MCPINSPECT_EVENT\":\"mcp_tool_seen\",\"MCPINSPECT_SERVER\":\"notes\",\
                 \"MCPINSPECT_TOOL\":\"tool{tool}\",\"MCPINSPECT_HASH\":\"{tool:064x}\"}}"
            )
            .unwrap();
        }
    }
    std::fs::write(path, text).unwrap();
}

fn fleet(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcpinspect"));
    command.args(["fleet", "--json", "--silent-after=1000d", "--memory=1"]);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    fleet(arguments).output().unwrap()
}

#[test]
fn a_run_that_is_killed_loses_nothing_and_counts_nothing_twice() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let state = format!("--state={}", text(&file("state")));
    let temporary = format!("--temporary={}", text(directory.path()));
    let mut inputs = Vec::new();
    let mut killed = 0;
    for part in 0..4 {
        let path = file(&format!("part{part}"));
        make(&path, part * HOSTS / 4..(part + 1) * HOSTS / 4);
        inputs.push(text(&path));
        let mut arguments = vec![state.as_str(), temporary.as_str()];
        arguments.extend(inputs.iter().map(String::as_str));
        for step in 0..6 {
            let quiet = fleet(&arguments).stdout(Stdio::null()).spawn();
            let mut child = quiet.unwrap();
            std::thread::sleep(Duration::from_millis(step * 25));
            child.kill().unwrap();
            killed += u32::from(child.wait().unwrap().code().is_none());
        }
        output(&arguments);
    }
    assert!(killed > 0, "every run was faster than its end");
    let mut arguments: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let expected = output(&arguments);
    assert!(expected.status.success(), "{expected:?}");
    arguments.extend([state.as_str(), &temporary]);
    let resumed = output(&arguments);
    assert!(resumed.status.success(), "{resumed:?}");
    assert!(resumed.stdout == expected.stdout, "the reports differ");
    // Parts, and the state: temporary files have no names.
    let names = std::fs::read_dir(directory.path()).unwrap();
    assert_eq!(names.count(), 5);
}

#[test]
fn standard_input_cannot_be_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let state = format!("--state={}", directory.path().display());
    let output = output(&[&state, "-"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("standard input"), "{error}");
}

mod as_root {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_that_names_the_way_out() {
        support::require_root();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        make(&path, 0..HOSTS);
        support::in_own_mounts(move || {
            let full = directory.path().join("full");
            std::fs::create_dir(&full).unwrap();
            nix::mount::mount(
                Some("tmpfs"),
                &full,
                Some("tmpfs"),
                nix::mount::MsFlags::empty(),
                Some("size=64k"),
            )
            .unwrap();
            let full = full.to_str().unwrap();
            let path = path.to_str().unwrap();
            let failed = output(&[&format!("--temporary={full}"), path]);
            let error = String::from_utf8_lossy(&failed.stderr);
            assert_eq!(failed.status.code(), Some(2), "{error}");
            assert!(error.contains("No space left"), "{error}");
            assert!(error.contains("--temporary"), "{error}");
            // A state that cannot be written is not there by half.
            let failed = output(&[&format!("--state={full}"), path]);
            let error = String::from_utf8_lossy(&failed.stderr);
            assert_eq!(failed.status.code(), Some(2), "{error}");
            assert!(error.contains("fleet.state"), "{error}");
            assert!(!Path::new(full).join("fleet.state").exists());
        });
    }
}
