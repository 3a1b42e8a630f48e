use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use mcpinspect_judge::registry::{DecideError, DecisionKind, PinStatus, Registry};

use super::*;
use crate::registry as store;
use crate::registry::contract::{self, ALICE, NEW, OLD, hash, of, see};
use crate::registry::open;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A disk controlled by a test: each commit waits for a permission, and may be told to fail.
struct Disk {
    database: Database,
    /// Receives a message when a commit begins.
    begun: Sender<()>,
    /// Permissions, and whether the commit succeeds. Without a sender, all are granted.
    permissions: Receiver<bool>,
}

impl Disk {
    fn asked(&self) -> Result<(), StorageError> {
        let _ = self.begun.send(());
        match self.permissions.recv() {
            Ok(false) => Err(StorageError("no space left".to_owned())),
            Ok(true) | Err(_) => Ok(()),
        }
    }
}

impl Commit for Disk {
    fn write(&mut self, writes: &mut dyn Iterator<Item = &Write>) -> Result<(), StorageError> {
        self.asked()?;
        self.database.write(writes)
    }

    fn decide(&mut self, write: &DecisionWrite) -> Result<bool, StorageError> {
        self.asked()?;
        self.database.decide(write)
    }
}

/// A registry on a controlled disk, and what leaves its outbox.
struct Setup {
    registry: Registry,
    outbox: Outbox<String>,
    told: Receiver<String>,
    begun: Receiver<()>,
    permissions: Option<Sender<bool>>,
    folder: tempfile::TempDir,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("registry.db");
        let database = Database::new(open::create(&path).unwrap());
        let reader = Database::new(open::reader(&path).unwrap());
        let (storage, writer) = new(database, reader).unwrap();
        let registry = Registry::new(Box::new(storage)).unwrap();
        let (grant, permissions) = channel();
        let (begin, begun) = channel();
        let disk = Disk {
            database: writer.database,
            begun: begin,
            permissions,
        };
        let (tell, told) = channel();
        let outbox = start(disk, writer.queue, move |event| {
            let _ = tell.send(event);
        });
        Self {
            registry,
            outbox: outbox.unwrap(),
            told,
            begun,
            permissions: Some(grant),
            folder,
        }
    }

    /// Waits until a commit has begun.
    fn begun(&self) {
        self.begun.recv_timeout(PATIENCE).unwrap();
    }

    /// Lets one commit through.
    fn grant(&self, succeeds: bool) {
        self.permissions.as_ref().unwrap().send(succeeds).unwrap();
    }

    fn push(&mut self, event: &str) {
        self.outbox.push(event.to_owned());
    }

    /// The next events to leave.
    fn told(&self, count: usize) -> Vec<String> {
        (0..count)
            .map(|_| self.told.recv_timeout(PATIENCE).unwrap())
            .collect()
    }

    /// Nothing leaves for now. A mistake shows sooner or later, so a short look has to do.
    fn nothing_is_told(&self) {
        let told = self.told.recv_timeout(Duration::from_millis(50));
        assert!(told.is_err(), "{told:?}");
    }

    /// What is on disk, as another process sees it.
    fn on_disk(&self) -> Registry {
        store::open_existing(&self.folder.path().join("registry.db")).unwrap()
    }
}

