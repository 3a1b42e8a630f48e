use mcpinspect_core::model::{FormerIdentity, ServerIdentity, Timestamp};
use mcpinspect_judge::registry::{
    Attribution, Decision, DecisionKind, DecisionWrite, ItemDecision, ItemKey, PinStatus,
    ServerNames, Storage as _, StorageHealth, Write,
};

use super::backlog::RETRY_AFTER;
use super::contract::{self, ALICE, NEW, OLD, OWNER, hash, of, see, server};
use super::*;

#[test]
fn a_registry_in_memory_keeps_the_contract() {
    for (name, case) in contract::cases() {
        println!("{name}");
        case(Registry::in_memory());
    }
}

#[test]
fn a_registry_on_disk_keeps_the_contract() {
    for (name, case) in contract::cases() {
        println!("{name}");
        let folder = tempfile::tempdir().unwrap();
        case(open(&folder.path().join("registry.db")).unwrap());
    }
}

#[test]
fn pins_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut registry = open(&path).unwrap();
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 2, "t", NEW);
    drop(registry);
    let mut registry = open(&path).unwrap();
    assert_eq!(see(&mut registry, "a", 3, "t", OLD), PinStatus::AsPinned);
    assert_eq!(
        see(&mut registry, "a", 4, "t", NEW),
        PinStatus::Changed { pinned: hash(OLD) }
    );
    let versions = registry.versions(of("a"), &ItemKey::tool("t")).unwrap();
    assert_eq!(
        versions
            .iter()
            .map(|version| version.hash)
            .collect::<Vec<_>>(),
        [hash(OLD), hash(NEW)]
    );
    assert_eq!(&*versions[0].definition, OLD);
}

#[test]
fn another_process_decides_and_this_one_follows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut daemon = open(&path).unwrap();
    see(&mut daemon, "a", 1, "t", OLD);
    see(&mut daemon, "a", 2, "t", NEW);
    let mut command = open(&path).unwrap();
    command
        .decide(
            of("a"),
            &ItemKey::tool("t"),
            DecisionKind::Approve,
            None,
            ALICE,
        )
        .unwrap();
    assert_eq!(see(&mut daemon, "a", 3, "t", NEW), PinStatus::AsPinned);
}

#[test]
fn a_damaged_foreign_or_newer_file_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let refusal = || open(&path).map(drop).unwrap_err();

    std::fs::write(
        &path,
        "this is no database, but long enough to be taken for one".repeat(100),
    )
    .unwrap();
    assert!(
        matches!(refusal(), OpenError::Damaged { .. }),
        "{:?}",
        refusal()
    );
    assert!(std::fs::read(&path).unwrap().starts_with(b"this is no"));

    std::fs::remove_file(&path).unwrap();
    let mut registry = open(&path).unwrap();
    for index in 0..200 {
        see(
            &mut registry,
            "a",
            index,
            &format!("tool-{index}"),
            &format!(r#"{{"description":"{}"}}"#, "x".repeat(500)),
        );
    }
    drop(registry);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0x55);
    std::fs::write(&path, &bytes).unwrap();
    assert!(
        matches!(refusal(), OpenError::Damaged { .. }),
        "{:?}",
        refusal()
    );

    std::fs::remove_file(&path).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE other (x)")
        .unwrap();
    assert!(
        matches!(refusal(), OpenError::Foreign { .. }),
        "{:?}",
        refusal()
    );

    std::fs::remove_file(&path).unwrap();
    drop(open(&path).unwrap());
    Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    assert!(
        matches!(refusal(), OpenError::Newer { found: 99, .. }),
        "{:?}",
        refusal()
    );

    assert!(matches!(
        open(&folder.path().join("missing/registry.db")).unwrap_err(),
        OpenError::Unusable { .. }
    ));
}

