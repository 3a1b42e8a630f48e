//! The journal sink and the daemon's own log against a real `systemd-journald`, read back with the
//! real `journalctl`.
//!
//! journald's socket has one place on a machine, so each test gets a mount namespace of its own with
//! an empty `/run/systemd` and starts journald there by hand. Needs root.

use std::fs::{self, File};
use std::os::linux::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mcpinspect_core::model::SinkTally;
use mcpinspect_engine::event::kind::EventKind;
use mcpinspect_engine::event::testing;
use mcpinspect_tests::places::repository;
use mcpinspectd::pipeline::outputs::{Running, Settings};
use mcpinspectd::sink::SinkLimits;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{
    self, built, empty, eventually, put_in_place, require, require_root, run, stdout,
};

const JOURNALD: &str = "/usr/lib/systemd/systemd-journald";

/// A journald in the calling thread's mount namespace.
struct Journald(Child);

impl Journald {
    fn start() -> Self {
        let child = Command::new(JOURNALD)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("journald listens", || {
            let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
            socket.connect("/run/systemd/journal/socket").ok()
        });
        Self(child)
    }

    fn stop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Journald {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `test` on a thread that has an empty `/run/systemd` and journal of its own.
fn with_own_journal(test: impl FnOnce() + Send + 'static) {
    require_root();
    require(&[JOURNALD, "journalctl"]);
    assert!(
        Path::new("/etc/machine-id").exists(),
        "journald needs /etc/machine-id: run systemd-machine-id-setup"
    );
    support::in_own_mounts(|| {
        empty("/run/systemd");
        empty("/run/log");
        fs::create_dir_all("/run/systemd/journald.conf.d").unwrap();
        let settings = "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\nForwardToSyslog=no\n";
        fs::write("/run/systemd/journald.conf.d/test.conf", settings).unwrap();
        test();
    });
}

/// Publishes through a runtime on this thread, and waits until the sinks have finished.
fn publish(limits: SinkLimits, work: impl FnOnce(&mcpinspectd::sink::Sinks)) -> SinkTally {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let settings = Settings {
            journal: true,
            limits,
            ..Settings::default()
        };
        let running = Running::start(settings, None).unwrap();
        work(&running.sinks());
        running.finish(Duration::from_secs(20)).await.remove(0)
    })
}

