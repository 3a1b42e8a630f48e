//! The bus sink against a real `dbus-daemon` that runs with the system bus's own rules and the
//! policy we ship, asked by the real `busctl` and `gdbus` as several users. Needs root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use mcpinspect_core::model::ContainmentAction;
use mcpinspect_engine::event::testing;
use mcpinspect_judge::registry::DecisionKind;
use mcpinspectd::control::Decision;

mod objects;

use crate::support::bus::{
    Bus, Daemon, Listener, MANAGER, OWNER, STRANGER, as_user, packaged, refusal, text,
};
use crate::support::control::{MISTAKE, Recorder};
use crate::support::{self, eventually};

#[test]
fn everyone_hears_the_signals_and_no_contents() {
    let bus = Bus::start();
    let daemon = Daemon::on(&bus, None);
    let mut command = as_user(STRANGER, &[], "gdbus");
    command.args([
        "monitor",
        "--address",
        &bus.address(),
        "--dest",
        "org.mcpinspect1",
    ]);
    let listener = Listener::start(command);
    listener.wait_for("is owned by");

    daemon
        .sinks
        .publish(&testing::session_started("files", OWNER));
    for event in testing::examples() {
        daemon.sinks.publish(&event);
    }
    let heard = listener.wait_for("mcp_events_dropped");
    for signal in [
        "ToolSeen",
        "ToolChanged",
        "Detection",
        "CaptureGap",
        "ServerAppeared",
        "ServerVanished",
    ] {
        assert!(
            heard.contains(&format!("{MANAGER}.{signal} (")),
            "no {signal} in {heard}"
        );
    }
    assert_eq!(
        heard.matches(&format!("{MANAGER}.Event (")).count(),
        testing::examples().len() + 1,
        "{heard}"
    );
    assert!(
        heard.contains(r#"'high', 'files', uint32 1, 'Credential access in tool "read" of files'"#),
        "{heard}"
    );
    assert!(
        !heard.contains("/etc/shadow"),
        "contents in a signal: {heard}"
    );
    let tally = daemon.finish();
    assert_eq!(
        (tally.delivered, tally.failed, tally.dropped),
        (testing::examples().len() as u64 + 1, 0, 0)
    );
}

#[test]
fn evidence_is_for_root_the_group_and_the_owner() {
    let bus = Bus::start();
    let daemon = Daemon::on(&bus, None);
    daemon
        .sinks
        .publish(&testing::session_started("files", OWNER));
    daemon.sinks.publish(&testing::detected("files"));
    let id = daemon.latest_id();

    for uid in [0, OWNER] {
        let event = text(&bus.call_as(uid, &["GetEvent", "s", &id]));
        assert!(event.contains("/etc/shadow"), "{event}");
        let events = text(&bus.call_as(uid, &["ListEvents", "su", "", "0"]));
        assert!(events.contains("mcp_session_started") && events.contains("mcp_detection"));
        assert!(text(&bus.call_as(uid, &["ListServers"])).contains("files"));
        let signals = text(&bus.call_as(uid, &["ListSignals", "s", ""]));
        assert!(signals.contains("files"), "{signals}");
        assert!(text(&bus.call_as(uid, &["ListSessions"])).contains("/usr/bin/node"));
    }
    let limited = text(&bus.call_as(0, &["ListEvents", "su", "", "1"]));
    assert!(!limited.contains("mcp_session_started") && limited.contains("mcp_detection"));

    let error = bus.refused_as(STRANGER, "GetEvent", &[&id]);
    assert!(
        error.contains("AccessDenied: only root, the group mcpinspect"),
        "{error}"
    );
    // An id that does not exist gets the same answer.
    assert_eq!(bus.refused_as(STRANGER, "GetEvent", &["0-0"]), error);
    assert!(
        bus.refused_as(0, "GetEvent", &["0-0"])
            .contains("no stored event has this id")
    );
    let nothing = r#"{"type":"as","data":[[]]}"#;
    assert_eq!(
        text(&bus.call_as(STRANGER, &["ListEvents", "su", "", "0"])).trim(),
        nothing
    );
    for list in [
        &["ListServers"][..],
        &["ListSessions"],
        &["ListSignals", "s", ""],
    ] {
        let rows = text(&bus.call_as(STRANGER, list));
        assert!(!rows.contains("files"), "{rows}");
    }
    assert!(
        bus.refused_as(STRANGER, "ListTools", &["files"])
            .contains("unknown server")
    );
}

/// Whose rows a question about the past is answered with is up to the bus's word on who asks.
#[test]
fn the_past_is_each_users_own() {
    let bus = Bus::start();
    let (_recorder, control) = Recorder::new();
    let _daemon = Daemon::on(&bus, Some(control));
    let question = r#"{"ask":"sessions","limit":1}"#;
    for (uid, viewer) in [
        (0, "All".to_owned()),
        (OWNER, format!("User({OWNER})")),
        (STRANGER, format!("User({STRANGER})")),
    ] {
        for (method, argument) in [("Recall", question), ("Query", "SELECT 1")] {
            let answer = text(&bus.call_as(uid, &[method, "s", argument]));
            assert!(answer.contains(&viewer), "{method} by {uid}: {answer}");
        }
    }
    let error = bus.refused_as(STRANGER, "Query", &["SELECT"]);
    assert!(error.contains("INVALID_QUERY: incomplete input"), "{error}");
}

#[test]
fn members_of_the_group_read_everything() {
    let bus = Bus::start();
    // The group must exist, so this thread's mount namespace has one of that name.
    support::in_own_mounts(move || {
        let groups = bus.directory.path().join("group");
        let known = fs::read_to_string("/etc/group").unwrap();
        let others = known
            .lines()
            .filter(|line| !line.starts_with("mcpinspect:"));
        let others: String = others.map(|line| format!("{line}\n")).collect();
        fs::write(&groups, format!("{others}mcpinspect:x:64125:\n")).unwrap();
        support::put_in_place(&groups, "/etc/group");

        let daemon = Daemon::on(&bus, None);
        daemon
            .sinks
            .publish(&testing::session_started("files", OWNER));
        let id = daemon.latest_id();
        let get = |groups: &[u32]| {
            as_user(STRANGER, groups, "busctl")
                .arg(format!("--address={}", bus.address()))
                .args([
                    "call",
                    "org.mcpinspect1",
                    "/org/mcpinspect1",
                    MANAGER,
                    "GetEvent",
                    "s",
                    &id,
                ])
                .output()
                .unwrap()
        };
        assert!(text(&get(&[64125])).contains("mcp_session_started"));
        refusal(&get(&[64126]));
    });
}

/// The real polkit, with our actions and a rule that lets `nobody` decide and `daemon` not.
#[test]
fn polkit_decides_who_decides() {
    const POLKITD: &str = "/usr/lib/polkit-1/polkitd";
    support::require(&[POLKITD]);
    let bus = Bus::start();
    support::in_own_mounts(move || {
        support::empty("/usr/share/polkit-1/actions");
        support::empty("/etc/polkit-1/rules.d");
        let action = "/usr/share/polkit-1/actions/org.mcpinspect1.policy";
        fs::copy(packaged("org.mcpinspect1.policy"), action).unwrap();
        let rule = r#"polkit.addRule(function(action, subject) {
            if (action.id == "org.mcpinspect1.manage" && subject.user == "nobody")
                return polkit.Result.YES;
            if (action.id == "org.mcpinspect1.list" && subject.user == "nobody")
                return polkit.Result.YES;
        });"#;
        fs::write("/etc/polkit-1/rules.d/10-test.rules", rule).unwrap();
        for directory in ["/etc/polkit-1/rules.d", "/usr/share/polkit-1/actions"] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let polkitd = Command::new(POLKITD)
            .arg("--no-debug")
            .env("DBUS_SYSTEM_BUS_ADDRESS", bus.address())
            .spawn()
            .unwrap();
        let _polkitd = Listener::of(polkitd);
        eventually("polkit has its name", || {
            let mut command = Command::new("busctl");
            command.arg(format!("--address={}", bus.address()));
            let output = command
                .args(["status", "org.freedesktop.PolicyKit1"])
                .output()
                .unwrap();
            output.status.success().then_some(())
        });

        let (recorder, control) = Recorder::new();
        let daemon = Daemon::on(&bus, Some(control));
        // Polkit grants names, never contents.
        daemon.sinks.publish(&testing::session_started("files", 0));
        assert!(text(&bus.call_as(STRANGER, &["ListServers"])).contains("files"));
        assert!(!text(&bus.call_as(OWNER, &["ListServers"])).contains("files"));
        bus.refused_as(STRANGER, "GetEvent", &[&daemon.latest_id()]);
        let error = bus.refused_as(STRANGER, "Kill", &["files"]);
        assert!(error.contains("org.mcpinspect1.contain"), "{error}");
        let suppress = ["Suppress", "ssssu", "files", "", "rule", "why", "7"];
        text(&bus.call_as(STRANGER, &suppress));
        let decided = recorder.decided();
        assert_eq!(decided.len(), 1);
        assert_eq!(decided[0].1, STRANGER);
        let error = bus.refused_as(OWNER, "Approve", &["files", "read", "abc"]);
        assert!(
            error.contains("polkit does not allow org.mcpinspect1.manage"),
            "{error}"
        );
        assert_eq!(recorder.decided().len(), 1);
    });
}