#[test]
fn a_registry_that_writes_behind_keeps_the_contract() {
    for (name, case) in contract::cases() {
        println!("{name}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("registry.db");
        let (registry, writer) = store::open_write_behind::<()>(&path).unwrap();
        let outbox = writer.start(|()| {}).unwrap();
        case(registry);
        outbox.finish();
    }
}

#[test]
fn events_wait_for_the_writes_before_them_and_the_pipeline_does_not() {
    let mut setup = Setup::new();
    setup.push("before");
    assert_eq!(setup.told(1), ["before"]);

    let begin = Instant::now();
    assert_eq!(see(&mut setup.registry, "a", 1, "t", OLD), PinStatus::New);
    setup.begun();
    setup.push("t seen");
    setup.push("something else");
    // Memory has the pin and its text already.
    let changed = PinStatus::Changed { pinned: hash(OLD) };
    assert_eq!(see(&mut setup.registry, "a", 2, "t", NEW), changed);
    let key = ItemKey::tool("t");
    assert!(setup.registry.text(of("a"), &key, hash(OLD)).is_some());
    setup.push("t changed");
    assert!(begin.elapsed() < PATIENCE);
    setup.nothing_is_told();
    assert_eq!(setup.registry.health(), StorageHealth::default());

    setup.grant(true);
    assert_eq!(setup.told(2), ["t seen", "something else"]);
    assert_eq!(setup.on_disk().list().unwrap()[0].pinned, Some(hash(OLD)));
    setup.nothing_is_told();
    setup.grant(true);
    assert_eq!(setup.told(1), ["t changed"]);
    assert_eq!(setup.on_disk().list().unwrap()[0].current, hash(NEW));
}

#[test]
fn writes_that_gather_during_a_commit_share_the_next_one() {
    let mut setup = Setup::new();
    for number in 0..100 {
        see(&mut setup.registry, "a", 1, &format!("t{number}"), OLD);
        setup.push(&number.to_string());
        if number == 0 {
            setup.begun();
        }
    }
    setup.grant(true);
    setup.grant(true);
    let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(setup.told(100), expected);
    assert_eq!(setup.on_disk().list().unwrap().len(), 100);
}

#[test]
fn definitions_under_a_former_name_are_known_before_they_are_copied() {
    let mut setup = Setup::new();
    contract::name(&mut setup.registry, "mcp", None);
    setup.begun();
    see(&mut setup.registry, "mcp", 1, "t", OLD);
    setup.push("t seen");
    setup.grant(true);
    setup.begun();
    setup.grant(true);
    assert_eq!(setup.told(1), ["t seen"]);
    contract::name(&mut setup.registry, "files", Some("mcp"));
    setup.begun();
    see(&mut setup.registry, "files", 2, "t", NEW);
    setup.push("t changed");
    let key = ItemKey::tool("t");
    let comparison = setup
        .registry
        .compare(of("files"), &key, None, None)
        .unwrap();
    assert_eq!(comparison.previous, hash(OLD));
    assert_eq!(comparison.changes.len(), 1);
    setup.nothing_is_told();
    setup.grant(true);
    setup.grant(true);
    assert_eq!(setup.told(1), ["t changed"]);
    let on_disk = setup.on_disk().list_server("files").unwrap();
    assert_eq!((on_disk.len(), on_disk[0].pinned), (1, Some(hash(OLD))));
}

#[test]
fn that_a_decision_was_told_is_written_after_its_event() {
    let mut setup = Setup::new();
    see(&mut setup.registry, "a", 1, "t", OLD);
    setup.grant(true);
    setup.push("t seen");
    assert_eq!(setup.told(1), ["t seen"]);
    let mut person = setup.on_disk();
    let key = ItemKey::tool("t");
    person
        .decide(of("a"), &key, DecisionKind::Reject, None, ALICE)
        .unwrap();

    // An earlier write holds back the event of the decision.
    see(&mut setup.registry, "a", 2, "u", OLD);
    assert_eq!(setup.registry.take_decisions().len(), 1);
    setup.push("t rejected");
    setup.registry.save(Timestamp(2));
    setup.push("after");
    let untold = |setup: &Setup| setup.on_disk().take_decisions().len();
    setup.nothing_is_told();
    assert_eq!(untold(&setup), 1);
    setup.grant(true);
    assert_eq!(setup.told(1), ["t rejected"]);
    // Killed here, the decision would be reported again: it was not yet written that it was.
    assert_eq!(untold(&setup), 1);
    setup.grant(true);
    assert_eq!(setup.told(1), ["after"]);
    assert_eq!(untold(&setup), 0);
}

#[test]
fn a_disk_that_fails_delays_no_events_and_is_tried_again() {
    let mut setup = Setup::new();
    see(&mut setup.registry, "a", 1, "t", OLD);
    setup.push("t seen");
    setup.grant(false);
    assert_eq!(setup.told(1), ["t seen"]);
    let health = setup.registry.health();
    assert_eq!(health.unsaved, 1);
    assert_eq!(health.error.unwrap(), "no space left");
    // While the disk is left alone, nothing waits for it.
    see(&mut setup.registry, "a", 2, "u", OLD);
    setup.push("u seen");
    assert_eq!(setup.told(1), ["u seen"]);
    assert_eq!(setup.registry.health().unsaved, 2);
    // A person's decision tries the disk at once, and fails when it does.
    let decide = |setup: &mut Setup| {
        let (done, result) = channel();
        let key = ItemKey::tool("t");
        let kind = DecisionKind::Reject;
        setup
            .registry
            .decide_then(of("a"), &key, kind, None, ALICE, move |decided| {
                done.send(decided).unwrap();
            });
        result
    };
    let result = decide(&mut setup);
    setup.grant(false);
    let refused = result.recv_timeout(PATIENCE).unwrap();
    assert!(
        matches!(refused, Err(DecideError::Storage(_))),
        "{refused:?}"
    );
    let result = decide(&mut setup);
    setup.permissions = None;
    let decided = result.recv_timeout(PATIENCE).unwrap();
    assert_eq!(decided.unwrap(), hash(OLD));
    assert_eq!(setup.registry.health(), StorageHealth::default());
    assert_eq!(setup.on_disk().list().unwrap().len(), 2);
}

#[test]
fn a_decision_is_reported_when_it_is_on_disk_and_followed_then() {
    let mut setup = Setup::new();
    let key = ItemKey::tool("t");
    see(&mut setup.registry, "a", 1, "t", OLD);
    see(&mut setup.registry, "a", 2, "t", NEW);
    let (done, result) = channel();
    let kind = DecisionKind::Approve;
    setup
        .registry
        .decide_then(of("a"), &key, kind, None, ALICE, move |decided| {
            done.send(decided).unwrap();
        });
    assert!(result.recv_timeout(Duration::from_millis(50)).is_err());
    setup.permissions = None;
    assert_eq!(result.recv_timeout(PATIENCE).unwrap().unwrap(), hash(NEW));
    assert_eq!(
        see(&mut setup.registry, "a", 3, "t", NEW),
        PinStatus::AsPinned
    );
    assert_eq!(setup.registry.take_decisions().len(), 1);
}

/// What an unwritten write does to a pin takes precedence over what the database says meanwhile.
#[test]
fn a_pin_in_memory_never_goes_back_to_an_older_one() {
    let mut setup = Setup::new();
    let key = ItemKey::tool("t");
    let third = r#"{"name":"t","description":"third"}"#;
    see(&mut setup.registry, "a", 1, "t", OLD);
    setup.push("seen");
    setup.grant(true);
    setup.told(1);
    for definition in [NEW, third] {
        see(&mut setup.registry, "a", 2, "t", definition);
        let accept = |registry: &mut Registry| {
            registry.accept(of("a"), &key, hash(definition), Timestamp(2), "")
        };
        accept(&mut setup.registry).unwrap();
        // The first acceptance may reach the disk, but the second does not.
        setup.grant(true);
    }
    for _ in 0..100 {
        let status = see(&mut setup.registry, "a", 3, "t", third);
        assert_eq!(status, PinStatus::AsPinned);
    }
    setup.permissions = None;
    drop(setup.outbox);
    let mut registry = setup.registry;
    registry.refresh();
    assert_eq!(see(&mut registry, "a", 4, "t", third), PinStatus::AsPinned);
}

#[test]
fn what_waits_is_bounded_and_then_the_pipeline_waits() {
    let mut setup = Setup::new();
    see(&mut setup.registry, "a", 1, "t", OLD);
    let (done, finished) = channel();
    let (permissions, told) = (setup.permissions.take(), setup.told);
    let mut outbox = setup.outbox;
    let pipeline = std::thread::spawn(move || {
        for number in 0..=MAX_WAITING {
            outbox.push(number.to_string());
        }
        done.send(()).unwrap();
        outbox
    });
    assert!(finished.recv_timeout(Duration::from_millis(200)).is_err());
    drop(permissions);
    finished.recv_timeout(PATIENCE).unwrap();
    pipeline.join().unwrap().finish();
    let told: Vec<String> = told.iter().collect();
    let expected: Vec<String> = (0..=MAX_WAITING).map(|n| n.to_string()).collect();
    assert!(told == expected);
}

#[test]
fn a_thread_that_panics_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let (mut registry, writer) = store::open_write_behind::<u32>(&path).unwrap();
    let (tell, told) = channel();
    let mut outbox = writer
        .start(move |event| {
            assert!(event != 1 || std::thread::current().name() != Some("registry"));
            tell.send(event).unwrap();
        })
        .unwrap();
    see(&mut registry, "a", 1, "t", OLD);
    outbox.push(1);
    // From some event on, those that follow are reported by this thread.
    let begin = Instant::now();
    for event in 2.. {
        see(&mut registry, "a", 1, &format!("t{event}"), OLD);
        outbox.push(event);
        if told.try_recv().is_ok() || begin.elapsed() > PATIENCE {
            break;
        }
    }
    assert!(begin.elapsed() < PATIENCE);
}

