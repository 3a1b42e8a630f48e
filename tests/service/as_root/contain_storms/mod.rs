//! Freezing and killing servers that fork, execute, thread, wake each other up and run away while it is done,
//! beside processes that take every number that becomes free.
//!
//! After each measure, no process of the server's runs unless it was reported as missed, and no other process
//! was stopped or killed. All of it happens in a process namespace of its own, where numbers can be made to
//! come back at once. `MCPINSPECT_STORMS` sets the number of storms.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mcpinspect_contain::{Contained, Target, contain};
use mcpinspect_core::model::{ContainmentAction, Pid, Process, ServerSide};
use mcpinspect_process::fds::stdio;
use mcpinspect_process::{ProcessHandle, ProcessRow, own, start_time, table};
use mcpinspect_tests::places::repository;
use nix::sys::signal::Signal;

use crate::support::{eventually, own_name, require, require_root};

/// The storms, and what of their servers' may go on, as long as it is reported.
const STORMS: [(&str, MayGoOn); 12] = [
    ("forks", MayGoOn::Nothing),
    ("chain", MayGoOn::Nothing),
    ("execs", MayGoOn::Nothing),
    ("threads", MayGoOn::Nothing),
    ("spawns", MayGoOn::Nothing),
    ("leaderless", MayGoOn::Nothing),
    ("traced", MayGoOn::Nothing),
    ("reaper", MayGoOn::Nothing),
    // A signal that stops can be undone by any process of the same user, which then forks.
    ("continues", MayGoOn::Reported),
    // Nothing shows that these are the server's own.
    ("runaway", MayGoOn::Holders),
    ("detached", MayGoOn::Holders),
    ("sibling", MayGoOn::Holders),
];
/// Names this process as the one that is inside the namespace, and says how many busy loops it has beside.
const INSIDE: &str = "MCPINSPECT_INSIDE";
/// How long what was stopped or killed may take to be so.
const SETTLE: Duration = Duration::from_secs(5);

/// What of a server may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MayGoOn {
    Nothing,
    /// Whatever is reported.
    Reported,
    /// Who holds the server's end of the session and is reported.
    Holders,
}

/// A program that is killed when this is dropped.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn script() -> PathBuf {
    repository().join("tests/service/as_root/contain_storms/storm.py")
}

fn storm(how: &str) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(script()).arg(how);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// One storm, and what is done about it.
struct Storm {
    how: &'static str,
    may_go_on: MayGoOn,
    /// In the environment of all of its processes.
    marker: String,
    measure: ContainmentAction,
}

impl Storm {
    /// Its processes that are not zombies.
    fn family(&self) -> Vec<ProcessRow> {
        let mut rows = table();
        rows.retain(|row| row.state != 'Z' && self.is_marked(row.pid));
        rows
    }

