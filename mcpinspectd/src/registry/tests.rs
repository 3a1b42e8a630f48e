#![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]
use super::*;

fn server(name: &str) -> ServerId {
    ServerId(name.into())
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn see(registry: &mut Registry, of: &str, time: u64, name: &str, definition: &str) -> Standing {
    let (server, session) = (server(of), SessionId("s".into()));
    let sight = Sight {
        server: &server,
        session: &session,
        time: Timestamp(time),
    };
    registry.refresh();
    let standing = registry
        .observe(sight, ItemKind::Tool, name, &raw(definition))
        .standing;
    registry.save(sight.time);
    standing
}

fn list(registry: &mut Registry, of: &str, names: &[&str]) -> Vec<String> {
    let (server, session) = (server(of), SessionId("s".into()));
    let sight = Sight {
        server: &server,
        session: &session,
        time: Timestamp(9),
    };
    let names = names.iter().map(|&name| name.into()).collect();
    let removed = registry.listed(sight, &names);
    registry.save(sight.time);
    removed.into_iter().map(|(name, _)| name.into()).collect()
}

fn hash(definition: &str) -> DefinitionHash {
    DefinitionHash::of(&canonical::definition(&raw(definition)))
}

const ALICE: Who<'_> = Who {
    by: By::Person(1000),
    time: Timestamp(77),
    reason: "looked at it",
};
const OLD: &str = r#"{"name":"t","description":"old"}"#;
const NEW: &str = r#"{"name":"t","description":"new"}"#;

#[test]
fn first_sight_pins_and_the_pin_stays() {
    let mut registry = Registry::in_memory().unwrap();
    assert_eq!(see(&mut registry, "a", 1, "t", OLD), Standing::New);
    assert_eq!(
        see(
            &mut registry,
            "a",
            2,
            "t",
            r#"{ "description":"old", "name":"\u0074" }"#
        ),
        Standing::AsPinned
    );
    let changed = Standing::Changed { pinned: hash(OLD) };
    assert_eq!(see(&mut registry, "a", 3, "t", NEW), changed);
    assert_eq!(see(&mut registry, "a", 4, "t", NEW), changed);
    assert_eq!(see(&mut registry, "a", 5, "t", OLD), Standing::AsPinned);
    // Another server's tool of that name is another tool.
    assert_eq!(see(&mut registry, "b", 6, "t", NEW), Standing::New);
}

#[test]
fn approval_moves_the_pin_and_is_recorded() {
    let mut registry = Registry::in_memory().unwrap();
    let key = ItemKey::tool("t");
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 2, "t", NEW);
    let comparison = registry.compare("a", &key, None, None).unwrap();
    assert_eq!(
        (comparison.previous, comparison.new),
        (hash(OLD), hash(NEW))
    );
    assert_eq!(comparison.changes[0].field, "description");

    assert_eq!(
        registry
            .decide("a", &key, Verb::Reject, None, ALICE)
            .unwrap(),
        hash(NEW)
    );
    assert_eq!(
        see(&mut registry, "a", 3, "t", NEW),
        Standing::Changed { pinned: hash(OLD) }
    );
    assert_eq!(
        registry
            .decide("a", &key, Verb::Approve, Some(hash(NEW)), ALICE)
            .unwrap(),
        hash(NEW)
    );
    assert_eq!(see(&mut registry, "a", 4, "t", NEW), Standing::AsPinned);
    assert_eq!(
        see(&mut registry, "a", 5, "t", OLD),
        Standing::Changed { pinned: hash(NEW) }
    );

    let verbs: Vec<Verb> = registry
        .decisions("a", &key)
        .unwrap()
        .iter()
        .map(|decision| decision.verb)
        .collect();
    assert_eq!(verbs, [Verb::Reject, Verb::Approve]);
    let view = &registry.list().unwrap()[0];
    assert_eq!(
        (view.pinned, view.pinned_by, view.current),
        (Some(hash(NEW)), Some(ALICE.by), hash(OLD))
    );
    assert!(view.is_changed());
    assert_eq!(view.last_decision.as_ref().unwrap().reason, "looked at it");
}