/// The entries that journalctl prints, as JSON values.
fn entries(matches: &[&str]) -> Vec<Value> {
    stdout("journalctl", &["--sync"]);
    let mut arguments = vec!["--output=json", "--all", "--no-pager", "--quiet"];
    arguments.extend(matches);
    let text = stdout("journalctl", &arguments);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_event_type_arrives_with_its_fields() {
    with_own_journal(|| {
        let _journald = Journald::start();
        let events = testing::examples();
        let tally = publish(SinkLimits::default(), |sinks| {
            events.iter().for_each(|e| sinks.publish(e))
        });
        assert_eq!(
            (tally.delivered, tally.failed, tally.dropped),
            (EventKind::ALL.len() as u64, 0, 0)
        );

        let found = entries(&["--identifier=mcpinspectd"]);
        assert_eq!(found.len(), EventKind::ALL.len());
        for (entry, kind) in found.iter().zip(EventKind::ALL) {
            assert_eq!(entry["MCPINSPECT_EVENT"], kind.name());
            assert_eq!(entry["MESSAGE_ID"], kind.message_id());
            assert_eq!(entry["_TRANSPORT"], "journal");
            let json: Value =
                serde_json::from_str(entry["MCPINSPECT_JSON"].as_str().unwrap()).unwrap();
            assert_eq!(json["type"], kind.name());
            assert_eq!(json["event_id"], entry["MCPINSPECT_EVENT_ID"]);
            assert!(entry.get("F_MESSAGE").is_none());
        }

        // The queries that people write.
        let changed = &entries(&["MCPINSPECT_EVENT=mcp_tool_changed"])[0];
        assert_eq!(changed["PRIORITY"], "3");
        assert_eq!(changed["MCPINSPECT_SERVER"], "files");
        assert_eq!(changed["MCPINSPECT_TOOL"], "read");
        assert_eq!(changed["MCPINSPECT_SEVERITY"], "high");
        assert_eq!(changed["MCPINSPECT_SESSION"], "s-1");
        assert_eq!(changed["MCPINSPECT_PID"], "4242");
        assert_eq!(changed["MCPINSPECT_CATEGORY"], "credential_access");
        assert!(
            changed["MESSAGE"]
                .as_str()
                .unwrap()
                .starts_with("Tool \"read\" of files has changed")
        );
        assert_eq!(
            entries(&["MCPINSPECT_SERVER=files", "MCPINSPECT_SEVERITY=high"]).len(),
            4
        );
        assert_eq!(
            entries(&["--priority=err", "--identifier=mcpinspectd"]).len(),
            4
        );
        let started = &entries(&["MCPINSPECT_EVENT=mcp_session_started"])[0];
        assert_eq!(
            (&started["PRIORITY"], &started["MCPINSPECT_UID"]),
            (&"6".into(), &"1000".into())
        );
        assert!(started.get("MCPINSPECT_SEVERITY").is_none());
    });
}

#[test]
fn large_and_hostile_values_arrive_whole() {
    with_own_journal(|| {
        let _journald = Journald::start();
        let hostile = "a\nMESSAGE_ID=forged\n\0\u{1b}[2J\u{202e}\u{fffd} b";
        let large = "x".repeat(300 << 10);
        let limits = SinkLimits {
            event_json: 1 << 20,
            ..SinkLimits::default()
        };
        let tally = publish(limits, |sinks| {
            sinks.publish(&testing::changed("files", &large));
            sinks.publish(&testing::changed(hostile, hostile));
        });
        assert_eq!((tally.delivered, tally.failed), (2, 0));

        let found = entries(&["--identifier=mcpinspectd"]);
        // Too large for a datagram, so it arrived in a memfd.
        let json: Value =
            serde_json::from_str(found[0]["MCPINSPECT_JSON"].as_str().unwrap()).unwrap();
        assert_eq!(json["changes"][0]["new"], *large);

        let entry = &found[1];
        assert_eq!(entry["MESSAGE_ID"], EventKind::ToolChanged.message_id());
        let shown = entry["MCPINSPECT_SERVER"].as_str().unwrap();
        assert_eq!(
            shown,
            "a\\nMESSAGE_ID=forged\\n\\u{0}\\u{1b}[2J\\u{202e}\u{fffd} b"
        );
        let json: Value = serde_json::from_str(entry["MCPINSPECT_JSON"].as_str().unwrap()).unwrap();
        assert_eq!(json["changes"][0]["new"], hostile);
    });
}

#[test]
fn an_entry_is_bounded_and_says_so() {
    with_own_journal(|| {
        let _journald = Journald::start();
        publish(SinkLimits::default(), |sinks| {
            sinks.publish(&testing::changed("files", &"x".repeat(200 << 10)));
        });
        let entry = &entries(&["MCPINSPECT_TRUNCATED=1"])[0];
        let text = entry["MCPINSPECT_JSON"].as_str().unwrap();
        assert!(text.len() <= 48 << 10);
        assert_eq!(
            serde_json::from_str::<Value>(text).unwrap()["truncated"],
            true
        );
    });
}

#[test]
fn a_restart_of_journald_loses_nothing_and_its_absence_is_counted() {
    with_own_journal(|| {
        let mut journald = Journald::start();
        let tally = publish(SinkLimits::default(), |sinks| {
            sinks.publish(&testing::detected("before"));
            eventually("first entry", || {
                (sinks.tally()[0].delivered == 1).then_some(())
            });
            journald.stop();
            fs::remove_file("/run/systemd/journal/socket").unwrap();
            sinks.publish(&testing::detected("during"));
            // Allow several delivery attempts, which nothing reports: the event must survive them.
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(sinks.tally()[0].waiting, 1);
            journald = Journald::start();
            sinks.publish(&testing::detected("after"));
            eventually("all entries", || {
                (sinks.tally()[0].delivered == 3).then_some(())
            });
        });
        assert_eq!((tally.delivered, tally.failed, tally.dropped), (3, 0, 0));
        for server in ["before", "during", "after"] {
            assert_eq!(
                entries(&[&format!("MCPINSPECT_SERVER={server}")]).len(),
                1,
                "{server}"
            );
        }

        journald.stop();
        let tally = publish(SinkLimits::default(), |sinks| {
            sinks.publish(&testing::detected("never"))
        });
        assert_eq!((tally.delivered, tally.failed, tally.waiting), (0, 1, 0));
    });
}

#[test]
fn the_catalog_explains_every_event() {
    with_own_journal(|| {
        let directory = tempfile::tempdir().unwrap();
        let shipped = repository().join("packaging/mcpinspectd.catalog");
        fs::copy(&shipped, directory.path().join("mcpinspectd.catalog")).unwrap();
        put_in_place(directory.path(), "/usr/lib/systemd/catalog");
        empty("/var/lib/systemd/catalog");
        stdout("journalctl", &["--update-catalog"]);

        let listed = stdout("journalctl", &["--list-catalog", "--no-pager"]);
        let mut ids: Vec<_> = listed
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        ids.sort_unstable();
        let mut expected = EventKind::ALL.map(EventKind::message_id);
        expected.sort_unstable();
        assert_eq!(ids, expected);

        let _journald = Journald::start();
        publish(SinkLimits::default(), |sinks| {
            testing::examples().iter().for_each(|e| sinks.publish(e))
        });
        stdout("journalctl", &["--sync"]);
        for kind in EventKind::ALL {
            let query = format!("MCPINSPECT_EVENT={}", kind.name());
            let text = stdout("journalctl", &["--catalog", "--no-pager", &query]);
            assert!(text.contains("Defined-By: mcpinspectd"), "{text}");
            // journalctl leaves a placeholder unexpanded if the entry lacks the field.
            assert!(!text.contains('@'), "a field is not filled in: {text}");
        }
    });
}

/// What the daemon writes to a standard error that is the journal's, when its output has no room.
fn log_of_a_daemon_without_room() -> String {
    let tape = Path::new("/run/systemd/tape.jsonl");
    let header = serde_json::json!({"format": "mcpinspect-tape", "version": 1, "session_id": "s",
        "server_id": "files", "fingerprint": "f", "name_source": "x", "transport": "stdio",
        "protocol_version": "2025-06-18", "started": "2026-11-23T12:00:00Z"});
    fs::write(tape, format!("{header}\n")).unwrap();
    let log = Path::new("/run/systemd/stderr");
    let stderr = File::create(log).unwrap();
    let stream = stderr.metadata().unwrap();
    let status = Command::new(built("mcpinspectd"))
        .args(["run", "--from-tape"])
        .arg(tape)
        .env(
            "JOURNAL_STREAM",
            format!("{}:{}", stream.st_dev(), stream.st_ino()),
        )
        .stdout(File::options().write(true).open("/dev/full").unwrap())
        .stderr(stderr)
        .status()
        .unwrap();
    assert!(status.success());
    fs::read_to_string(log).unwrap()
}

const NO_ROOM: &str = "error=cannot write the output: No space left on device (os error 28)";

#[test]
fn the_log_has_its_reasons_in_messages_and_fields() {
    with_own_journal(|| {
        let _journald = Journald::start();
        assert_eq!(log_of_a_daemon_without_room(), "");
        let found = entries(&["--identifier=mcpinspectd"]);
        let [entry] = &found[..] else {
            panic!("{found:?}");
        };
        let (_, error) = NO_ROOM.split_once('=').unwrap();
        assert_eq!(entry["MCPINSPECT_LOG_ERROR"], error);
        assert_eq!(entry["PRIORITY"], "3");
        assert_eq!(entry["_TRANSPORT"], "journal");
        let message = entry["MESSAGE"].as_str().unwrap();
        assert!(message.ends_with(NO_ROOM), "{message}");
        assert!(stdout("journalctl", &["--no-pager"]).contains(NO_ROOM));
    });
}

#[test]
fn without_journald_the_log_goes_to_standard_error() {
    with_own_journal(|| {
        let text = log_of_a_daemon_without_room();
        let lines: Vec<_> = text.lines().collect();
        let [outage, error] = lines[..] else {
            panic!("{text}");
        };
        assert!(outage.starts_with("<4>cannot reach journald"), "{text}");
        assert!(
            error.starts_with("<3>") && error.ends_with(NO_ROOM),
            "{text}"
        );
    });
}

/// The number of blind spots in the record of this machine, by `mcpinspect fleet`.
fn blind_spots(arguments: &[&str]) -> u64 {
    stdout("journalctl", &["--sync"]);
    let output = run(
        &built("mcpinspect"),
        &[&["fleet", "--json"], arguments].concat(),
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let fleet: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(fleet["complete"], true, "{error}");
    fleet["hosts"][0]["lost"]["blind_spots"].as_u64().unwrap()
}

#[test]
fn a_fleet_reads_on_in_a_journal_where_it_was() {
    with_own_journal(|| {
        let _journald = Journald::start();
        let events = testing::examples();
        let publish = || {
            publish(SinkLimits::default(), |sinks| {
                events.iter().for_each(|e| sinks.publish(e));
            });
        };
        let state = ["--directory=/run/log/journal", "--state=/run/systemd/fleet"];
        publish();
        let once = blind_spots(&state);
        assert_eq!(once, 1);
        assert_eq!(blind_spots(&state), once);
        publish();
        // Another file, and the same one under another name.
        stdout("journalctl", &["--rotate"]);
        assert_eq!(blind_spots(&state), 2 * once);
        publish();
        assert_eq!(blind_spots(&state), 3 * once);
        assert_eq!(blind_spots(&["/run/log/journal"]), 3 * once);
        for format in ["json", "export"] {
            let output = format!("--output={format}");
            let text = stdout("journalctl", &["--no-pager", "--all", &output]);
            fs::write("/run/systemd/exported", text).unwrap();
            assert_eq!(blind_spots(&["/run/systemd/exported"]), 3 * once);
        }
    });
}
