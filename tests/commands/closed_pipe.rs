//! What the programs print is often read by `head`, which leaves early. None of them may panic then.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use crate::support::built;

const MCPINSPECT: &str = "mcpinspect";
const MCPINSPECTD: &str = "mcpinspectd";
const NOTIFY: &str = "mcpinspect-notify";

/// Commands that print without a daemon, a registry or root.
const COMMANDS: &[(&str, &[&str])] = &[
    (MCPINSPECT, &["--help"]),
    (MCPINSPECT, &["--version"]),
    (MCPINSPECT, &["explain"]),
    (MCPINSPECT, &["explain", "hidden_instructions"]),
    (MCPINSPECT, &["rules", "list"]),
    (MCPINSPECT, &["rules", "check", "/dev/null"]),
    (MCPINSPECT, &["scan", "/dev/null"]),
    (MCPINSPECT, &["scan", "--format", "sarif", "/dev/null"]),
    (MCPINSPECT, &["fleet", "/dev/null"]),
    (MCPINSPECT, &["fleet", "--json", "/dev/null"]),
    (MCPINSPECTD, &["--help"]),
    (MCPINSPECTD, &["run", "--help"]),
    (MCPINSPECTD, &["--version"]),
    (MCPINSPECTD, &["check"]),
    (MCPINSPECTD, &["check", "--json"]),
    (NOTIFY, &["--help"]),
    (NOTIFY, &["--version"]),
];

/// The writing end of a pipe whose reader has left.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Stdio::from(OwnedFd::from(writer))
}

#[test]
fn a_reader_of_the_output_that_leaves_changes_nothing() {
    for (program, arguments) in COMMANDS {
        let expected = Command::new(built(program))
            .args(*arguments)
            .output()
            .unwrap();
        let output = Command::new(built(program))
            .args(*arguments)
            .stdout(closed_pipe())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !error.contains("panicked"),
            "{program} {arguments:?}: {error}"
        );
        assert_eq!(
            output.status, expected.status,
            "{program} {arguments:?}: {error}"
        );
    }
}

#[test]
fn nor_does_a_reader_of_the_errors() {
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("broken.toml");
    std::fs::write(&broken, "[[rule]]\nid = 5").unwrap();
    let broken = broken.to_str().unwrap();
    let commands: [(&str, &[&str]); 6] = [
        (MCPINSPECT, &["no-such-command"]),
        (MCPINSPECT, &["explain", "no_such_category"]),
        (MCPINSPECT, &["rules", "check", broken]),
        (MCPINSPECT, &["scan", "--rules", broken, "/no/such/file"]),
        (MCPINSPECTD, &["check", "--config", broken]),
        (NOTIFY, &["--log=a=b=c"]),
    ];
    for (program, arguments) in commands {
        let status = Command::new(built(program))
            .args(arguments)
            .stdin(File::open("/dev/null").unwrap())
            .stdout(closed_pipe())
            .stderr(closed_pipe())
            .status()
            .unwrap();
        assert!(
            matches!(status.code(), Some(1 | 2)),
            "{program} {arguments:?}: {status}"
        );
    }
}