#[test]
fn only_root_speaks_for_the_daemon() {
    let bus = Bus::start();
    let daemon = Daemon::on(&bus, None);
    let mut signals = daemon.signals(&bus, None);
    let emit = |uid, id| {
        let emitted = as_user(uid, &[], "dbus-send")
            .arg(format!("--bus={}", bus.address()))
            .args([
                "--type=signal",
                "/org/mcpinspect1",
                &format!("{MANAGER}.Detection"),
            ])
            .args([
                id,
                "string:high",
                "string:files",
                "uint32:0",
                "string:title",
            ])
            .output()
            .unwrap();
        text(&emitted);
        // dbus-send ends before the bus has judged the signal, and a refused one leaves no trace.
        std::thread::sleep(Duration::from_millis(200));
    };
    let mut next_id = || {
        let patience = Duration::from_secs(10);
        let next = async { tokio::time::timeout(patience, signals.next()).await };
        let signal = daemon
            .runtime
            .block_on(next)
            .expect("a signal in time")
            .unwrap()
            .unwrap();
        let (id, ..): (String, String, String, u32, String) = signal.body().deserialize().unwrap();
        id
    };
    emit(0, "string:by-root");
    assert_eq!(next_id(), "by-root");
    emit(STRANGER, "string:by-stranger");
    daemon.sinks.publish(&testing::detected("genuine"));
    assert_eq!(next_id(), daemon.latest_id());

    let name = as_user(STRANGER, &[], "gdbus")
        .args([
            "call",
            "--address",
            &bus.address(),
            "--dest",
            "org.freedesktop.DBus",
        ])
        .args([
            "--object-path",
            "/org/freedesktop/DBus",
            "--method",
            "org.freedesktop.DBus.RequestName",
        ])
        .args(["org.mcpinspect1", "uint32 0"])
        .output()
        .unwrap();
    assert!(refusal(&name).contains("AccessDenied"));
}