#[test]
fn a_full_disk_is_reported_and_pins_are_kept_and_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let database = Database::new(open::create(&path).unwrap());
    let mut storage = DirectStorage::new(database).unwrap();
    let key = ItemKey::tool("u");
    let seen = |time, definition: &str| Write::Seen {
        owner: OWNER,
        server: "a".into(),
        key: key.clone(),
        hash: hash(definition),
        definition: definition.into(),
        time: Timestamp(time),
        session: "s".into(),
        pin: time == 1,
    };
    let large = format!(r#"{{"x":"{}"}}"#, "y".repeat(100_000));
    storage.database().limit_pages(Some(1));
    storage.record(vec![seen(1, &large)], Timestamp(1));
    let health = storage.health();
    assert!(health.unsaved == 1 && health.error.is_some(), "{health:?}");
    storage.record(vec![seen(2, NEW)], Timestamp(2));
    assert_eq!(storage.health().unsaved, 2);
    // The text is available for a comparison.
    let text = storage.definition(of("a"), &key, hash(&large)).unwrap();
    assert_eq!(text.as_deref(), Some(&*large));
    // A decision reports that it cannot be stored.
    let decision = DecisionWrite {
        owner: OWNER,
        server: "a".into(),
        key: key.clone(),
        decision: Decision {
            kind: DecisionKind::Approve,
            hash: Some(hash(NEW)),
            by: ALICE.by,
            time: Timestamp(3),
            reason: String::new(),
        },
        pin: Some(Some(hash(NEW))),
    };
    let (done, result) = std::sync::mpsc::channel();
    storage.decide(decision, Box::new(move |stored| done.send(stored).unwrap()));
    assert!(result.recv().unwrap().is_err());

    storage.database().limit_pages(None);
    storage.record(Vec::new(), Timestamp(4));
    assert_eq!(storage.health().unsaved, 2, "not tried again yet");
    storage.record(Vec::new(), Timestamp(4 + RETRY_AFTER));
    assert_eq!(storage.health(), StorageHealth::default());
    assert_eq!(storage.versions(of("a"), &key).unwrap().len(), 2);
}

/// A process is killed while it writes, again and again: everything that it reported as saved is there.
#[test]
fn a_killed_process_loses_nothing_that_was_saved() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    const CHILD: &str = "MCPINSPECT_TEST_REGISTRY";
    if let Some(path) = std::env::var_os(CHILD) {
        let mut registry = open(Path::new(&path)).unwrap();
        let start = registry.list().unwrap().len();
        for index in start.. {
            assert_eq!(
                see(&mut registry, "a", 1, &format!("{index:06}"), OLD),
                PinStatus::New
            );
            println!("\nsaved {index}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut saved = 0;
    for round in 1..=5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "registry::tests::a_killed_process_loses_nothing_that_was_saved",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        for _ in 0..round * 3 {
            let number = lines.find_map(|line| {
                line.strip_prefix("saved ")
                    .and_then(|number| number.parse::<usize>().ok())
            });
            saved = number.unwrap() + 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let names = open(&path).unwrap().list().unwrap();
        assert!(
            names.len() >= saved,
            "{} of {saved} after round {round}",
            names.len()
        );
        assert!(names.iter().all(|item| item.pinned == Some(hash(OLD))));
    }
}

fn decide_elsewhere(path: &Path, kind: DecisionKind, reason: &str) {
    let mut person = open_existing(path).unwrap();
    let by = Attribution { reason, ..ALICE };
    person
        .decide(of("a"), &ItemKey::tool("t"), kind, None, by)
        .unwrap();
}

fn taken(registry: &mut Registry) -> Vec<(DecisionKind, String)> {
    let taken = registry.take_decisions();
    registry.save(Timestamp(0));
    taken
        .into_iter()
        .map(|decided| {
            let ItemDecision {
                owner,
                server,
                key,
                decision,
            } = decided;
            assert_eq!((owner, server.as_str()), (OWNER, "a"));
            assert_eq!(key, ItemKey::tool("t"));
            assert_eq!((decision.by, decision.time), (ALICE.by, ALICE.time));
            (decision.kind, decision.reason)
        })
        .collect()
}

#[test]
fn each_decision_is_taken_out_once_whichever_process_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut daemon = open(&path).unwrap();
    see(&mut daemon, "a", 1, "t", OLD);
    see(&mut daemon, "a", 2, "t", NEW);
    assert_eq!(taken(&mut daemon), []);

    decide_elsewhere(&path, DecisionKind::Reject, "one");
    decide_elsewhere(&path, DecisionKind::Approve, "two");
    let one_two = [
        (DecisionKind::Reject, "one".to_owned()),
        (DecisionKind::Approve, "two".to_owned()),
    ];
    assert_eq!(taken(&mut daemon), one_two);
    assert_eq!(taken(&mut daemon), []);
    assert_eq!(see(&mut daemon, "a", 3, "t", NEW), PinStatus::AsPinned);

    daemon
        .decide(
            of("a"),
            &ItemKey::tool("t"),
            DecisionKind::Unpin,
            None,
            ALICE,
        )
        .unwrap();
    let own = (DecisionKind::Unpin, ALICE.reason.to_owned());
    assert_eq!(taken(&mut daemon), [own]);

    // While no daemon ran, and more than are taken out at once.
    drop(daemon);
    for number in 0..65 {
        decide_elsewhere(&path, DecisionKind::Pin, &number.to_string());
    }
    let mut daemon = open(&path).unwrap();
    let first = taken(&mut daemon);
    assert_eq!((first.len(), first[63].1.as_str()), (64, "63"));
    assert_eq!(taken(&mut daemon), [(DecisionKind::Pin, "64".to_owned())]);
    assert_eq!(taken(&mut daemon), []);
    drop(daemon);
    assert_eq!(taken(&mut open(&path).unwrap()), []);
}

#[test]
fn decisions_taken_out_and_not_saved_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut daemon = open(&path).unwrap();
    see(&mut daemon, "a", 1, "t", OLD);
    decide_elsewhere(&path, DecisionKind::Reject, "");
    assert_eq!(daemon.take_decisions().len(), 1);
    assert_eq!(daemon.take_decisions().len(), 0);
    drop(daemon);
    assert_eq!(taken(&mut open(&path).unwrap()).len(), 1);
}

