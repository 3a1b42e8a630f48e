//! The system call that a thread is in.

use mcpinspect_core::model::Pid;
use rustix::fs::Dir;
use rustix::io::Errno;

use super::procfs::{Proc, ProcDir};

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// Waiting in a system call.
    Call {
        /// The call's number.
        number: u64,
        /// Its first argument.
        first: u64,
    },
    /// Waiting for something else.
    Elsewhere,
    /// Running, or inaccessible: it may be in a call.
    Unknown,
}

/// The threads of a process and what each is doing; empty if the process is gone.
pub fn threads(pid: Pid) -> Vec<(u32, ThreadState)> {
    Proc::system()
        .and_then(|proc| proc.open(pid))
        .and_then(|process| of(&process))
        .unwrap_or_default()
}

fn of(process: &ProcDir) -> Result<Vec<(u32, ThreadState)>, Errno> {
    let entries = Dir::new(process.subdirectory("task")?)?;
    let threads = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
    Ok(threads
        .filter_map(|thread: u32| {
            let state = match process.read(&format!("task/{thread}/syscall"), 256) {
                Ok(line) => ThreadState::parse(&line),
                Err(Errno::NOENT | Errno::SRCH) => return None,
                Err(_) => ThreadState::Unknown,
            };
            Some((thread, state))
        })
        .collect())
}

impl ThreadState {
    /// Parses a line of `/proc/PID/task/TID/syscall`: `running`, `-1` and two addresses, or a call's
    /// number, its arguments in hexadecimal, and two addresses.
    fn parse(line: &[u8]) -> Self {
        let Ok(line) = std::str::from_utf8(line) else {
            return Self::Unknown;
        };
        let mut words = line.split_ascii_whitespace();
        let first = |word: Option<&str>| u64::from_str_radix(word?.strip_prefix("0x")?, 16).ok();
        match words.next() {
            Some("-1") => Self::Elsewhere,
            Some(number) => match (number.parse(), first(words.next())) {
                (Ok(number), Some(first)) => Self::Call { number, first },
                _ => Self::Unknown,
            },
            None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use nix::libc;

    use super::*;

    #[test]
    fn lines_from_the_kernel_are_parsed() {
        let parse = |line: &str| ThreadState::parse(line.as_bytes());
        assert_eq!(
            parse("0 0x3 0x7ffd 0x400 0x0 0x0 0x0 0x7ffd1 0x7f2c\n"),
            ThreadState::Call {
                number: 0,
                first: 3
            }
        );
        assert_eq!(parse("-1 0x7ffd1 0x7f2c\n"), ThreadState::Elsewhere);
        for line in [
            "running\n",
            "",
            "0",
            "0 3",
            "x 0x3",
            "0 0xffffffffffffffffff",
        ] {
            assert_eq!(parse(line), ThreadState::Unknown, "{line:?}");
        }
    }

    #[test]
    fn a_blocked_reader_is_in_the_read_call() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let fd = reader.as_raw_fd() as u64;
        let (told, tid) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            told.send(nix::unistd::gettid().as_raw()).unwrap();
            reader.read(&mut [0]).unwrap()
        });
        let tid = tid.recv().unwrap() as u32;
        let reading = ThreadState::Call {
            number: libc::SYS_read as u64,
            first: fd,
        };
        let patience = Instant::now() + Duration::from_secs(20);
        while !threads(Pid(std::process::id())).contains(&(tid, reading)) {
            assert!(
                Instant::now() < patience,
                "{:?}",
                threads(Pid(std::process::id()))
            );
            std::thread::yield_now();
        }
        drop(writer);
        assert_eq!(thread.join().unwrap(), 0);
        assert_eq!(threads(Pid(u32::MAX / 2)), []);
    }
}
