use super::*;
use proptest::prelude::*;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// A directory like `/proc` with made-up processes in it.
struct FakeProc {
    dir: tempfile::TempDir,
}

impl FakeProc {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn add(&self, pid: u32, parent: u32, start: u64, comm: &str, cmdline: &[u8], exe: &str) {
        let path = self.dir.path().join(pid.to_string());
        std::fs::create_dir(&path).unwrap();
        let stat =
            format!("{pid} ({comm}) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0\n");
        std::fs::write(path.join("stat"), stat).unwrap();
        std::fs::write(
            path.join("status"),
            "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n",
        )
        .unwrap();
        std::fs::write(path.join("cmdline"), cmdline).unwrap();
        std::fs::write(path.join("cgroup"), "0::/user.slice/app-x.scope\n").unwrap();
        std::os::unix::fs::symlink(exe, path.join("exe")).unwrap();
        std::os::unix::fs::symlink("/home/me", path.join("cwd")).unwrap();
    }

    fn read(&self, pid: u32) -> Option<ProcessInfo> {
        ProcessInfo::read_from(&Proc::at(self.dir.path()).unwrap(), Pid(pid))
    }
}

#[test]
fn a_wrapper_chain() {
    let proc = FakeProc::new();
    proc.add(
        1,
        0,
        1,
        "systemd",
        b"/sbin/init\0",
        "/usr/lib/systemd/systemd",
    );
    proc.add(11, 1, 5, "claude", b"/opt/claude\0--x\0", "/opt/claude");
    proc.add(
        12,
        11,
        10,
        "npm exec @x",
        b"npm exec @x/y /dir\0\0\0",
        "/usr/bin/node",
    );
    proc.add(13, 12, 20, "sh", b"sh\0-c\0'y' /dir\0", "/usr/bin/dash");
    proc.add(
        14,
        13,
        30,
        "node",
        b"node\0/x/y\0/dir\0",
        "/usr/bin/node (deleted)",
    );
    let info = proc.read(14).unwrap();
    assert_eq!(
        info.chain(),
        "claude(11) → npm exec(12) → sh(13) → node(14)"
    );
    let party = info.to_party();
    assert_eq!(
        party.parents,
        ["sh(13)", "npm exec(12)", "claude(11)", "init(1)"]
    );
    assert_eq!(party.exe, "/usr/bin/node (deleted)");
    assert_eq!(party.unit.as_deref(), Some("app-x.scope"));
    assert_eq!(party.uid, 1000);
    assert_eq!(party.start_time, 30);
    assert_eq!(info.process().exe, "/usr/bin/node");
    assert!(info.process().exe_deleted);
    assert_eq!(info.process().cwd.as_deref(), Some("/home/me"));
}

#[test]
fn a_reused_parent_number_and_a_ring_of_parents_end_the_chain() {
    let proc = FakeProc::new();
    proc.add(20, 21, 30, "a", b"a\0", "/a");
    proc.add(21, 20, 40, "b", b"b\0", "/b");
    assert_eq!(proc.read(20).unwrap().ancestors().len(), 0);
    proc.add(30, 31, 50, "a", b"a\0", "/a");
    proc.add(31, 30, 50, "b", b"b\0", "/b");
    assert_eq!(proc.read(30).unwrap().ancestors().len(), MAX_ANCESTORS);
    assert!(proc.read(99).is_none());
}

