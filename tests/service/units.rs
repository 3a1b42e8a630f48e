//! The shipped systemd files, as systemd itself parses and rates them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mcpinspect_tests::places::repository;

use crate::support::{self, require, run, stdout};

fn shipped(name: &str) -> PathBuf {
    repository().join("systemd").join(name)
}

/// The rating runs from 0, fully confined, to 10, unconfined; the limit is 2.0.
#[test]
fn the_service_is_confined() {
    require(&["systemd-analyze"]);
    let unit = shipped("mcpinspectd.service");
    let rating = run(
        "systemd-analyze",
        &[
            "security",
            "--offline=true",
            "--threshold=20",
            "--no-pager",
            unit.to_str().unwrap(),
        ],
    );
    let text = String::from_utf8(rating.stdout).unwrap();
    let overall = text
        .lines()
        .find(|line| line.contains("Overall exposure"))
        .expect("a rating");
    println!("{overall}");
    assert!(rating.status.success(), "{text}");
}

#[test]
fn systemd_accepts_the_units() {
    require(&["systemd-analyze"]);
    let directory = tempfile::tempdir().unwrap();
    for (name, program, arguments) in [
        (
            "mcpinspectd.service",
            "/usr/bin/mcpinspectd",
            &["verify", "--man=no"][..],
        ),
        (
            "mcpinspect-notify.service",
            "/usr/bin/mcpinspect-notify",
            &["verify", "--man=no", "--user"],
        ),
    ] {
        let text = fs::read_to_string(shipped(name)).unwrap();
        assert!(text.contains(&format!("ExecStart={program}")), "{name}");
        // The program is not installed on the machine that runs this.
        let unit = directory.path().join(name);
        fs::write(&unit, text.replace(program, "/bin/true")).unwrap();
        let mut arguments = arguments.to_vec();
        arguments.push(unit.to_str().unwrap());
        let output = run("systemd-analyze", &arguments);
        let complaints = String::from_utf8(output.stderr).unwrap();
        let of_ours = complaints.lines().filter(|line| line.contains(name));
        assert_eq!(of_ours.count(), 0, "{complaints}");
    }
}

/// A systemd that would warn about these settings at every reload does not see them.
#[test]
fn restarts_back_off_where_systemd_can() {
    let root = tempfile::tempdir().unwrap();
    let script = shipped("../packaging/restart-backoff");
    let systemctl = root.path().join("systemctl");
    let folder = root
        .path()
        .join("usr/lib/systemd/system/mcpinspectd.service.d");
    let linked = |version: &str, arguments: &[&str]| {
        fs::write(
            &systemctl,
            format!("#!/bin/sh\necho 'systemd {version}'\necho +PAM"),
        )
        .unwrap();
        fs::set_permissions(&systemctl, Permissions::from_mode(0o755)).unwrap();
        let status = Command::new("sh")
            .arg(&script)
            .args(arguments)
            .env("DESTDIR", root.path())
            .env("PATH", format!("{}:/usr/bin:/bin", root.path().display()))
            .status()
            .unwrap();
        assert!(status.success());
        fs::read_link(folder.join("restart-backoff.conf")).ok()
    };
    let settings = Path::new("/usr/lib/mcpinspectd/restart-backoff.conf");
    assert_eq!(linked("252 (252.38-1~deb12u1)", &[]), None);
    assert_eq!(linked("253", &[]), None);
    assert_eq!(linked("254 (254.1-1.fc39)", &[]).as_deref(), Some(settings));
    assert_eq!(linked("257.8", &[]).as_deref(), Some(settings));
    assert_eq!(linked("257.8", &["remove"]), None);
    assert!(!folder.exists());
}

/// Tests that need root: `cargo xtask test --unit` leaves this module out.
mod as_root {
    use super::*;

    #[test]
    fn systemd_creates_the_group_and_the_directories() {
        support::require_root();
        require(&["systemd-sysusers", "systemd-tmpfiles"]);
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        let at = format!("--root={}", root.path().display());
        stdout(
            "systemd-sysusers",
            &[&at, shipped("mcpinspectd.sysusers").to_str().unwrap()],
        );
        let groups = fs::read_to_string(root.path().join("etc/group")).unwrap();
        assert!(
            groups.lines().any(|line| line.starts_with("mcpinspect:")),
            "{groups}"
        );
        // The user that the directories belong to.
        fs::write(
            root.path().join("etc/passwd"),
            "root:x:0:0::/root:/bin/sh\n",
        )
        .unwrap();
        stdout(
            "systemd-tmpfiles",
            &[
                &at,
                "--create",
                shipped("mcpinspectd.tmpfiles").to_str().unwrap(),
            ],
        );
        use std::os::unix::fs::MetadataExt;
        let state = fs::metadata(root.path().join("var/lib/mcpinspectd")).unwrap();
        assert_eq!((state.mode() & 0o7777, state.uid()), (0o750, 0));
        assert_ne!(state.gid(), 0);
    }
}
