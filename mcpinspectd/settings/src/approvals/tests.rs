use std::path::Path;

use mcpinspect_core::model::{DefinitionHash, ItemKind, Timestamp};
use mcpinspect_judge::registry::{ItemKey, Listed};
use proptest::prelude::*;

use super::folder::{ACCEPTED_FILE, ApprovalChanges, ApprovalFolder, Notice, Refusal, SIGNATURE};
use super::keys::{KeyError, Keys};
use super::list::{ApprovalList, Entry};

/// A key that minisign 0.11 made, and what it signed with it.
const KEY: &str = "RWQ+0yZjUipGn1Kmo9zlct/s19FboGkJPezzWamMrpTICuMnu9nBLD+X";
const SIGNED: &str = "hi\n";
const ITS_SIGNATURE: &str = "untrusted comment: signature from minisign secret key
RUQ+0yZjUipGnz3XB+/WUq6OqWYSM/oDkSj0FyTR4O51oH9M2f5j6AP5q8mfo+t9ZMZ6hUfJZxernKuVhHOXpOlXsOVpxlGY7QM=
trusted comment: timestamp:1795493128	file:x	hashed
L940TV+RLU4CeNpMlFR+KSk1RaXEZKG0+uTg/itoIW+IM9Ao5YTat4sBUvSbBGQvSyvN2AZOHG+iYS2E9bfdAw==
";

const SECOND: u64 = 1_000_000_000;
const NOW: Timestamp = Timestamp(1_800_000_000 * SECOND);

fn hash(digits: &str) -> DefinitionHash {
    digits.repeat(32).parse().unwrap()
}

fn entry(server: &str, tool: &str, digits: &str) -> Entry {
    Entry {
        server: server.to_owned(),
        key: ItemKey::tool(tool),
        hash: hash(digits),
        by: "alice".to_owned(),
        time: NOW,
        reason: "read it".to_owned(),
        expires: None,
    }
}

fn after(seconds: u64) -> Timestamp {
    Timestamp(NOW.0 + seconds * SECOND)
}

/// A key pair, a folder with lists, and what a daemon would make of them.
struct Workspace {
    directory: tempfile::TempDir,
    pair: minisign::KeyPair,
    keys: Vec<String>,
}

