//! Copies of messages, for files and commands that rules name.
//!
//! The message does not wait for its copy: copies go to a thread per destination, with bounded room. Those
//! that find none are counted, and the next line written says how many are missing.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mcpinspect_cli::terminal;
use mcpinspect_core::model::{Direction, Timestamp};
use mcpinspect_judge::policy::{Action, Destination, Policy};
use nix::libc;
use serde::Serialize;
use serde_json::value::RawValue;

use super::ending::wait_for;

/// Copies for one destination that may wait to be written, and bytes of them.
const QUEUE: usize = 1024;
const QUEUE_BYTES: usize = 64 << 20;
/// How long a failing destination is not tried again.
const REST: Duration = Duration::from_secs(5);

/// All destinations of a policy, by the indexes of their rules.
#[derive(Default)]
pub struct Copies(Mutex<HashMap<usize, Queue>>);

/// The queue to one of them.
struct Queue {
    lines: SyncSender<String>,
    counts: Arc<Counts>,
    writer: JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    /// Bytes that wait.
    bytes: AtomicUsize,
    /// Copies that are missing.
    lost: AtomicU64,
}

/// A line.
#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Copy {
        timestamp: Timestamp,
        server_id: &'a str,
        direction: Direction,
        rule: &'a str,
        message: &'a RawValue,
    },
    Lost {
        timestamp: Timestamp,
        lost: u64,
    },
}

impl Copies {
    /// Starts a thread for each rule that wants copies.
    pub fn start(policy: &Policy) -> Self {
        let mut all = HashMap::new();
        for (at, rule) in policy.rules().iter().enumerate() {
            let Action::Fork(destination) = &rule.action else {
                continue;
            };
            let (lines, waiting) = sync_channel(QUEUE);
            let counts = Arc::<Counts>::default();
            let writer = Writer {
                rule: rule.id.clone(),
                destination: destination.clone(),
                open: None,
                rests: None,
                counts: Arc::clone(&counts),
            };
            let queue = Queue {
                lines,
                counts,
                writer: std::thread::spawn(move || writer.run(&waiting)),
            };
            all.insert(at, queue);
        }
        Self(Mutex::new(all))
    }

    /// Hands a message to the destination of a rule.
    pub fn add(
        &self,
        (at, rule): (usize, &str),
        server: &str,
        direction: Direction,
        time: Timestamp,
        message: &str,
    ) {
        // Between the values of a JSON text, a line break is a blank; inside them there is none.
        let message = message.replace(['\n', '\r'], " ");
        let line = serde_json::from_str(&message).and_then(|message: &RawValue| {
            serde_json::to_string(&Line::Copy {
                timestamp: time,
                server_id: server,
                direction,
                rule,
                message,
            })
        });
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Queue { lines, counts, .. }) = all.get(&at) else {
            return;
        };
        let Ok(line) = line else {
            counts.lost.fetch_add(1, Ordering::SeqCst);
            return;
        };
        let length = line.len();
        let waiting = counts.bytes.fetch_add(length, Ordering::SeqCst);
        if waiting + length > QUEUE_BYTES || lines.try_send(line).is_err() {
            counts.bytes.fetch_sub(length, Ordering::SeqCst);
            counts.lost.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Waits until everything is written, but not forever.
    pub fn finish(&self) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let writers: Vec<_> = all.into_values().map(|queue| queue.writer).collect();
        wait_for(&writers);
    }
}

/// Writes to one destination.
struct Writer {
    rule: String,
    destination: Destination,
    open: Option<OpenDestination>,
    /// Until when nothing is tried.
    rests: Option<Instant>,
    counts: Arc<Counts>,
}

enum OpenDestination {
    File(File),
    Command(Child),
}

impl Writer {
    fn run(mut self, waiting: &Receiver<String>) {
        for line in waiting {
            self.counts.bytes.fetch_sub(line.len(), Ordering::SeqCst);
            self.take(&line);
        }
    }

    fn take(&mut self, line: &str) {
        if self.rests.is_some_and(|until| Instant::now() < until) {
            self.counts.lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let lost = self.counts.lost.swap(0, Ordering::SeqCst);
        let put = self.put(lost, line);
        if let Err(error) = put {
            self.counts.lost.fetch_add(lost + 1, Ordering::SeqCst);
            terminal::complain(format_args!(
                "mcpinspect: the rule `{}` cannot copy messages: {error}",
                self.rule
            ));
            self.rests = Some(Instant::now() + REST);
            if let Some(OpenDestination::Command(mut child)) = self.open.take() {
                // It has closed its input, so the next one replaces it.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    fn put(&mut self, lost: u64, line: &str) -> io::Result<()> {
        let open = match self.open.take() {
            Some(open) => open,
            None => OpenDestination::new(&self.destination)?,
        };
        let to = self.open.insert(open);
        if lost > 0 {
            let timestamp = Timestamp::now();
            to.line(&serde_json::to_string(&Line::Lost { timestamp, lost })?)?;
        }
        to.line(line)
    }
}

impl OpenDestination {
    fn new(destination: &Destination) -> io::Result<Self> {
        match destination {
            Destination::File(path) => {
                let mut options = File::options();
                options.create(true).append(true);
                // Only the owner may read the messages, and no link leads elsewhere.
                options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
                options.open(path).map(Self::File)
            }
            Destination::Command(command) => {
                let mut words = command.iter();
                let program = words.next().map(String::as_str).unwrap_or_default();
                let mut command = Command::new(program);
                command.args(words);
                command.stdin(Stdio::piped()).stdout(Stdio::null());
                command.spawn().map(Self::Command)
            }
        }
    }

    /// Writes a line with one call, so that lines of several guards do not mix in a file.
    fn line(&mut self, line: &str) -> io::Result<()> {
        let line = format!("{line}\n");
        match self {
            Self::File(file) => file.write_all(line.as_bytes()),
            Self::Command(child) => match &mut child.stdin {
                Some(pipe) => pipe.write_all(line.as_bytes()),
                None => Err(io::ErrorKind::BrokenPipe.into()),
            },
        }
    }
}
