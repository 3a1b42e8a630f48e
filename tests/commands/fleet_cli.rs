//! `mcpinspect fleet` where something goes wrong: it is killed, or a disk is full.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{self, built};

/// Hosts of the made collection, each with `TOOLS` tools.
const HOSTS: u64 = 400;
const TOOLS: u64 = 100;
/// When it begins.
const START: u64 = 1_760_000_000_000_000;

/// Writes entries of hosts as `journalctl -o json` shows them.
fn make(path: &Path, hosts: std::ops::Range<u64>) {
    let mut text = String::new();
    for host in hosts {
        for tool in 0..TOOLS {
            let time = START + host;
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
    let mut command = Command::new(built("mcpinspect"));
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

/// Takes entries into a journal file, as the service that receives them does.
fn journal(path: &Path, hosts: &[&str]) {
    let receive = "/usr/lib/systemd/systemd-journal-remote";
    support::require(&[receive, "journalctl"]);
    let mut entries = String::new();
    for (number, host) in hosts.iter().enumerate() {
        let id = host.bytes().fold(0, |id, byte| id << 8 | u128::from(byte));
        let fields = [
            ("__REALTIME_TIMESTAMP", (START + number as u64).to_string()),
            ("__MONOTONIC_TIMESTAMP", (1 + number).to_string()),
            ("_BOOT_ID", "ab".repeat(16)),
            ("_HOSTNAME", (*host).to_owned()),
            ("_MACHINE_ID", format!("{id:032x}")),
            ("_UID", "0".to_owned()),
            ("MCPINSPECT_EVENT", "mcp_tool_seen".to_owned()),
            ("MCPINSPECT_SERVER", "notes".to_owned()),
            ("MCPINSPECT_TOOL", "read".to_owned()),
            ("MCPINSPECT_HASH", "cd".repeat(32)),
        ];
        for (name, value) in fields {
            entries.push_str(&format!("{name}={value}\n"));
        }
        entries.push('\n');
    }
    let export = path.with_extension("export");
    std::fs::write(&export, entries).unwrap();
    let received = support::run(
        receive,
        &["-o", path.to_str().unwrap(), export.to_str().unwrap()],
    );
    assert!(received.status.success(), "{received:?}");
}

fn report(arguments: &[&str]) -> Value {
    let output = output(arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn a_host_does_not_speak_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("remote-oslo.journal");
    // The last words of the impostor are its own, and so are those that it puts into another's mouth.
    journal(&path, &["oslo", "berlin", "oslo", "berlin"]);
    let path = path.to_str().unwrap();
    let believed = report(&[path]);
    assert_eq!(believed["servers"][0]["hosts"], json!(["berlin", "oslo"]));
    let certified = report(&["--certified", path]);
    assert_eq!(certified["servers"][0]["hosts"], json!(["oslo"]));
    assert_eq!(certified["hosts"].as_array().unwrap().len(), 1);
    let alert = &certified["alerts"][0];
    assert_eq!(alert["event"], "foreign_entries", "{certified:#}");
    assert_eq!(
        alert["category"], "entries of berlin sent by oslo",
        "{alert:#}"
    );
    // Both entries, and the last word.
    assert_eq!(alert["count"], 3, "{alert:#}");
    assert_eq!(certified["alert_counts"]["high"], 3);
    assert_eq!(certified["hosts"][0]["alerts"], json!({}));
}

#[test]
fn a_journal_that_was_changed_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (
        folder.path().join("remote-oslo.journal"),
        folder.path().join("remote-rome.journal"),
    );
    journal(&good, &["oslo"]);
    journal(&bad, &["rome"]);
    let mut bytes = std::fs::read(&bad).unwrap();
    let needle = b"MCPINSPECT_SERVER=notes";
    let at = bytes.windows(needle.len()).position(|part| part == needle);
    bytes[at.unwrap() + needle.len() - 1] = b'z';
    std::fs::write(&bad, bytes).unwrap();
    let directory = ["--directory", folder.path().to_str().unwrap()];
    let hosts = |report: &Value| report["hosts"].as_array().unwrap().len();
    assert_eq!(hosts(&report(&directory)), 2);
    let verified = output(&[&directory[..], &["--verify"]].concat());
    let error = String::from_utf8_lossy(&verified.stderr);
    assert!(
        error.contains("remote-rome.journal: is damaged or was modified"),
        "{error}"
    );
    assert_eq!(verified.status.code(), Some(1));
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(hosts(&verified), 1);
    assert_eq!(verified["complete"], false);
}

mod as_root {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;

    use super::*;

    const RSYSLOG: &str = include_str!("../../packaging/fleet/rsyslog.conf");

    /// What our configuration of rsyslog ships is what is in the journal.
    #[test]
    fn rsyslog_ships_what_the_journal_says() {
        support::require_root();
        support::require(&["/usr/sbin/rsyslogd"]);
        let folder = tempfile::tempdir().unwrap();
        let original = folder.path().join("original.journal");
        journal(&original, &["oslo", "rome", "oslo"]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // As it is shipped, but for the collector's address, and without TLS.
        let port = listener.local_addr().unwrap().port();
        let conf = RSYSLOG
            .replace("target=\"collector.example.com\"", "target=\"127.0.0.1\"")
            .replace("port=\"6514\"", &format!("port=\"{port}\""))
            .replace(
                "StreamDriver=\"gtls\" StreamDriverMode=\"1\" StreamDriverAuthMode=\"x509/name\"",
                "",
            )
            .replace("StreamDriverPermittedPeers=\"collector.example.com\"", "");
        assert!(!conf.contains("StreamDriver"), "{conf}");
        let (from, _) = conf.split_once("global(").unwrap();
        let (_, to) = conf.split_once("host.key\")\n").unwrap();
        let work = folder.path().display();
        let conf = format!("{from}global(workDirectory=\"{work}\")\n{to}");
        std::fs::write(folder.path().join("rsyslog.conf"), conf).unwrap();
        let journals = folder.path().join("journals");
        let machine = std::fs::read_to_string("/etc/machine-id").unwrap();
        std::fs::create_dir_all(journals.join(machine.trim())).unwrap();
        std::fs::copy(
            &original,
            journals.join(machine.trim()).join("system.journal"),
        )
        .unwrap();
        let path = folder.path().to_owned();
        support::in_own_mounts(move || {
            std::fs::create_dir_all("/var/log/journal").unwrap();
            support::put_in_place(&journals, "/var/log/journal");
            let mut rsyslog = Command::new("/usr/sbin/rsyslogd")
                .args(["-n", "-f"])
                .arg(path.join("rsyslog.conf"))
                .arg("-i")
                .arg(path.join("pid"))
                .spawn()
                .unwrap();
            let (stream, _) = listener.accept().unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let mut lines = BufReader::new(stream).lines();
            let shipped: Vec<String> = (0..3).map(|_| lines.next().unwrap().unwrap()).collect();
            let _ = rsyslog.kill();
            let _ = rsyslog.wait();
            std::fs::write(path.join("shipped"), shipped.join("\n")).unwrap();
            let of = |path: &Path| report(&[path.to_str().unwrap()]);
            let report = of(&path.join("shipped"));
            assert_eq!(report["hosts"].as_array().unwrap().len(), 2, "{report:#}");
            let (mut servers, mut expected) = (report, of(&original));
            // journalctl has each host's last word twice.
            assert_eq!(servers["servers"].take(), expected["servers"].take());
            assert_eq!(servers["hosts"].take(), expected["hosts"].take());
        });
    }

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
