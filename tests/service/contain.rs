//! Freezing, thawing and killing real processes: a wrapper chain, a family that keeps forking, a
//! control group, a reused process id.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mcpinspect_contain::{ContainError, Refusal, Target, contain};
use mcpinspect_core::model::{ContainmentAction, Pid, Process, ServerSide};
use mcpinspect_process::fds::stdio;
use mcpinspect_process::{ProcessRow, start_time, table};
use tempfile::TempDir;

use crate::support::{eventually, require_root};

fn process(pid: u32) -> Process {
    let pid = Pid(pid);
    let start_time = start_time(pid).expect("it runs");
    Process { pid, start_time }
}

/// A server that counts into a file, below two launchers, below a client of its own.
struct Session {
    client: Child,
    directory: TempDir,
}

/// Adds one line every 10 ms, so the file shows whether the server runs.
const COUNT: &str = "while :; do echo >> count; sleep 0.01; done";

impl Session {
    fn start(server: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            fs::write(directory.path().join(name), text).unwrap();
        };
        script("server", &format!("echo $$ > server.pid\n{server}\n"));
        // Each launcher waits for the next, and is not replaced by it.
        script("launcher", "sh ./server\ntrue\n");
        script("outer", "sh ./launcher\ntrue\n");
        script(
            "client",
            "sh ./outer &\necho $! > outer.pid\nwait\nsleep 1000\n",
        );
        let client = Command::new("sh")
            .arg("./client")
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let session = Self { client, directory };
        eventually("the server counts", || session.count_if_any());
        session
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn count_if_any(&self) -> Option<u64> {
        Some(fs::metadata(self.path("count")).ok()?.len()).filter(|count| *count > 0)
    }

    fn count(&self) -> u64 {
        self.count_if_any().unwrap()
    }

    fn pid(&self, file: &str) -> u32 {
        eventually(file, || {
            fs::read_to_string(self.path(file))
                .ok()?
                .trim()
                .parse()
                .ok()
        })
    }

    fn target(&self) -> Target {
        Target {
            server: process(self.pid("server.pid")),
            client: Some(process(self.client.id())),
            side: ServerSide::default(),
        }
    }

    fn contain(&self, measure: ContainmentAction) -> mcpinspect_contain::Contained {
        contain(&[self.target()], &[], measure).unwrap()
    }