#[test]
fn pin_and_unpin() {
    let mut registry = Registry::in_memory().unwrap();
    let key = ItemKey::tool("t");
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 2, "t", NEW);
    registry
        .decide("a", &key, Verb::Unpin, None, ALICE)
        .unwrap();
    assert_eq!(registry.list().unwrap()[0].pinned, None);
    assert_eq!(see(&mut registry, "a", 3, "t", NEW), Standing::AsPinned);
    assert_eq!(registry.list().unwrap()[0].pinned, Some(hash(NEW)));
    registry
        .decide("a", &key, Verb::Pin, Some(hash(OLD)), ALICE)
        .unwrap();
    assert_eq!(
        see(&mut registry, "a", 4, "t", NEW),
        Standing::Changed { pinned: hash(OLD) }
    );
}

#[test]
fn nobody_decides_on_what_was_never_seen() {
    let mut registry = Registry::in_memory().unwrap();
    see(&mut registry, "a", 1, "t", OLD);
    let unknown = registry.decide("a", &ItemKey::tool("x"), Verb::Approve, None, ALICE);
    assert!(matches!(unknown, Err(DecideError::UnknownItem)));
    let never = registry.decide(
        "a",
        &ItemKey::tool("t"),
        Verb::Approve,
        Some(hash(NEW)),
        ALICE,
    );
    assert!(matches!(never, Err(DecideError::UnknownDefinition { .. })));
    assert!(
        registry
            .decisions("a", &ItemKey::tool("t"))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn what_a_whole_listing_lacks_is_removed_once() {
    let mut registry = Registry::in_memory().unwrap();
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 1, "u", OLD);
    see(&mut registry, "b", 1, "v", OLD);
    assert_eq!(list(&mut registry, "a", &["t", "u"]), [""; 0]);
    assert_eq!(list(&mut registry, "a", &["u"]), ["t"]);
    assert_eq!(list(&mut registry, "a", &["u"]), [""; 0]);
    assert!(registry.list().unwrap()[0].removed_at.is_some());
    // Back again, and held to its old pin.
    assert_eq!(
        see(&mut registry, "a", 9, "t", NEW),
        Standing::Changed { pinned: hash(OLD) }
    );
    assert_eq!(registry.list().unwrap()[0].removed_at, None);
    assert_eq!(list(&mut registry, "a", &[]), ["t", "u"]);
}

#[test]
fn pins_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut registry = Registry::open(&path).unwrap();
    see(&mut registry, "a", 1, "t", OLD);
    see(&mut registry, "a", 2, "t", NEW);
    drop(registry);
    let mut registry = Registry::open(&path).unwrap();
    assert_eq!(see(&mut registry, "a", 3, "t", OLD), Standing::AsPinned);
    assert_eq!(
        see(&mut registry, "a", 4, "t", NEW),
        Standing::Changed { pinned: hash(OLD) }
    );
    let versions = registry.versions("a", &ItemKey::tool("t")).unwrap();
    assert_eq!(
        versions
            .iter()
            .map(|version| version.hash)
            .collect::<Vec<_>>(),
        [hash(OLD), hash(NEW)]
    );
    assert_eq!(versions[0].definition, OLD);
}

#[test]
fn another_process_decides_and_this_one_follows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut daemon = Registry::open(&path).unwrap();
    see(&mut daemon, "a", 1, "t", OLD);
    see(&mut daemon, "a", 2, "t", NEW);
    let mut command = Registry::open(&path).unwrap();
    command
        .decide("a", &ItemKey::tool("t"), Verb::Approve, None, ALICE)
        .unwrap();
    assert_eq!(see(&mut daemon, "a", 3, "t", NEW), Standing::AsPinned);
}

#[test]
fn a_damaged_foreign_or_newer_file_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let open = || Registry::open(&path).map(drop).unwrap_err();

    std::fs::write(
        &path,
        "this is no database, but long enough to be taken for one".repeat(100),
    )
    .unwrap();
    assert!(matches!(open(), OpenError::Damaged { .. }), "{:?}", open());
    assert!(std::fs::read(&path).unwrap().starts_with(b"this is no"));

    std::fs::remove_file(&path).unwrap();
    let mut registry = Registry::open(&path).unwrap();
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
    assert!(matches!(open(), OpenError::Damaged { .. }), "{:?}", open());

    std::fs::remove_file(&path).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE other (x)")
        .unwrap();
    assert!(matches!(open(), OpenError::Foreign { .. }), "{:?}", open());

    std::fs::remove_file(&path).unwrap();
    drop(Registry::open(&path).unwrap());
    Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    assert!(
        matches!(open(), OpenError::Newer { found: 99, .. }),
        "{:?}",
        open()
    );

    assert!(matches!(
        Registry::open(&folder.path().join("missing/registry.db")).unwrap_err(),
        OpenError::Unusable { .. }
    ));
}