/// What the daemon does at the start of a session.
fn start_session(registry: &mut Registry, names: &mut ServerNames, fingerprint: &str) -> String {
    let identity = names.assign(
        OWNER.uid(),
        ServerIdentity {
            server_id: server("github"),
            fingerprint: fingerprint.to_owned(),
            name_source: "test".to_owned(),
            publisher: None,
            former: None,
        },
    );
    registry.assign_name(OWNER, &identity, Timestamp(1));
    registry.save(Timestamp(1));
    identity.server_id.to_string()
}

#[test]
fn pins_under_a_former_name_survive_the_update_of_the_daemon_and_further_restarts() {
    const TOOL: &str = "t";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut registry = open(&path).unwrap();
    contract::name(&mut registry, "mcp", None);
    see(&mut registry, "mcp", 1, TOOL, OLD);
    drop(registry);
    for time in 2..4 {
        let mut registry = open(&path).unwrap();
        let identity = registry.server_names().clone().assign(
            OWNER.uid(),
            ServerIdentity {
                server_id: server("files"),
                fingerprint: "print of files".to_owned(),
                name_source: "test".to_owned(),
                publisher: None,
                former: Some(FormerIdentity {
                    server_id: server("mcp"),
                    fingerprint: "print of mcp".to_owned(),
                }),
            },
        );
        registry.assign_name(OWNER, &identity, Timestamp(time));
        registry.save(Timestamp(time));
        assert_eq!(&*identity.server_id.0, "files");
        let status = see(&mut registry, "files", time, TOOL, OLD);
        assert_eq!(status, PinStatus::AsPinned);
        let text = registry.text(of("files"), &ItemKey::tool(TOOL), hash(OLD));
        assert!(text.is_some());
    }
}

#[test]
fn an_impostor_that_starts_first_does_not_take_the_name() {
    const GENUINE: &str = "aaaaaaaabbbbbbbb";
    const IMPOSTOR: &str = "ccccccccdddddddd";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let open = || {
        let registry = open(&path).unwrap();
        let names = registry.server_names().clone();
        (registry, names)
    };
    let (mut registry, mut names) = open();
    assert_eq!(start_session(&mut registry, &mut names, GENUINE), "github");
    drop(registry);
    for _ in 0..2 {
        let (mut registry, mut names) = open();
        let impostor = start_session(&mut registry, &mut names, IMPOSTOR);
        assert_eq!(impostor, "github#cccc");
        assert_eq!(start_session(&mut registry, &mut names, GENUINE), "github");
    }
}

/// However much arrives while the disk fails, what waits for it takes bounded memory, and pins stay.
#[test]
fn what_a_failing_disk_leaves_waiting_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let database = Database::new(open::create(&path).unwrap());
    let mut storage = DirectStorage::new(database).unwrap();
    storage.database().limit_pages(Some(1));
    let text: std::sync::Arc<str> = format!(r#"{{"x":"{}"}}"#, "y".repeat(1 << 20)).into();
    for number in 0..100_u64 {
        let definition = format!("{number}{text}");
        let seen = Write::Seen {
            owner: OWNER,
            server: "a".into(),
            key: ItemKey::tool(&number.to_string()),
            hash: hash("{}"),
            definition: definition.into(),
            time: Timestamp(1),
            session: "s".into(),
            pin: true,
        };
        storage.record(vec![seen], Timestamp(1));
    }
    let health = storage.health();
    assert_eq!((health.unsaved, health.lost), (100, 0), "no pin is lost");
    assert!(health.texts_lost >= 84, "{health:?}");
    storage.database().limit_pages(None);
    storage.record(Vec::new(), Timestamp(1 + RETRY_AFTER));
    assert_eq!(storage.items(Some("a")).unwrap().len(), 100);
}