    /// Whether the server's file grows. A server that adds nothing for 300 ms is stopped.
    fn counts(&self) -> bool {
        let before = self.count();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            if self.count() > before {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Whether the client runs or sleeps, and is neither stopped nor gone.
    fn client_goes_on(&self) -> bool {
        matches!(Self::state(self.client.id()), Some('R' | 'S'))
    }

    fn state(pid: u32) -> Option<char> {
        let rows = table();
        let row = rows.iter().find(|row| row.pid.0 == pid);
        row.map(|row| row.state)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let rows = table();
        let mut family = vec![self.client.id()];
        while let Some(pid) = family.pop() {
            family.extend(
                rows.iter()
                    .filter(|row| row.parent.0 == pid)
                    .map(|row| row.pid.0),
            );
            let pid = nix::unistd::Pid::from_raw(pid.try_into().unwrap());
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        let _ = self.client.wait();
    }
}

#[test]
fn a_wrapper_chain_is_stopped_and_its_client_is_not() {
    let session = Session::start(COUNT);
    let (server, outer) = (session.pid("server.pid"), session.pid("outer.pid"));
    let done = session.contain(ContainmentAction::Freeze);
    let is_among = |pid: u32| done.processes.contains(&Pid(pid));
    assert!(is_among(server) && is_among(outer), "{done:?}");
    assert!(!is_among(session.client.id()) && !is_among(std::process::id()));
    assert!(
        done.processes.len() >= 3 && done.missed.is_empty(),
        "{done:?}"
    );
    eventually("they stand", || {
        (Session::state(server) == Some('T') && Session::state(outer) == Some('T')).then_some(())
    });
    assert!(!session.counts());
    assert!(session.client_goes_on());

    session.contain(ContainmentAction::Thaw);
    assert!(session.counts());

    session.contain(ContainmentAction::Kill);
    eventually("they are gone", || {
        let is_gone = |pid| !matches!(Session::state(pid), Some(state) if state != 'Z');
        (is_gone(server) && is_gone(outer)).then_some(())
    });
    assert!(session.client_goes_on(), "the client goes on");
}

#[test]
fn a_family_that_keeps_forking_is_stopped_too() {
    let nested = "work() { while :; do sh -c 'echo >> count; sleep 0.002'; done; }; work & work & work & wait";
    let session = Session::start(nested);
    session.contain(ContainmentAction::Freeze);
    assert!(!session.counts());
    session.contain(ContainmentAction::Thaw);
    assert!(session.counts());
    session.contain(ContainmentAction::Kill);
    assert!(!session.counts());
}

#[test]
fn a_reused_process_id_is_left_alone() {
    let session = Session::start(COUNT);
    let mut target = session.target();
    target.server.start_time -= 1;
    let error = contain(&[target], &[], ContainmentAction::Kill).unwrap_err();
    assert!(
        matches!(error, ContainError::Refused(Refusal::Gone(_))),
        "{error}"
    );
    assert!(session.counts());
    // A client that has exited is not the server's ancestor: the launchers stay.
    let mut target = session.target();
    target.client = target.client.map(|client| Process {
        start_time: client.start_time - 1,
        ..client
    });
    let error = contain(&[target.clone()], &[], ContainmentAction::Freeze).unwrap_err();
    let refused = matches!(error, ContainError::Refused(Refusal::NotStarted(_)));
    assert!(refused, "not shown to be a server: {error}");
    assert!(session.counts());
    target.side.launched = vec![target.server];
    let done = contain(&[target], &[], ContainmentAction::Freeze).unwrap();
    assert!(
        !done.processes.contains(&Pid(session.pid("outer.pid"))),
        "{done:?}"
    );
    assert!(!done.processes.contains(&Pid(session.client.id())));
    assert!(!session.counts());
}

/// A server that leaves a child behind which is no longer its own as far as can be shown.
#[test]
fn what_can_go_on_serving_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Command::new("sh")
        .args([
            "-c",
            "(sleep 1000 & echo $! > left.pid); echo > ready; wait; sleep 1000",
        ])
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let path = directory.path().join("ready");
    eventually("the child is detached", || path.exists().then_some(()));
    let left = fs::read_to_string(directory.path().join("left.pid")).unwrap();
    let left = left.trim();
    let inode = |fd: usize| stdio(Pid(server.id())).unwrap()[fd].unwrap().key;
    let process = process(server.id());
    let target = Target {
        server: process,
        client: None,
        side: ServerSide {
            launched: vec![process],
            reads: Some(inode(0)),
            writes: Some(inode(1)),
        },
    };
    let done = contain(&[target], &[], ContainmentAction::Kill).unwrap();
    let reported: Vec<_> = (done.missed.iter())
        .filter(|missed| missed.starts_with(&format!("process {left}: ")))
        .collect();
    assert_eq!(reported.len(), 1, "{done:?}");
    assert!(!done.processes.contains(&Pid(left.parse().unwrap())));
    server.wait().unwrap();
    let left = nix::unistd::Pid::from_raw(left.parse().unwrap());
    nix::sys::signal::kill(left, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn the_test_itself_and_what_it_runs_under_are_spared() {
    let own = process(std::process::id());
    let parent = process(std::os::unix::process::parent_id());
    let init = process(1);
    for server in [own, parent, init] {
        let target = Target {
            server,
            client: None,
            side: ServerSide::default(),
        };
        for measure in [ContainmentAction::Freeze, ContainmentAction::Kill] {
            let error = contain(std::slice::from_ref(&target), &[], measure).unwrap_err();
            assert!(
                matches!(error, ContainError::Refused(Refusal::Never(..))),
                "{error}"
            );
        }
    }
    assert!(matches!(
        contain(&[], &[], ContainmentAction::Kill),
        Err(ContainError::Nobody)
    ));
}

/// Tests that need root: `cargo xtask test --unit` leaves this module out.
mod as_root {
    use super::*;

    /// A control group for a test, where the unified hierarchy is mounted for writing.
    struct Group(PathBuf);

    impl Group {
        fn new(name: &str) -> Self {
            require_root();
            let place = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
                .into_iter()
                .find(|place| Path::new(place).join("cgroup.procs").exists())
                .expect("cgroup v2; `mount -t cgroup2 none /sys/fs/cgroup` mounts it");
            let own = Path::new(place).join(format!("{name}-{}", std::process::id()));
            fs::create_dir(&own).expect("a cgroup v2 hierarchy that is mounted for writing");
            Self(own)
        }

        fn add(&self, pid: Pid) {
            // A process that has exited since needs no moving.
            let _ = fs::write(self.0.join("cgroup.procs"), pid.to_string());
        }

        /// Moves a process and all below it in, until no process is left outside.
        fn adopt(&self, pid: u32) {
            let name = self.0.file_name().unwrap().to_str().unwrap().to_owned();
            eventually("the family has moved", || {
                let rows = table();
                let mut outside = Vec::new();
                let mut family = vec![Pid(pid)];
                while let Some(pid) = family.pop() {
                    let is_in = |row: &ProcessRow| {
                        row.cgroup
                            .as_ref()
                            .is_some_and(|path| path.ends_with(&name))
                    };
                    outside.extend(
                        rows.iter()
                            .filter(|row| row.pid == pid && !is_in(row))
                            .map(|row| row.pid),
                    );
                    family.extend(
                        rows.iter()
                            .filter(|row| row.parent == pid)
                            .map(|row| row.pid),
                    );
                }
                outside.iter().for_each(|pid| self.add(*pid));
                outside.is_empty().then_some(())
            });
        }

        fn events(&self) -> String {
            fs::read_to_string(self.0.join("cgroup.events")).unwrap()
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            let _ = fs::write(self.0.join("cgroup.kill"), "1");
            eventually("the group is empty", || fs::remove_dir(&self.0).ok());
        }
    }

    #[test]
    fn a_control_group_of_its_own_is_frozen_as_a_whole() {
        let group = Group::new("mcpinspect-own");
        let session = Session::start(COUNT);
        group.adopt(session.pid("outer.pid"));
        let done = session.contain(ContainmentAction::Freeze);
        assert_eq!(done.cgroups.len(), 1, "{done:?}");
        assert!(
            done.missed.is_empty() && done.processes.len() >= 3,
            "{done:?}"
        );
        assert!(group.events().contains("frozen 1"));
        assert!(!session.counts());
        // Not by a signal: there is nothing that another process of the same user could undo.
        assert_ne!(Session::state(session.pid("server.pid")), Some('T'));
        let pid = nix::unistd::Pid::from_raw(session.pid("server.pid").try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
        assert!(!session.counts());

        let done = session.contain(ContainmentAction::Thaw);
        assert_eq!(done.cgroups.len(), 1, "{done:?}");
        assert!(group.events().contains("frozen 0"));
        assert!(session.counts());

        session.contain(ContainmentAction::Freeze);
        session.contain(ContainmentAction::Kill);
        eventually("the group is empty", || {
            group.events().contains("populated 0").then_some(())
        });
        assert!(session.client_goes_on());
    }

    #[test]
    fn a_control_group_that_the_client_shares_is_not_touched() {
        let group = Group::new("mcpinspect-shared");
        let session = Session::start(COUNT);
        group.adopt(session.client.id());
        let done = session.contain(ContainmentAction::Freeze);
        assert!(done.cgroups.is_empty(), "{done:?}");
        assert!(group.events().contains("frozen 0"));
        assert!(!session.counts());
        assert!(session.client_goes_on());
        session.contain(ContainmentAction::Thaw);
        assert!(session.counts());
        group.add(Pid(session.client.id()));
        drop(session);
    }
}
