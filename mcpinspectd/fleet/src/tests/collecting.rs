//! Inputs that grow, break, and are larger than the memory; disks that are full.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use super::super::collect::{CollectError, Options};
use super::super::framing::ENTRY_MAX;
use super::super::state::{StateDirectory, StateError};
use super::{FullReport, approve, line, read_with, seen};

fn small(temporary: &Path) -> Options {
    Options {
        memory: 4_096,
        temporary: temporary.to_owned(),
        ..Options::default()
    }
}

fn append(path: &Path, text: &str) {
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn what_was_read_is_not_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let (path, state) = (
        directory.path().join("json"),
        directory.path().join("state"),
    );
    let options = small(directory.path());
    let read = || FullReport::of(&read_with(&[&path], Some(&state), &options).unwrap());
    let gap = line(1, 1, &seen("notes", "read", "aa")).replace("mcp_tool_seen", "mcp_blind_spot");
    let (begin, end) = gap.split_at(40);
    append(&path, &gap);
    append(&path, begin);
    assert_eq!(read().hosts[0].lost.blind_spots, 1);
    assert_eq!(read().hosts[0].lost.blind_spots, 1);
    append(&path, end);
    assert_eq!(read().hosts[0].lost.blind_spots, 2);
    // Another file of that name is read from its beginning.
    std::fs::remove_file(&path).unwrap();
    append(&path, &gap.replace("host1", "host2").repeat(3));
    assert_eq!(read().hosts[0].lost.blind_spots, 5);
}

#[test]
fn a_run_that_was_killed_leaves_the_state_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let (path, state) = (
        directory.path().join("json"),
        directory.path().join("state"),
    );
    let options = small(directory.path());
    append(&path, &line(1, 1, &seen("notes", "read", "aa")));
    let before = FullReport::of(&read_with(&[&path], Some(&state), &options).unwrap());
    // Killed while it wrote.
    std::fs::write(state.join("fleet.state.new"), "half of a sta").unwrap();
    let after = FullReport::of(&read_with(&[&path], Some(&state), &options).unwrap());
    assert_eq!(after, before);
    assert!(!state.join("fleet.state.new").exists());
}

#[test]
fn a_state_that_cannot_be_used_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let open = StateDirectory::open(directory.path()).unwrap();
    let error = StateDirectory::open(directory.path()).unwrap_err();
    assert!(matches!(error, StateError::InUse(_)), "{error}");
    let path = directory.path().join("fleet.state");
    std::fs::write(&path, "mcpinspect fleet\x63\0\0\0").unwrap();
    let error = open.load().unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
    for damaged in [
        "",
        "something else entirely",
        "mcpinspect fleet",
        "SQLite format 3\0",
    ] {
        std::fs::write(&path, damaged).unwrap();
        let error = open.load().unwrap_err();
        assert!(matches!(error, StateError::Damaged(_)), "{error}");
    }
}

#[test]
fn a_directory_without_room_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("json");
    // More than the memory holds.
    for number in 0..1_000 {
        let tool = format!("tool-{number}");
        append(&path, &line(1, 1, &seen("notes", &tool, "aa")));
    }
    let error = read_with(&[&path], None, &small(Path::new("/proc/self"))).unwrap_err();
    assert!(matches!(error, CollectError::Temporary { .. }), "{error}");
    assert!(error.to_string().contains("--temporary"), "{error}");
}

#[test]
fn lines_without_an_end_take_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("json");
    let good = line(1, 1, &seen("notes", "read", "aa"));
    for length in [ENTRY_MAX, ENTRY_MAX + 1, 3 * ENTRY_MAX] {
        let long = format!("{{\"x\":\"{}\"}}\n", "y".repeat(length - 8));
        std::fs::write(
            &path,
            format!("{good}{long}{good}{long}{}", good.trim_end()),
        )
        .unwrap();
        let full_report = FullReport::of(&read_with(&[&path], None, &Options::default()).unwrap());
        assert_eq!(full_report.hosts.len(), 1);
        assert_eq!(full_report.summary.left_out.unreadable, 2, "{length}");
    }
    let mut export = b"_UID=0\nBIG\n".to_vec();
    export.extend_from_slice(&(2 * ENTRY_MAX as u64).to_le_bytes());
    export.extend(std::iter::repeat_n(b'z', 2 * ENTRY_MAX));
    export.extend_from_slice(
        b"\n__REALTIME_TIMESTAMP=1\n_MACHINE_ID=00112233445566778899aabbccddeeff\n\n",
    );
    std::fs::write(&path, export).unwrap();
    let full_report = FullReport::of(&read_with(&[&path], None, &Options::default()).unwrap());
    assert_eq!(full_report.hosts.len(), 1);
}

#[test]
fn what_is_no_export_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("json");
    let mut endless = b"F\n".to_vec();
    endless.extend_from_slice(&u64::MAX.to_le_bytes());
    endless.extend_from_slice(b"short");
    for wrong in [
        b"GIF89a\n\x01\x02".to_vec(),
        endless,
        vec![b'x'; 3 * ENTRY_MAX],
    ] {
        std::fs::write(&path, &wrong).unwrap();
        let error = read_with(&[&path], None, &Options::default()).unwrap_err();
        assert!(matches!(error, CollectError::Input { .. }), "{error}");
    }
    std::fs::write(&path, "").unwrap();
    read_with(&[&path], None, &Options::default()).unwrap();
    std::fs::write(&path, "{}\nnothing\n").unwrap();
    let full_report = FullReport::of(&read_with(&[&path], None, &Options::default()).unwrap());
    assert_eq!(full_report.summary.left_out.unreadable, 2);
}

/// More hosts than the comparison once had room for, in a thousandth of the memory.
#[test]
fn thousands_of_hosts_are_compared_in_little_memory() {
    const HOSTS: u64 = 12_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("json");
    let usual = line(1, 1, &seen("notes", "read", "aa"));
    let other = line(1, 1, &seen("notes", "read", "bb"));
    let approval = line(1, 2, &approve("notes", "read", "aa"));
    let mut text = String::new();
    let machine = format!("01{}", "0".repeat(30));
    for host in 0..HOSTS {
        let named = |line: &str| {
            line.replace(&machine, &format!("{host:032x}"))
                .replace("host1", &format!("host{host}"))
        };
        text.push_str(&named(if host % 1_000 == 7 { &other } else { &usual }));
        if host % 10 > 0 {
            text.push_str(&named(&approval));
        }
    }
    std::fs::write(&path, text).unwrap();
    let options = Options {
        memory: 256 << 10,
        ..small(directory.path())
    };
    let full_report = FullReport::of(&read_with(&[&path], None, &options).unwrap());
    assert_eq!(full_report.hosts.len() as u64, HOSTS);
    let (server, tool) = full_report.differences()[0];
    assert_eq!((server.host_count, server.hosts.len()), (HOSTS, 100));
    let [usual, other] = &*tool.definitions else {
        panic!("{tool:#?}");
    };
    assert_eq!((usual.host_count, other.host_count), (HOSTS - 12, 12));
    assert_eq!(other.hosts.first().unwrap(), "host10007");
    assert_eq!(usual.approved_count, HOSTS / 10 * 9 - 12);
    assert!(usual.is_not_approved_by_some());
}