#[test]
fn hostile_command_lines_are_masked_escaped_and_bounded() {
    let proc = FakeProc::new();
    let mut cmdline = b"evil\x1b[2J\xe2\x80\xae\0--token\0hunter2hunter2\0".to_vec();
    cmdline.extend(b"A".repeat(2 << 20));
    proc.add(40, 0, 1, "x", &cmdline, "/tmp/\x1b]0;pwned\x07");
    let info = proc.read(40).unwrap();
    let party = info.to_party();
    assert_eq!(party.command[0], "evil\\u{1b}[2J\\u{202e}");
    assert_eq!(party.command[2], "«redacted:token»");
    assert_eq!(party.exe, "/tmp/\\u{1b}]0;pwned\\u{7}");
    assert!(party.command.iter().map(String::len).sum::<usize>() < 2048);
    assert!(info.process().argv.iter().map(String::len).sum::<usize>() <= MAX_COMMAND_BYTES);
    assert!(!format!("{info:?}").contains("hunter2"));

    proc.add(
        42,
        0,
        1,
        "x",
        b"npm exec x --api-key correcthorse\0\0",
        "/usr/bin/node",
    );
    assert_eq!(
        proc.read(42).unwrap().to_party().command,
        ["npm exec x --api-key «redacted:api_key»"]
    );
    proc.add(41, 0, 1, "x", &b"a\0".repeat(100_000), "/x");
    let info = proc.read(41).unwrap();
    assert_eq!(info.process().argv.len(), MAX_ARGUMENTS);
    assert_eq!(info.to_party().command.len(), SHOWN_ARGUMENTS + 1);
}

#[test]
fn missing_and_broken_files_mean_unknown() {
    let proc = FakeProc::new();
    proc.add(50, 0, 1, "x", b"", "/x");
    let path = proc.dir.path().join("50");
    std::fs::remove_file(path.join("exe")).unwrap();
    std::fs::remove_file(path.join("cwd")).unwrap();
    std::fs::remove_file(path.join("cmdline")).unwrap();
    std::fs::remove_file(path.join("cgroup")).unwrap();
    let info = proc.read(50).unwrap();
    assert_eq!(info.to_party().exe, "");
    assert_eq!(info.process().cwd, None);
    assert_eq!(info.chain(), "x(50)");
    std::fs::write(path.join("stat"), "garbage").unwrap();
    assert!(proc.read(50).is_none());
    // A FIFO in place of a file must not hang the reader.
    std::fs::remove_file(path.join("stat")).unwrap();
    nix::unistd::mkfifo(&path.join("stat"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(proc.read(50).is_none());
}

#[test]
fn a_real_child_that_renames_itself_and_vanishes() {
    let mut child = Command::new("sleep")
        .arg0("a b\nc\x1b")
        .arg("60")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let pid = Pid(child.id());
    // While a program is being executed there is a moment without arguments.
    let info = std::iter::repeat_with(|| ProcessInfo::read(pid).unwrap())
        .find(|info| !info.process().argv.is_empty())
        .unwrap();
    assert_eq!(info.process().argv, ["a b\nc\x1b", "60"]);
    assert!(
        info.process().exe.ends_with("/sleep"),
        "{:?}",
        info.process().exe
    );
    assert_eq!(info.ancestors()[0].pid, Pid(std::process::id()));
    assert_eq!(info.process().display_name(), "a b\\nc\\u{1b}");
    assert_eq!(start_time(pid), Some(info.process().start_time));
    assert!(all().iter().any(|process| process.pid == pid));
    let proc = Proc::system().unwrap();
    let held = proc.open(pid).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ProcessSnapshot::read(pid, &held).is_none());
    assert!(ProcessInfo::read(pid).is_none());
    assert_eq!(start_time(pid), None);
}

#[test]
fn every_process_of_the_machine_can_be_shown() {
    for process in all() {
        if let Some(info) = ProcessInfo::read(process.pid) {
            let party = info.to_party();
            assert!(!party.command.concat().chars().any(escape::is_hidden));
        }
    }
}

proptest! {
    #[test]
    fn any_command_line_can_be_shown(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let argv = split_arguments(&bytes, MAX_ARGUMENTS);
        let shown = shown_command(&argv);
        prop_assert!(!shown.concat().chars().any(escape::is_hidden));
        let process = ProcessSnapshot {
            pid: Pid(1), start_time: 0, parent: Pid(0), name: "x".to_owned(), exe: String::new(),
            exe_deleted: false, argv, cwd: None, uid: 0, cgroup: String::new(),
        };
        prop_assert!(process.display_name().chars().count() <= SHOWN_NAME);
    }
}