#[test]
fn a_full_disk_is_said_and_pins_are_kept_and_written_later() {
    let mut registry = Registry::in_memory().unwrap();
    see(&mut registry, "a", 1, "t", OLD);
    registry.store.limit_pages(Some(1));
    assert_eq!(
        see(
            &mut registry,
            "a",
            2,
            "u",
            &format!(r#"{{"x":"{}"}}"#, "y".repeat(100_000))
        ),
        Standing::New
    );
    let health = registry.health();
    assert!(health.unsaved == 1 && health.error.is_some(), "{health:?}");
    // Memory holds the pin, and its text for a diff.
    assert!(matches!(
        see(&mut registry, "a", 3, "u", NEW),
        Standing::Changed { .. }
    ));
    let pinned = registry.servers["a"][&ItemKey::tool("u")].pinned.unwrap();
    let text = registry.text(&server("a"), &ItemKey::tool("u"), pinned);
    assert!(text.is_some_and(|text| text.get().len() > 100_000));

    registry.store.limit_pages(None);
    registry.save(Timestamp(3 + RETRY_AFTER));
    assert_eq!(registry.health(), Health::default());
    assert_eq!(
        registry.versions("a", &ItemKey::tool("u")).unwrap().len(),
        2
    );
}

#[test]
fn the_number_of_items_and_definitions_is_bounded() {
    let (server, session) = (server("a"), SessionId("s".into()));
    let mut registry = Registry::in_memory().unwrap();
    let sight = |time| Sight {
        server: &server,
        session: &session,
        time: Timestamp(time),
    };
    for index in 0..MAX_ITEMS_PER_SERVER {
        let standing = registry
            .observe(sight(1), ItemKind::Tool, &index.to_string(), &raw("{}"))
            .standing;
        assert_eq!(standing, Standing::New);
    }
    assert_eq!(
        registry
            .observe(sight(1), ItemKind::Tool, "more", &raw("{}"))
            .standing,
        Standing::NoRoom
    );
    for index in 0..200 {
        registry.observe(
            sight(2 + index),
            ItemKind::Tool,
            "0",
            &raw(&index.to_string()),
        );
    }
    registry.save(Timestamp(1));
    let versions = registry.versions("a", &ItemKey::tool("0")).unwrap();
    assert_eq!(versions.len(), 66);
    assert_eq!(versions[0].definition, "{}", "what is pinned stays");
    let huge = format!("\"{}\"", "x".repeat(MAX_DEFINITION));
    registry.observe(sight(300), ItemKind::Tool, "0", &raw(&huge));
    registry.save(Timestamp(1));
    assert!(
        registry
            .versions("a", &ItemKey::tool("0"))
            .unwrap()
            .last()
            .unwrap()
            .definition
            .contains("not kept")
    );
}

/// The process is killed while it writes, again and again: whatever was said to be saved is there.
#[test]
fn a_killed_process_loses_nothing_that_was_saved() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    const CHILD: &str = "MCPINSPECT_TEST_REGISTRY";
    if let Some(path) = std::env::var_os(CHILD) {
        let mut registry = Registry::open(Path::new(&path)).unwrap();
        let start = registry.list().unwrap().len();
        for index in start.. {
            assert_eq!(
                see(&mut registry, "a", 1, &format!("{index:06}"), OLD),
                Standing::New
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
        let names = Registry::open(&path).unwrap().list().unwrap();
        assert!(
            names.len() >= saved,
            "{} of {saved} after round {round}",
            names.len()
        );
        assert!(names.iter().all(|item| item.pinned == Some(hash(OLD))));
    }
}

fn decide_elsewhere(path: &Path, verb: Verb, reason: &str) {
    let mut person = Registry::open_existing(path).unwrap();
    let by = Who { reason, ..ALICE };
    person
        .decide("a", &ItemKey::tool("t"), verb, None, by)
        .unwrap();
}

fn taken(registry: &mut Registry) -> Vec<(Verb, String)> {
    let taken = registry.take_decisions();
    registry.save(Timestamp(0));
    taken
        .into_iter()
        .map(
            |Decided {
                 server,
                 key,
                 decision,
             }| {
                assert_eq!((server.as_str(), &key), ("a", &ItemKey::tool("t")));
                assert_eq!((decision.by, decision.time), (ALICE.by, ALICE.time));
                (decision.verb, decision.reason)
            },
        )
        .collect()
}

#[test]
fn each_decision_is_taken_out_once_whoever_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut daemon = Registry::open(&path).unwrap();
    see(&mut daemon, "a", 1, "t", OLD);
    see(&mut daemon, "a", 2, "t", NEW);
    assert_eq!(taken(&mut daemon), []);

    decide_elsewhere(&path, Verb::Reject, "one");
    decide_elsewhere(&path, Verb::Approve, "two");
    let one_two = [
        (Verb::Reject, "one".to_owned()),
        (Verb::Approve, "two".to_owned()),
    ];
    assert_eq!(taken(&mut daemon), one_two);
    assert_eq!(taken(&mut daemon), []);
    assert_eq!(see(&mut daemon, "a", 3, "t", NEW), Standing::AsPinned);

    daemon
        .decide("a", &ItemKey::tool("t"), Verb::Unpin, None, ALICE)
        .unwrap();
    let own = (Verb::Unpin, ALICE.reason.to_owned());
    assert_eq!(taken(&mut daemon), [own]);

    // While nobody was there, and more than are taken at one time.
    drop(daemon);
    for number in 0..65 {
        decide_elsewhere(&path, Verb::Pin, &number.to_string());
    }
    let mut daemon = Registry::open(&path).unwrap();
    let first = taken(&mut daemon);
    assert_eq!((first.len(), first[63].1.as_str()), (64, "63"));
    assert_eq!(taken(&mut daemon), [(Verb::Pin, "64".to_owned())]);
    assert_eq!(taken(&mut daemon), []);
    drop(daemon);
    assert_eq!(taken(&mut Registry::open(&path).unwrap()), []);
}

#[test]
fn what_is_taken_and_not_saved_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut daemon = Registry::open(&path).unwrap();
    see(&mut daemon, "a", 1, "t", OLD);
    decide_elsewhere(&path, Verb::Reject, "");
    assert_eq!(daemon.take_decisions().len(), 1);
    assert_eq!(daemon.take_decisions().len(), 0);
    drop(daemon);
    assert_eq!(taken(&mut Registry::open(&path).unwrap()).len(), 1);
}