#[test]
fn a_restarted_bus_is_joined_again() {
    let mut bus = Bus::start();
    let daemon = Daemon::on(&bus, None);
    daemon.sinks.publish(&testing::detected("before"));
    eventually("first signal", || {
        (daemon.sinks.tally()[0].delivered == 1).then_some(())
    });
    bus.stop();
    eventually("the daemon notices", || {
        daemon.sinks.publish(&testing::detected("during"));
        (daemon.sinks.tally()[0].failed > 0).then_some(())
    });
    bus.run();
    daemon.wait_for_name(&bus);
    let mut command = as_user(STRANGER, &[], "gdbus");
    command.args([
        "monitor",
        "--address",
        &bus.address(),
        "--dest",
        "org.mcpinspect1",
    ]);
    let listener = Listener::start(command);
    listener.wait_for("is owned by");
    daemon.sinks.publish(&testing::detected("after"));
    listener.wait_for("'after'");
    // Events from the time without a bus can still be read.
    assert!(text(&bus.call_as(0, &["ListEvents", "su", "", "0"])).contains("during"));
    let tally = daemon.finish();
    assert_eq!((tally.dropped, tally.waiting), (0, 0));
}

#[test]
fn a_missing_bus_delays_nothing() {
    let daemon = Daemon::start("unix:path=/nonexistent/socket".to_owned(), None);
    for _ in 0..100 {
        daemon.sinks.publish(&testing::detected("files"));
    }
    let start = Instant::now();
    let tally = daemon.finish();
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(
        (tally.delivered, tally.failed, tally.dropped, tally.waiting),
        (0, 100, 0, 0)
    );
}