    fn is_marked(&self, pid: Pid) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == self.marker.as_bytes())
    }

    /// Runs it; returns what was reported, or what is wrong.
    fn run(&self) -> Result<Contained, String> {
        let (name, value) = self.marker.split_once('=').unwrap();
        let server = storm(self.how).env(name, value).spawn().unwrap();
        let mut server = Background(server);
        let pid = Pid(server.0.id());
        let mut first = BufReader::new(server.0.stdout.as_mut().unwrap());
        first.read_line(&mut String::new()).unwrap();
        // It is stopped at any moment after that.
        std::thread::sleep(Duration::from_millis(u64::from(pid.0 * 7919 % 100)));
        let process = Process {
            pid,
            start_time: start_time(pid).unwrap(),
        };
        let inode = |fd: usize| stdio(pid).and_then(|stdio| Some(stdio[fd]?.key));
        let client = own();
        let target = Target {
            server: process,
            client: Some(Process {
                pid: client,
                start_time: start_time(client).unwrap(),
            }),
            side: ServerSide {
                launched: vec![process],
                reads: inode(0),
                writes: inode(1),
            },
        };
        let done = contain(&[target], &[], self.measure);
        let judged = done
            .map_err(|error| error.to_string())
            .and_then(|done| self.judge(&done).map(|()| done));
        // Whatever is left of it goes.
        eventually("it is over", || {
            let rows = self.family();
            for row in &rows {
                // The number may be another's by now, and what is held is not.
                let held = ProcessHandle::open(row.pid).unwrap();
                if let Some(held) = held.filter(|_| self.is_marked(row.pid)) {
                    let _ = held.signal(Signal::SIGKILL as i32);
                }
            }
            let _ = server.0.try_wait();
            rows.is_empty().then_some(())
        });
        judged
    }

    /// Whether what goes on was reported.
    fn judge(&self, done: &Contained) -> Result<(), String> {
        // On a busy machine, a family may grow faster than its members get their turn to stop.
        let grew = done.missed.iter().any(|missed| missed.contains("faster"));
        let unexpected = match self.may_go_on {
            _ if grew => false,
            MayGoOn::Nothing => !done.missed.is_empty(),
            MayGoOn::Reported => false,
            MayGoOn::Holders => done.missed.iter().any(|missed| !missed.contains("holds")),
        };
        if unexpected {
            return Err(format!("missed {:?}", done.missed));
        }
        let begun = Instant::now();
        let mut quiet = 0;
        loop {
            let running = self.running(done);
            quiet = if running.is_empty() { quiet + 1 } else { 0 };
            // Twice, for what wakes up again.
            if quiet == 2 {
                return Ok(());
            }
            if begun.elapsed() > SETTLE {
                return Err(format!("{running:?} go on; missed {:?}", done.missed));
            }
            // Time in which whatever still runs would have another child.
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    /// What goes on without having been reported.
    fn running(&self, done: &Contained) -> Vec<ProcessRow> {
        let is_said = |word| done.missed.iter().any(|missed| missed.contains(word));
        let (holder, grew) = (is_said("holds"), is_said("faster"));
        let reported = |row: &ProcessRow| match self.may_go_on {
            _ if grew => true,
            MayGoOn::Nothing => false,
            MayGoOn::Reported => !done.missed.is_empty(),
            // It has handed over since.
            MayGoOn::Holders => holder && !done.processes.contains(&row.pid),
        };
        let stands = |row: &ProcessRow| match self.measure {
            ContainmentAction::Kill => false,
            _ => matches!(row.state, 'T' | 't'),
        };
        let mut rows = self.family();
        // A parent that waits for the start of a child that is stopped cannot run.
        let waits = |row: &ProcessRow, rows: &[ProcessRow]| {
            self.measure != ContainmentAction::Kill
                && row.state == 'D'
                && rows
                    .iter()
                    .any(|child| child.parent == row.pid && child.state == 'T')
        };
        let all = rows.clone();
        rows.retain(|row| !stands(row) && !waits(row, &all) && !reported(row));
        rows
    }
}

/// A process, with all that shows whose it is.
fn described(row: &ProcessRow) -> String {
    let said = ["status", "cmdline", "environ"].map(|what| {
        fs::read(format!("/proc/{}/{what}", row.pid)).map_or_else(
            |error| format!("{what}: {error}"),
            |text| String::from_utf8_lossy(&text).replace('\0', " "),
        )
    });
    format!("{row:?}\n{}", said.join("\n"))
}

/// All storms, one after another, beside others' processes.
fn storms(busy: usize) {
    let number = std::env::var("MCPINSPECT_STORMS").map_or(24, |number| number.parse().unwrap());
    let _busy: Vec<Background> = (0..busy)
        .map(|_| {
            Background(
                Command::new("sh")
                    .args(["-c", "while :; do :; done"])
                    .spawn()
                    .unwrap(),
            )
        })
        .collect();
    let mut beside = Background(storm("bystander").spawn().unwrap());
    let complaints = beside.0.stdout.take().unwrap();
    let complaints = std::thread::spawn(move || {
        let lines = BufReader::new(complaints).lines().skip(1);
        lines.map_while(Result::ok).collect::<Vec<String>>()
    });
    let mut wrong = Vec::new();
    let mut reported = 0;
    for (index, (how, may_go_on)) in STORMS.iter().cycle().take(number).enumerate() {
        // Each kind meets both.
        let measure = match (index + index / STORMS.len()) % 2 {
            0 => ContainmentAction::Freeze,
            _ => ContainmentAction::Kill,
        };
        let storm = Storm {
            how,
            may_go_on: *may_go_on,
            marker: format!("STORM=storm-{index}"),
            measure,
        };
        match storm.run() {
            Ok(done) => reported += usize::from(!done.missed.is_empty()),
            Err(error) => wrong.push(format!("{index}, {how}, {measure:?}: {error}")),
        }
        let stopped: Vec<String> = table()
            .into_iter()
            .filter(|row| row.state == 'T')
            .map(|row| described(&row))
            .collect();
        assert!(
            stopped.is_empty(),
            "{index}, {how}: others are stopped: {stopped:#?}"
        );
    }
    assert!(
        beside.0.try_wait().unwrap().is_none(),
        "the others are gone"
    );
    drop(beside);
    let complaints = complaints.join().unwrap();
    println!("{number} storms, {reported} of them with something reported as missed");
    assert!(complaints.is_empty(), "{complaints:?}");
    assert!(
        wrong.is_empty(),
        "{} of {number}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Runs the test of this name again as a process of its own, inside a namespace.
fn inside(test: &str, busy: usize) {
    if std::env::var_os(INSIDE).is_some() {
        return storms(busy);
    }
    require_root();
    require(&["setpriv", "python3"]);
    let status = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        // The namespace's first process collects those that have lost their parents.
        .args(["sh", "-c", "\"$@\"; exit $?", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([
            own_name(module_path!(), test).as_str(),
            "--exact",
            "--nocapture",
        ])
        .env(INSIDE, "1")
        .status()
        .expect("unshare, of util-linux");
    assert!(status.success(), "see above");
}

#[test]
fn storms_are_stopped_or_what_goes_on_is_reported() {
    inside("storms_are_stopped_or_what_goes_on_is_reported", 0);
}

#[test]
fn storms_beside_busy_loops() {
    inside("storms_beside_busy_loops", 6);
}