/// A process is killed while it writes behind, again and again: everything that it reported is on disk.
#[test]
fn a_killed_process_has_told_nothing_that_is_not_on_disk() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    const CHILD: &str = "MCPINSPECT_TEST_WRITE_BEHIND";
    if let Some(path) = std::env::var_os(CHILD) {
        let path = std::path::Path::new(&path);
        let (mut registry, writer) = store::open_write_behind::<usize>(path).unwrap();
        let start = registry.list().unwrap().len();
        let mut outbox = writer.start(|number| println!("\ntold {number}")).unwrap();
        for number in start.. {
            let name = format!("{number:06}");
            assert_eq!(see(&mut registry, "a", 1, &name, OLD), PinStatus::New);
            outbox.push(number);
            // Commits of all sizes.
            std::thread::sleep(Duration::from_micros(number as u64 * 37 % 500));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let mut told = 0;
    for round in 1..=5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "registry::write_behind::tests::a_killed_process_has_told_nothing_that_is_not_on_disk",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut numbers = output.lines().map_while(Result::ok).filter_map(|line| {
            let number = line.strip_prefix("told ")?;
            number.parse::<usize>().ok()
        });
        for _ in 0..round * 20 {
            assert_eq!(numbers.next(), Some(told), "in order and without a gap");
            told += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        told += numbers.count();
        let items = store::open_existing(&path).unwrap().list().unwrap();
        assert!(items.len() >= told, "{} of {told}", items.len());
        assert!(items.iter().all(|item| item.pinned == Some(hash(OLD))));
        told = items.len();
    }
}

/// A disk whose commits take this much longer.
struct Slow {
    database: Database,
    delay: Duration,
}

impl Commit for Slow {
    fn write(&mut self, writes: &mut dyn Iterator<Item = &Write>) -> Result<(), StorageError> {
        std::thread::sleep(self.delay);
        self.database.write(writes)
    }

    fn decide(&mut self, write: &DecisionWrite) -> Result<bool, StorageError> {
        std::thread::sleep(self.delay);
        self.database.decide(write)
    }
}

/// How long the pipeline is busy per listing of ten new tools, at median, 99th percentile and
/// maximum, in microseconds: when it commits itself, and when a thread does.
fn measured(delay: Duration, listings: u64) -> [[u128; 3]; 2] {
    let summary = |mut times: Vec<u128>| {
        times.sort_unstable();
        [50, 99, 100].map(|percent| times[(times.len() * percent / 100).min(times.len() - 1)])
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let writes = |listing: u64| -> Vec<Write> {
        let definition = |tool| format!(r#"{{"name":"{listing}","description":"{tool:700}"}}"#);
        let write = |tool| Write::Seen {
            owner: contract::OWNER,
            server: listing.to_string().into(),
            key: ItemKey::tool(&format!("{tool}")),
            hash: hash(&definition(tool)),
            definition: definition(tool).into(),
            time: Timestamp(listing),
            session: "s".into(),
            pin: true,
        };
        (0..10).map(write).collect()
    };
    let mut disk = Slow {
        database: Database::new(open::create(&path).unwrap()),
        delay,
    };
    let at_once = (0..listings).map(|listing| {
        let writes = writes(listing);
        let begin = Instant::now();
        disk.write(&mut writes.iter()).unwrap();
        begin.elapsed().as_micros()
    });
    let at_once = summary(at_once.collect());

    let reader = Database::new(open::reader(&path).unwrap());
    let (mut storage, writer) =
        new::<u64>(Database::new(open::reader(&path).unwrap()), reader).unwrap();
    let mut outbox = start(disk, writer.queue, |_| {}).unwrap();
    let behind = (0..listings).map(|listing| {
        let writes = writes(listings + listing);
        let begin = Instant::now();
        storage.has_changed().unwrap();
        storage.record(writes, Timestamp(0));
        outbox.push(listing);
        let took = begin.elapsed().as_micros();
        // A listing comes after the one before it.
        std::thread::sleep(Duration::from_millis(2));
        took
    });
    let behind = summary(behind.collect());
    outbox.finish();
    [at_once, behind]
}

#[test]
fn a_slow_disk_does_not_keep_the_pipeline_away() {
    for (name, delay, listings) in [
        ("this disk", Duration::ZERO, 100),
        ("100 ms", Duration::from_millis(100), 10),
        ("1 s", Duration::from_secs(1), 3),
    ] {
        let [at_once, behind] = measured(delay, listings);
        println!("{name}: at once {at_once:?} µs, behind {behind:?} µs");
        assert!(behind[0] < 10_000, "{behind:?}");
    }
}
