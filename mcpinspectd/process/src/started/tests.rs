use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// A directory like `/proc`, and files for its links to point to.
struct Machine {
    root: tempfile::TempDir,
    launches: Launches,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        Self {
            root,
            launches: Launches::default(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        if !path.exists() {
            std::fs::write(&path, "").unwrap();
        }
        path
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A process as `/proc` shows it now.
    fn runs(&self, pid: u32, parent: u32, start: u64, line: &str, exe: &Path, cwd: &Path) {
        let dir = self.directory(&format!("proc/{pid}"));
        let stat = format!("{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0\n");
        std::fs::write(dir.join("stat"), stat).unwrap();
        std::fs::write(dir.join("status"), "Uid:\t7\t7\t7\t7\n").unwrap();
        std::fs::write(dir.join("cmdline"), line.replace(' ', "\0")).unwrap();
        std::fs::write(dir.join("cgroup"), "0::/a.scope\n").unwrap();
        symlink(exe, dir.join("exe")).unwrap();
        symlink(cwd, dir.join("cwd")).unwrap();
    }

    fn proc(&self) -> Proc {
        Proc::at(&self.root.path().join("proc")).unwrap()
    }

    fn started(&self, pid: u32, executed: &Executed) -> ProcessInfo {
        let proc = self.proc();
        started(
            &Sources::new(Some(&proc), &self.launches),
            Pid(pid),
            executed,
        )
    }

    fn known(&self, pid: u32) -> Option<ProcessInfo> {
        let proc = self.proc();
        known(&Sources::new(Some(&proc), &self.launches), Pid(pid))
    }
}

fn ino(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

fn by(pid: u32, start_time: u64, name: &str) -> ExecutedBy {
    ExecutedBy {
        pid: Pid(pid),
        start_time,
        uid: 1000,
        name: name.to_owned(),
    }
}

fn executed(line: &str, ancestors: &[ExecutedBy]) -> Executed {
    Executed {
        start_time: 30,
        uid: 1000,
        name: "short".to_owned(),
        executable: "/recorded/exe".to_owned(),
        executable_ino: 0,
        directory_ino: 0,
        arguments: Some(line.replace(' ', "\0").into_bytes().into()),
        ancestors: ancestors.to_vec(),
    }
}

#[test]
fn what_a_process_makes_of_itself_does_not_count() {
    let machine = Machine::new();
    let (exe, cwd) = (machine.file("exe"), machine.directory("home"));
    let elsewhere = machine.directory("elsewhere");
    let mut start = executed("python server.py --x", &[by(1, 1, "init")]);
    (start.executable_ino, start.directory_ino) = (ino(&exe), ino(&cwd));
    machine.runs(5, 1, 30, "[kworker/0]", &exe, &cwd);
    let info = machine.started(5, &start);
    let process = info.process();
    assert_eq!(process.argv, ["python", "server.py", "--x"]);
    assert_eq!(
        (process.uid, process.start_time, process.parent),
        (1000, 30, Pid(1))
    );
    assert_eq!(process.name, "short");
    // What the record leaves out, because it is still the same.
    assert_eq!(process.exe, exe.to_str().unwrap());
    assert_eq!(process.cwd.as_deref(), cwd.to_str());
    assert_eq!(process.cgroup, "/a.scope");

    // Another program and another directory since.
    machine.runs(
        6,
        1,
        30,
        "python server.py --x",
        &machine.file("other"),
        &elsewhere,
    );
    let info = machine.started(6, &start);
    assert_eq!(info.process().exe, "/recorded/exe");
    assert_eq!(info.process().cwd, None);
}

#[test]
fn a_process_that_is_gone_is_what_the_kernel_saw() {
    let machine = Machine::new();
    let start = executed("npx -y @a/x", &[by(4, 20, "client"), by(1, 1, "init")]);
    for reused in [false, true] {
        if reused {
            let (exe, cwd) = (machine.file("exe"), machine.directory("home"));
            machine.runs(5, 1, 31, "another", &exe, &cwd);
            machine.runs(4, 1, 21, "another", &exe, &cwd);
        }
        let info = machine.started(5, &start);
        assert_eq!(info.process().argv, ["npx", "-y", "@a/x"]);
        assert_eq!(info.process().exe, "/recorded/exe");
        assert_eq!(info.chain(), "client(4) → npx(5)");
        let client = info.ancestor(Pid(4)).unwrap().to_party();
        assert_eq!(client.command, ["client"]);
        assert_eq!((client.start_time, client.uid), (20, 1000));
        assert_eq!(client.parents, ["init(1)"]);
        assert!(info.ancestor(Pid(5)).is_none());
    }
}

#[test]
fn ancestors_are_what_they_started_as() {
    let mut machine = Machine::new();
    let (exe, cwd) = (machine.file("exe"), machine.directory("home"));
    let launcher = Executed {
        start_time: 20,
        ..executed("node /usr/bin/npx -y @a/x", &[by(3, 10, "client")])
    };
    machine.launches.add(Pid(4), Arc::new(launcher));
    machine.runs(4, 1, 20, "npm", &exe, &cwd);
    machine.runs(3, 1, 10, "client --now", &exe, &cwd);
    let start = executed(
        "node x.js",
        &[by(4, 20, "npm"), by(3, 10, "client"), by(1, 1, "i")],
    );
    let info = machine.started(5, &start);
    let argv: Vec<String> = info.ancestors().iter().map(|a| a.argv.join(" ")).collect();
    assert_eq!(argv, ["node /usr/bin/npx -y @a/x", "client --now", ""]);
    let parents: Vec<u32> = info.ancestors().iter().map(|a| a.parent.0).collect();
    assert_eq!(parents, [3, 1, 0], "as they were at the start");

    // A later process of that number is not the launcher.
    let start = executed("node x.js", &[by(4, 21, "npm")]);
    assert_eq!(machine.started(5, &start).ancestors()[0].argv, [""; 0]);
}

#[test]
fn a_directory_that_was_left_is_that_of_an_ancestor_that_stayed() {
    let machine = Machine::new();
    let (exe, cwd) = (machine.file("exe"), machine.directory("project"));
    let elsewhere = machine.directory("elsewhere");
    let mut start = executed("python server.py", &[by(4, 20, "x"), by(3, 10, "client")]);
    start.directory_ino = ino(&cwd);
    machine.runs(5, 4, 30, "python server.py", &exe, &elsewhere);
    machine.runs(4, 3, 20, "x", &exe, &elsewhere);
    machine.runs(3, 1, 10, "client", &exe, &cwd);
    let info = machine.started(5, &start);
    assert_eq!(info.process().cwd.as_deref(), cwd.to_str());
}

#[test]
fn a_process_is_known_by_its_start_as_long_as_it_is_the_same() {
    let mut machine = Machine::new();
    let (exe, cwd) = (machine.file("exe"), machine.directory("home"));
    assert!(machine.known(5).is_none());
    machine
        .launches
        .add(Pid(5), Arc::new(executed("started", &[])));
    let argv = |machine: &Machine| machine.known(5).unwrap().process().argv.clone();
    assert_eq!(argv(&machine), ["started"], "gone");
    machine.runs(5, 1, 30, "now", &exe, &cwd);
    assert_eq!(argv(&machine), ["started"], "here");
    machine.launches.forget(Pid(5));
    assert_eq!(argv(&machine), ["now"], "never seen to start");
    let other = Executed {
        start_time: 29,
        ..executed("other", &[])
    };
    machine.launches.add(Pid(5), Arc::new(other));
    assert_eq!(argv(&machine), ["now"], "another process of this number");
}

#[test]
fn arguments_that_the_kernel_could_not_read_are_those_of_now() {
    let machine = Machine::new();
    let (exe, cwd) = (machine.file("exe"), machine.directory("home"));
    let start = Executed {
        arguments: None,
        ..executed("", &[])
    };
    assert_eq!(machine.started(5, &start).process().argv, [""; 0]);
    machine.runs(5, 1, 30, "a b", &exe, &cwd);
    assert_eq!(machine.started(5, &start).process().argv, ["a", "b"]);
}

#[test]
fn a_long_chain_goes_on_with_proc() {
    let machine = Machine::new();
    let (exe, cwd) = (machine.file("exe"), machine.directory("home"));
    for pid in 1..=12 {
        machine.runs(pid, pid - 1, u64::from(pid), "x", &exe, &cwd);
    }
    let above: Vec<_> = (5..=12)
        .rev()
        .map(|pid| by(pid, u64::from(pid), "x"))
        .collect();
    let info = machine.started(13, &executed("x", &above));
    let pids: Vec<u32> = info.ancestors().iter().map(|a| a.pid.0).collect();
    assert_eq!(pids, (1..=12).rev().collect::<Vec<_>>());
}

proptest! {
    #[test]
    fn any_record_makes_a_process(
        arguments in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        executable in ".*",
        name in ".*",
        ancestors in prop::collection::vec((any::<u32>(), any::<u64>(), ".*"), 0..9),
    ) {
        let start = Executed {
            arguments: arguments.map(Into::into),
            executable,
            name,
            ancestors: ancestors.iter().map(|(pid, start, name)| by(*pid, *start, name)).collect(),
            ..executed("", &[])
        };
        let info = started(&Sources::new(None, &Launches::default()), Pid(5), &start);
        prop_assert_eq!(info.ancestors().len(), ancestors.len());
        prop_assert!(info.process().argv.len() <= MAX_ARGUMENTS);
        let shown = info.to_party();
        prop_assert!(!shown.command.concat().chars().any(mcpinspect_core::text::escape::is_hidden));
    }
}
