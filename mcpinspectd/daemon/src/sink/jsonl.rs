//! JSON lines: one event, one line, to standard output or appended to a file.
//!
//! Readers split at newlines, so a line is complete or not there at all: what a full disk or a slow
//! pipe leaves unwritten is written from where it stopped, and a line that an earlier run left torn
//! is ended before the first new one. A file may be rotated away at any time; it is reopened on
//! request, even in the middle of an outage, because a full disk is what makes people rotate.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use mcpinspect_engine::event::Envelope;
use mcpinspect_runtime::backoff::Backoff;

use super::queue::{Item, QueueReceiver};

/// Where the lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// This file: created with mode 0640 if it is missing, otherwise appended to.
    File(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

const WAITS: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// An open output.
#[derive(Debug)]
pub struct Lines {
    target: Target,
    file: File,
    /// The output ends with an unfinished line.
    torn: bool,
}

impl Lines {
    /// Opens the target.
    ///
    /// # Errors
    /// An error from opening the file or reading its end.
    pub fn open(target: Target) -> io::Result<Self> {
        let (file, torn) = match &target {
            Target::Stdout => (
                File::from(io::stdout().as_fd().try_clone_to_owned()?),
                false,
            ),
            Target::File(path) => {
                let mut options = OpenOptions::new();
                // Reading is for checking the last byte.
                let file = options
                    .read(true)
                    .append(true)
                    .create(true)
                    .mode(0o640)
                    .open(path)?;
                let torn = is_torn(&file)?;
                (file, torn)
            }
        };
        Ok(Self { target, file, torn })
    }

    /// Carries events until the fan-out closes. Blocks: give it its own thread.
    pub fn run(mut self, mut receiver: QueueReceiver) {
        let mut line = Vec::new();
        let mut gone = false;
        while let Some(item) = receiver.blocking_recv() {
            match item {
                Item::Reopen => {
                    self.reopen_if_asked(&receiver);
                }
                Item::Event(_) if gone => receiver.failed(),
                Item::Event(record) => {
                    self.reopen_if_asked(&receiver);
                    match self.deliver(&record, &mut line, &receiver) {
                        Delivery::Done => receiver.delivered(),
                        Delivery::GaveUp => receiver.failed(),
                        Delivery::ReaderGone => {
                            tracing::warn!(
                                "the reader of the JSON lines has closed the pipe: no more lines are written"
                            );
                            gone = true;
                            receiver.failed();
                        }
                    }
                }
            }
        }
    }

    fn reopen_if_asked(&mut self, receiver: &QueueReceiver) -> bool {
        if !receiver.take_reopen_request() || self.target == Target::Stdout {
            return false;
        }
        match Self::open(self.target.clone()) {
            Ok(lines) => {
                *self = lines;
                true
            }
            Err(error) => {
                tracing::error!(%error, "cannot reopen the file of JSON lines; the old one stays in use");
                false
            }
        }
    }

    fn deliver(
        &mut self,
        record: &Envelope,
        line: &mut Vec<u8>,
        receiver: &QueueReceiver,
    ) -> Delivery {
        self.fill(line, record);
        let mut written = 0;
        let mut backoff = WAITS;
        let mut told = false;
        while written < line.len() {
            let error = match self.file.write(&line[written..]) {
                Ok(0) => io::Error::from(ErrorKind::WriteZero),
                Ok(count) => {
                    written += count;
                    self.torn = written < line.len();
                    backoff.reset();
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            if error.kind() == ErrorKind::BrokenPipe && self.target == Target::Stdout {
                return Delivery::ReaderGone;
            }
            // Anything else may pass: space is freed, a quota is raised, a pipe is read again.
            if receiver.is_closing() {
                return Delivery::GaveUp;
            }
            if !told && error.kind() != ErrorKind::WouldBlock {
                told = true;
                tracing::error!(%error, "cannot write JSON lines; events wait in the queue, as many as fit");
            }
            if self.reopen_if_asked(receiver) {
                self.fill(line, record);
                written = 0;
                continue;
            }
            thread::sleep(backoff.wait());
        }
        if told {
            tracing::info!("JSON lines can be written again");
        }
        Delivery::Done
    }

    fn fill(&self, line: &mut Vec<u8>, record: &Envelope) {
        line.clear();
        if self.torn {
            line.push(b'\n');
        }
        line.extend_from_slice(record.json.as_bytes());
        line.push(b'\n');
    }
}

enum Delivery {
    Done,
    GaveUp,
    ReaderGone,
}

/// Whether a regular file ends without a line break.
fn is_torn(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.read_exact_at(&mut last, metadata.len() - 1)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use mcpinspect_engine::event::testing::{changed, detected};

    use super::*;
    use crate::sink::{SinkLimits, Sinks};

    fn until(what: &str, mut condition: impl FnMut() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "never happened: {what}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ids(text: &str) -> Vec<u64> {
        text.lines()
            .map(|line| {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                let (_, number) = value["event_id"].as_str().unwrap().split_once('-').unwrap();
                number.parse().unwrap()
            })
            .collect()
    }

    #[test]
    fn lines_are_appended_after_a_torn_one_and_the_file_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        fs::write(&path, "{\"torn\":").unwrap();
        let sinks = Sinks::new(&SinkLimits::default());
        let receiver = sinks.add("jsonl");
        sinks.publish(&detected("a"));
        sinks.publish(&detected("b"));
        sinks.close();
        Lines::open(Target::File(path.clone()))
            .unwrap()
            .run(receiver);
        let text = fs::read_to_string(&path).unwrap();
        let (torn, rest) = text.split_once('\n').unwrap();
        assert_eq!(torn, "{\"torn\":");
        assert_eq!(ids(rest), [1, 2]);
        assert_eq!(sinks.tally()[0].delivered, 2);

        let fresh = directory.path().join("fresh.jsonl");
        drop(Lines::open(Target::File(fresh.clone())).unwrap());
        assert_eq!(
            fs::metadata(&fresh).unwrap().permissions().mode() & 0o137,
            0
        );
    }

    #[test]
    fn a_rotated_file_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let sinks = Sinks::new(&SinkLimits::default());
        let receiver = sinks.add("jsonl");
        let lines = Lines::open(Target::File(path.clone())).unwrap();
        let thread = thread::spawn(move || lines.run(receiver));
        sinks.publish(&detected("a"));
        until("first line", || fs::metadata(&path).unwrap().len() > 0);
        let old = directory.path().join("events.jsonl.1");
        fs::rename(&path, &old).unwrap();
        sinks.reopen();
        // Even without an event: log rotation looks for the new file.
        until("new file", || path.exists());
        sinks.publish(&detected("b"));
        sinks.close();
        thread.join().unwrap();
        assert_eq!(ids(&fs::read_to_string(&old).unwrap()), [1]);
        assert_eq!(ids(&fs::read_to_string(&path).unwrap()), [2]);
    }

    /// A pipe that takes a few bytes at a time cuts every long line somewhere.
    #[test]
    fn short_and_refused_writes_do_not_break_lines() {
        let (mut reader, writer) = io::pipe().unwrap();
        let flags = nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        let flags = nix::fcntl::OFlag::from_bits_retain(flags) | nix::fcntl::OFlag::O_NONBLOCK;
        nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
        let sinks = Sinks::new(&SinkLimits::default());
        let receiver = sinks.add("jsonl");
        let lines = Lines {
            target: Target::File(PathBuf::from("/nonexistent")),
            file: File::from(std::os::fd::OwnedFd::from(writer)),
            torn: false,
        };
        let thread = thread::spawn(move || lines.run(receiver));
        for _ in 0..20 {
            sinks.publish(&changed("a", &"x".repeat(40_000)));
        }
        let mut text = Vec::new();
        let mut piece = [0; 1000];
        while text.iter().filter(|byte| **byte == b'\n').count() < 20 {
            let count = reader.read(&mut piece).unwrap();
            text.extend_from_slice(&piece[..count]);
        }
        sinks.close();
        thread.join().unwrap();
        assert_eq!(
            ids(&String::from_utf8(text).unwrap()),
            (1..=20).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_full_disk_is_survived() {
        let sinks = Sinks::new(&SinkLimits {
            queue_events: 2,
            ..SinkLimits::default()
        });
        let receiver = sinks.add("jsonl");
        let full = Lines::open(Target::File(PathBuf::from("/dev/full"))).unwrap();
        let thread = thread::spawn(move || full.run(receiver));
        for _ in 0..5 {
            sinks.publish(&detected("a"));
        }
        sinks.close();
        thread.join().unwrap();
        let tally = &sinks.tally()[0];
        assert_eq!(tally.delivered, 0);
        assert!(tally.failed >= 3 && tally.dropped >= 2, "{tally:?}");
        assert_eq!(tally.waiting, 0);
    }

    #[test]
    fn a_target_that_cannot_be_opened_says_so() {
        let error = Lines::open(Target::File(PathBuf::from("/nonexistent/x"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