#[test]
fn decisions_need_a_right_and_reach_the_daemon() {
    let bus = Bus::start();
    let (recorder, control) = Recorder::new();
    let daemon = Daemon::on(&bus, Some(control));
    let approve = ["Approve", "sss", "files", "read", "abc"];
    text(&bus.call_as(0, &approve));
    let decision = Decision::Judge {
        kind: DecisionKind::Approve,
        server: "files".to_owned(),
        tool: "read".to_owned(),
        hash: "abc".to_owned(),
    };
    assert_eq!(recorder.decided(), [(decision, 0)]);
    for (method, arguments) in [
        ("Approve", &["files", "read", "abc"][..]),
        ("Reject", &["files", "read", "abc"]),
        ("Suppress", &["files", "", "rule", "why", "uint32 7"]),
        ("SetMonitoring", &["files", "false"]),
        ("Reload", &[]),
        ("Freeze", &["files"]),
        ("Thaw", &["files"]),
        ("Kill", &["files"]),
    ] {
        let error = bus.refused_as(STRANGER, method, arguments);
        assert!(error.contains("AccessDenied: cannot ask polkit"), "{error}");
    }
    assert_eq!(recorder.decided().len(), 1);
    assert!(bus.refused_as(0, "Reload", &[]).contains(MISTAKE));
    let frozen = text(&bus.call_as(0, &["Freeze", "s", "files"]));
    assert!(frozen.contains(r#"[[7,8],["/freeze"],[]]"#), "{frozen}");
    assert!(
        bus.refused_as(0, "Kill", &["nobody"])
            .contains("nobody is not known")
    );
    let files = ("files".to_owned(), ContainmentAction::Freeze, 0);
    assert_eq!(recorder.contained(), [files]);

    let property = |name| {
        let mut command = as_user(STRANGER, &[], "busctl");
        command.arg(format!("--address={}", bus.address()));
        command.args([
            "get-property",
            "org.mcpinspect1",
            "/org/mcpinspect1",
            MANAGER,
            name,
        ]);
        text(&command.output().unwrap())
    };
    assert_eq!(property("CaptureState").trim(), "s \"watching\"");
    assert_eq!(property("PausedServers").trim(), "as 1 \"loud\"");
    assert_eq!(property("Ledger").trim(), "(ttt) 3 2 1");
    assert_eq!(
        property("Version").trim(),
        format!("s \"{}\"", env!("CARGO_PKG_VERSION"))
    );
    drop(daemon);
}

#[test]
fn each_user_is_told_of_their_own_pins() {
    let bus = Bus::start();
    let (_, control) = Recorder::new();
    let _daemon = Daemon::on(&bus, Some(control));
    let ones = "11".repeat(32);
    let other = "22".repeat(32);
    let asked = ["CheckTools", "sa(ss)", "files", "4"];
    let tools = ["read", "", "read", &ones, "read", &other, "write", ""];
    let check = |uid| text(&bus.call_as(uid, &[&asked[..], &tools[..]].concat()));
    let statuses = r#""approved","approved","changed","unapproved""#;
    assert!(check(OWNER).contains(statuses), "{}", check(OWNER));
    let nothing = r#""unapproved","unapproved","unapproved","unapproved""#;
    for uid in [STRANGER, 0] {
        assert!(check(uid).contains(nothing), "{}", check(uid));
    }
    let odd = ["files", "[('read', 'abc')]"];
    let refused = bus.refused_as(OWNER, "CheckTools", &odd);
    assert!(refused.contains("hash"), "{refused}");
    let many = format!("[{}]", vec!["('a', '')"; 4097].join(","));
    let refused = bus.refused_as(OWNER, "CheckTools", &["files", &many]);
    assert!(refused.contains("4096"), "{refused}");
}