/// What the daemon does at the start of a session.
fn start_session(registry: &mut Registry, book: &mut NameBook, launch: &str) -> String {
    let identity = book.settle(ServerIdentity {
        server_id: server("github"),
        fingerprint: launch.to_owned(),
        name_source: "test".to_owned(),
    });
    registry.name_given(&identity, Timestamp(1));
    registry.save(Timestamp(1));
    identity.server_id.to_string()
}

#[test]
fn a_look_alike_that_starts_first_does_not_take_the_name() {
    const GENUINE: &str = "aaaaaaaabbbbbbbb";
    const IMPOSTOR: &str = "ccccccccdddddddd";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let open = || {
        let registry = Registry::open(&path).unwrap();
        let owned = |(name, fingerprint): (&str, &str)| (name.to_owned(), fingerprint.to_owned());
        let book = NameBook::with(registry.names().map(owned));
        (registry, book)
    };
    let (mut registry, mut book) = open();
    assert_eq!(start_session(&mut registry, &mut book, GENUINE), "github");
    drop(registry);
    for _ in 0..2 {
        let (mut registry, mut book) = open();
        let impostor = start_session(&mut registry, &mut book, IMPOSTOR);
        assert_eq!(impostor, "github#cccc");
        assert_eq!(start_session(&mut registry, &mut book, GENUINE), "github");
    }
}
