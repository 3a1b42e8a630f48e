//! Hostile peers in loops that never end, and honest ones beside them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use mcpinspect_tests::talk::oddpeers;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What each loop repeats: tests of attacks, by the modules that they are in.
const LOOPS: [&[&str]; 4] = [
    &["evasion::", "tampering::"],
    &["fullness::", "honesty::", "scale::"],
    &["order::", "attaching::", "processes::", "identity::"],
    &["framing::", "syscalls::", "http_exact::"],
];
/// Users who start one program after another with a long command line, which has to be remembered.
const USERS: std::ops::Range<u32> = 60_000..60_008;
/// Words of such a command line, each of 8,000 bytes.
const WORDS: usize = 12;
/// Honest sessions beside them.
const NEIGHBOURS: usize = 8;
/// How many times each of these calls before another takes its place.
const CALLS: usize = 1000;

/// By which all that an attack leaves behind is found again.
const MARK: &str = "MCPINSPECT_SIEGE";
/// How long is waited after a failure to start, in order not to try ten thousand times in a second.
const AGAIN: Duration = Duration::from_secs(1);

/// The loops, while they go on.
pub struct Attackers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    done: AtomicU64,
    failed: Mutex<BTreeSet<String>>,
}

impl Attackers {
    /// Starts the loops of the end-to-end tests in this program, and the neighbours.
    pub fn start(tests: &Path) -> Self {
        let shared = Arc::<Shared>::default();
        let mut threads = Vec::new();
        for filters in LOOPS {
            let (shared, tests) = (Arc::clone(&shared), tests.to_owned());
            threads.push(std::thread::spawn(move || attack(&shared, &tests, filters)));
        }
        for user in USERS {
            let shared = Arc::clone(&shared);
            threads.push(std::thread::spawn(move || start_programs(&shared, user)));
        }
        for _ in 0..NEIGHBOURS {
            let shared = Arc::clone(&shared);
            threads.push(std::thread::spawn(move || neighbour(&shared)));
        }
        Self { shared, threads }
    }

    /// How many attacks came to their end, one way or the other.
    pub fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed)
    }

    /// Ends all of them; returns the attacks that failed at least once.
    pub fn stop(self) -> BTreeSet<String> {
        self.shared.over.store(true, Ordering::Relaxed);
        while !self.threads.iter().all(JoinHandle::is_finished) {
            end_marked();
            std::thread::sleep(Duration::from_millis(50));
        }
        end_marked();
        let mut failed = self
            .shared
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *failed)
    }
}

/// Starts a program with the mark, its output piped; waits a moment if that fails.
fn spawn(command: &mut Command) -> Option<Child> {
    let spawned = command
        .env(MARK, mark())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    if spawned.is_err() {
        std::thread::sleep(AGAIN);
    }
    spawned.ok()
}

/// Repeats these tests.
fn attack(shared: &Shared, tests: &Path, filters: &[&str]) {
    while !shared.over.load(Ordering::Relaxed) {
        let mut command = Command::new(tests);
        command.args(filters).args(["--test-threads", "1"]);
        let Some(mut child) = spawn(command.stdin(Stdio::null())) else {
            continue;
        };
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                shared.heard(&line);
            }
        }
        let _ = child.wait();
    }
}

impl Shared {
    /// Takes in a line of what the tests print.
    fn heard(&self, line: &str) {
        let Some((name, outcome)) = line
            .strip_prefix("test ")
            .and_then(|line| line.split_once(" ... "))
        else {
            return;
        };
        if self.over.load(Ordering::Relaxed) {
            return;
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        if outcome != "ok" {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.insert(name.to_owned());
        }
    }
}

/// Starts programs that say one thing that may be MCP, and end soon.
fn start_programs(shared: &Shared, user: u32) {
    let word = "w".repeat(8000);
    while !shared.over.load(Ordering::Relaxed) {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.3", "sh"]);
        command.args(std::iter::repeat_n(&word, WORDS)).uid(user);
        let Some(mut child) = spawn(command.stdin(Stdio::piped())) else {
            continue;
        };
        if let Some(mut input) = child.stdin.take() {
            // It may be gone.
            let _ = writeln!(input, r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list"}}"#);
        }
        let _ = child.wait();
    }
}

/// Holds one honest session after another.
fn neighbour(shared: &Shared) {
    let plan = "calls 20 8000; sleep 500; ".repeat(CALLS);
    while !shared.over.load(Ordering::Relaxed) {
        let session = oddpeers(&[], &format!("handshake; list; {plan}list"), &[]);
        let ended = session.and_then(|mut command| {
            command.env(MARK, mark());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            Ok(command.stderr(Stdio::null()).status()?)
        });
        if !ended.is_ok_and(|status| status.success()) {
            std::thread::sleep(AGAIN);
        }
    }
}

fn mark() -> String {
    std::process::id().to_string()
}

/// Kills every process with the mark. The next call meets those that were forked meanwhile.
fn end_marked() {
    let wanted = format!("{MARK}={}", mark());
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return;
    };
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if environment
            .split(|&byte| byte == 0)
            .any(|variable| variable == wanted.as_bytes())
        {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}