impl Workspace {
    fn new() -> Self {
        let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
        let workspace = Self {
            directory: tempfile::tempdir().unwrap(),
            keys: vec![pair.pk.to_base64()],
            pair,
        };
        std::fs::create_dir(workspace.path("lists")).unwrap();
        workspace
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn folder(&self) -> ApprovalFolder {
        ApprovalFolder::new(&self.path("lists"), &self.keys, &self.path(ACCEPTED_FILE))
    }

    fn write(&self, file: &str, list: &ApprovalList) {
        let text = list.text().unwrap();
        std::fs::write(self.path("lists").join(file), &text).unwrap();
        self.sign(file, &text);
    }

    fn sign(&self, file: &str, text: &str) {
        let signed = minisign::sign(None, &self.pair.sk, text.as_bytes(), None, None).unwrap();
        let path = self.path("lists").join(format!("{file}{SIGNATURE}"));
        std::fs::write(path, signed.into_string()).unwrap();
    }
}

fn list(serial: u64, entries: &[Entry]) -> ApprovalList {
    let mut list = ApprovalList::new("fleet", NOW).unwrap();
    list.serial = serial;
    list.approvals = entries.to_vec();
    list
}

fn refusal(changes: Option<ApprovalChanges>) -> String {
    let changes = changes.unwrap();
    match changes.notices.as_slice() {
        [Notice::Refused { why, .. }] => why.to_string(),
        other => panic!("{other:?}"),
    }
}

fn is_taken(changes: &ApprovalChanges) -> bool {
    matches!(changes.notices.as_slice(), [Notice::Taken { .. }])
}

/// What a list that approves `entries` says.
fn says(serial: u64, entries: &[Entry]) -> Listed {
    let mut listed = Listed::default();
    list(serial, entries).add_to(&mut listed, NOW);
    listed
}

#[test]
fn a_list_survives_its_text() {
    let mut list = list(
        7,
        &[entry("notes", "read", "aa"), entry("notes", "ü\n", "bb")],
    );
    list.expires = Some(after(9));
    list.approvals[1].expires = Some(after(5));
    list.approve(Entry {
        key: ItemKey::only(ItemKind::Instructions),
        ..entry("notes", "", "cc")
    });
    let revoked = list.revoke(
        "notes",
        &ItemKey::tool("read"),
        None,
        ("bob", "no", after(1)),
    );
    assert_eq!(
        (revoked, list.revoked.len(), list.approvals.len()),
        (1, 1, 2)
    );
    let text = list.text().unwrap();
    assert_eq!(ApprovalList::parse(&text).unwrap(), list);
    // What is approved again is no longer revoked.
    list.approve(entry("notes", "read", "aa"));
    assert_eq!((list.revoked.len(), list.approvals.len()), (0, 3));
}

#[test]
fn what_is_no_list_is_refused_with_a_reason() {
    let text = list(1, &[entry("notes", "read", "aa")]).text().unwrap();
    for (from, to, says) in [
        (
            "mcpinspect-approvals-1",
            "mcpinspect-approvals-2",
            "the format must be",
        ),
        ("\"tool\": \"read\"", "\"toool\": \"read\"", "unknown field"),
        ("\"item\": \"tool\"", "\"item\": \"gadget\"", "gadget"),
        ("\"serial\": 1", "\"serial\": -1", "invalid value"),
        (
            "\"list\": \"fleet\"",
            "\"list\": \"../etc\"",
            "invalid list name",
        ),
        ("aaaa", "zz", "64 hexadecimal digits"),
        ("\"by\": \"alice\"", "\"by\": \"\"", "no `by`"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = ApprovalList::parse(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn approvals_end() {
    let mut one = list(
        1,
        &[entry("notes", "read", "aa"), entry("notes", "write", "bb")],
    );
    one.approvals[0].expires = Some(after(10));
    one.expires = Some(after(20));
    let approved = |at: u64| {
        let mut listed = Listed::default();
        let next = one.add_to(&mut listed, after(at));
        let is = |tool: &str, digits: &str| {
            let key = ItemKey::tool(tool);
            listed.approval("notes", &key, hash(digits)).is_some()
        };
        (is("read", "aa"), is("write", "bb"), next)
    };
    assert_eq!(approved(9), (true, true, Some(after(10))));
    assert_eq!(approved(10), (false, true, Some(after(20))));
    assert_eq!(approved(20), (false, false, None));
}

#[test]
fn lists_are_taken_in_when_they_change() {
    let workspace = Workspace::new();
    let mut folder = workspace.folder();
    assert!(folder.check(NOW).unwrap().listed.is_empty());
    let entries = [entry("notes", "read", "aa")];
    workspace.write("fleet.json", &list(1, &entries));
    assert!(folder.check(after(1)).is_none(), "it is not due yet");
    assert!(folder.check(after(2)).is_none(), "it may still be written");
    let changes = folder.check(after(4)).unwrap();
    assert!(is_taken(&changes));
    assert_eq!(changes.listed, says(1, &entries));
    assert!(folder.check(after(6)).is_none());
    // After a restart it is known, and counts without a notice.
    let changes = workspace.folder().check(after(7)).unwrap();
    assert!(changes.notices.is_empty());
    assert_eq!(changes.listed, says(1, &entries));
    // Without its key it does not.
    let mut strange = ApprovalFolder::new(
        &workspace.path("lists"),
        &[KEY],
        &workspace.path(ACCEPTED_FILE),
    );
    let changes = strange.check(after(8)).unwrap();
    assert!(changes.listed.is_empty());
    assert!(refusal(Some(changes)).contains("not signed by a key"));
}

#[test]
fn a_file_that_is_refused_changes_nothing() {
    let workspace = Workspace::new();
    let entries = [entry("notes", "read", "aa")];
    workspace.write("fleet.json", &list(5, &entries));
    assert!(is_taken(&workspace.folder().check(NOW).unwrap()));
    let path = workspace.path("lists").join("fleet.json");
    let signature = workspace.path("lists").join("fleet.json.minisig");
    let good = std::fs::read_to_string(&path).unwrap();
    let check = || {
        let changes = workspace.folder().check(NOW).unwrap();
        assert_eq!(changes.listed, says(5, &entries));
        refusal(Some(changes))
    };
    std::fs::write(&path, good.replace("alice", "malory")).unwrap();
    assert!(check().contains("changed after signing"));
    workspace.sign("fleet.json", &good.replace("alice", "malory"));
    std::fs::write(&path, good.replace("alice", "malory")).unwrap();
    assert!(check().contains("another list with the serial 5"));
    workspace.write("fleet.json", &list(4, &[entry("notes", "read", "ee")]));
    assert!(check().contains("lower than"));
    std::fs::write(&signature, "nonsense").unwrap();
    assert!(check().contains("not a minisign signature"));
    std::fs::remove_file(&signature).unwrap();
    assert!(check().contains("fleet.json.minisig is missing"));
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(check().contains("cannot be read"));
    // The list itself comes back, and then a newer one.
    workspace.write("fleet.json", &list(5, &entries));
    assert!(workspace.folder().check(NOW).unwrap().notices.is_empty());
    workspace.write("fleet.json", &list(6, &[]));
    let changes = workspace.folder().check(NOW).unwrap();
    assert!(is_taken(&changes));
    assert_eq!(changes.listed, says(6, &[]));
}

#[test]
fn a_file_that_is_gone_withdraws_its_list_and_its_serial_stays() {
    let workspace = Workspace::new();
    workspace.write("fleet.json", &list(5, &[entry("notes", "read", "aa")]));
    let mut folder = workspace.folder();
    folder.check(NOW).unwrap();
    std::fs::remove_file(workspace.path("lists").join("fleet.json")).unwrap();
    assert!(folder.check(after(2)).is_none());
    let changes = folder.check(after(4)).unwrap();
    assert!(matches!(
        changes.notices.as_slice(),
        [Notice::Withdrawn { .. }]
    ));
    assert!(changes.listed.is_empty());
    workspace.write("other.json", &list(4, &[]));
    assert!(refusal(workspace.folder().check(NOW)).contains("lower than"));
    std::fs::remove_file(workspace.path("lists").join("other.json")).unwrap();
    workspace.write("fleet.json", &list(5, &[entry("notes", "read", "aa")]));
    assert!(is_taken(&workspace.folder().check(NOW).unwrap()));
}

#[test]
fn what_cannot_be_remembered_is_not_taken_in() {
    let workspace = Workspace::new();
    workspace.write("fleet.json", &list(1, &[entry("notes", "read", "aa")]));
    std::fs::write(workspace.path(ACCEPTED_FILE), "{").unwrap();
    let changes = workspace.folder().check(NOW).unwrap();
    assert!(changes.listed.is_empty());
    assert!(refusal(Some(changes)).contains("is damaged"));
    let nowhere = Path::new("/nonexistent/approvals.json");
    let mut folder = ApprovalFolder::new(&workspace.path("lists"), &workspace.keys, nowhere);
    let changes = folder.check(NOW).unwrap();
    assert!(matches!(
        changes.notices.as_slice(),
        [Notice::Refused {
            why: Refusal::Store(_),
            ..
        }]
    ));
    assert!(changes.listed.is_empty());
}

#[test]
fn keys_are_told_from_what_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fleet.pub");
    std::fs::write(&path, format!("untrusted comment: x\n{KEY}\n")).unwrap();
    assert!(Keys::new(&[KEY, path.to_str().unwrap()]).is_ok());
    for wrong in ["", "RWQ", "/nonexistent/key", "x.pub"] {
        assert!(Keys::new(&[wrong]).is_err(), "{wrong}");
    }
    let keys = Keys::new(&[KEY]).unwrap();
    assert_eq!(keys.verify(SIGNED.as_bytes(), ITS_SIGNATURE).unwrap(), KEY);
    for (text, signature) in [
        ("ho\n", ITS_SIGNATURE.to_owned()),
        (SIGNED, ITS_SIGNATURE.replace("file:x", "file:y")),
    ] {
        let refused = keys.verify(text.as_bytes(), &signature);
        assert!(matches!(refused, Err(KeyError::Untrusted)), "{refused:?}");
    }
    let none: [&str; 0] = [];
    let error = Keys::new(&none).unwrap().verify(b"", "").unwrap_err();
    assert!(error.to_string().contains("has no key"), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_a_list_or_an_error(text in "[\\[\\]{}a-z:\",0-9\n ]{0,200}") {
        let _ = ApprovalList::parse(&text);
        let _ = Keys::new(&[KEY]).unwrap().verify(text.as_bytes(), &text);
    }
}
