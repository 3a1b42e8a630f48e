//! Journals in their own format, read by `journalctl`.
//!
//! The stock tool runs in a separate process: the format is large, changes, and is filled by
//! machines that may be hostile. Each journal file is read separately, because only within a file are
//! entries in order of arrival: a host that was away for two days ships what is older
//! than everything else, and one cursor for the whole directory would miss it. The only things read here
//! without the tool are three numbers of a file's header, which say whether anything is new.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mcpinspect_engine::event::kind::EventKind;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use thiserror::Error;

use super::entry::{DROPPED, UNIT};
use super::fields::Field;
use super::framing::{self, Chunk, Unfinished};

/// Longest error output of a tool, in bytes.
const ERRORS_MAX: u64 = 2_048;
/// Longest list of hosts in one file, in bytes: two million. With more, the tool ends on a closed pipe,
/// and the file counts as one that cannot be read to its end.
const NAMES_MAX: u64 = 64 << 20;
/// The start of a journal file.
pub const MAGIC: &[u8; 8] = b"LPKSHHRH";

/// Why a journal could not be read.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The tool is not there.
    #[error("cannot start journalctl: {0}")]
    NoTool(io::Error),
    /// It cannot read the file.
    #[error("journalctl ended with {status}: {stderr}")]
    Tool {
        /// Its exit status.
        status: std::process::ExitStatus,
        /// What it said, bounded and harmless.
        stderr: String,
    },
    /// A file or pipe broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Whether everything was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// To the end.
    Whole,
    /// Up to the deadline; what was read by then counts.
    Cut,
}

/// What a journal file's header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identifies the file, even after it was renamed.
    pub id: String,
    /// How many entries it has.
    pub entries: u64,
}

impl Header {
    /// Reads a journal file's header; `None` if it is not one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        let mut header = [0; 160];
        match File::open(path)?.read_exact_at(&mut header, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let number = |at: usize| header.get(at..at + 8)?.try_into().ok();
        let (Some(id), Some(entries)) = (header.get(24..40), number(152)) else {
            return Ok(None);
        };
        Ok(header.starts_with(MAGIC).then(|| Self {
            id: hex::encode(id),
            entries: u64::from_le_bytes(entries),
        }))
    }
}

/// The journal files in a directory and its subdirectories, as journalctl looks for them.
///
/// # Errors
/// The directory cannot be read.
pub fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut inner = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            inner.push(path);
        } else {
            found.push(path);
        }
    }
    for directory in inner {
        for entry in std::fs::read_dir(directory)? {
            found.push(entry?.path());
        }
    }
    found.retain(|path| {
        let name = path.as_os_str().as_encoded_bytes();
        (name.ends_with(b".journal") || name.ends_with(b".journal~")) && path.is_file()
    });
    found.sort();
    Ok(found)
}

/// Passes on what a journal file says about the daemon, after `cursor` and since `since`.
///
/// # Errors
/// See [`JournalError`]; or `send` fails.
pub fn read(
    path: &Path,
    cursor: Option<&str>,
    since: Option<&str>,
    deadline: Option<Instant>,
    send: &mut impl FnMut(Chunk) -> io::Result<()>,
) -> Result<Extent, JournalError> {
    let names = Field::NAMES.iter().filter(|name| !name.starts_with("__"));
    let names: Vec<&str> = names.copied().collect();
    let mut query = journalctl(path);
    query.arg(format!("--output-fields={}", names.join(",")));
    query.args(["--output=json", "--all"]);
    if let Some(cursor) = cursor {
        query.arg(format!("--after-cursor={cursor}"));
    }
    if let Some(since) = since {
        query.arg(format!("--since={since}"));
    }
    query.args(EventKind::ALL.map(|kind| format!("MCPINSPECT_EVENT={}", kind.name())));
    query.args(["+", "_PID=1", &format!("UNIT={UNIT}")]);
    query.args(["+", &format!("MESSAGE_ID={DROPPED}")]);
    query.arg(format!("OBJECT_SYSTEMD_UNIT={UNIT}"));
    output(&mut query, deadline, &mut |output| {
        framing::lines(output, Unfinished::Counted, &mut 0, send)
    })
}

/// Passes on the last entry of each host in a journal file: a live host without a daemon has no entries
/// of ours.
///
/// # Errors
/// See [`JournalError`]; or `send` fails.
pub fn last_words(
    path: &Path,
    deadline: Option<Instant>,
    send: &mut impl FnMut(Chunk) -> io::Result<()>,
) -> Result<Extent, JournalError> {
    let mut query = journalctl(path);
    query.arg("--field=_MACHINE_ID");
    let mut names = Vec::new();
    let extent = output(&mut query, deadline, &mut |output| {
        output.take(NAMES_MAX).read_to_end(&mut names).map(|_| ())
    })?;
    if extent == Extent::Cut {
        return Ok(Extent::Cut);
    }
    for name in names.split(|byte| *byte == b'\n') {
        if name.len() != 32 || !name.iter().all(u8::is_ascii_hexdigit) {
            continue;
        }
        let mut query = journalctl(path);
        query.args(["--output-fields=_HOSTNAME,_MACHINE_ID", "--output=json"]);
        query.arg("--lines=1");
        query.arg(format!("_MACHINE_ID={}", String::from_utf8_lossy(name)));
        let extent = output(&mut query, deadline, &mut |output| {
            framing::lines(output, Unfinished::Counted, &mut 0, send)
        })?;
        if extent == Extent::Cut {
            return Ok(Extent::Cut);
        }
    }
    Ok(Extent::Whole)
}

/// How journal files are verified.
#[derive(Clone, Debug)]
pub struct Verify {
    /// The verification key of Forward Secure Sealing, for files that are sealed.
    pub key: Option<String>,
}

/// Verifies a journal file: its structure, and its seals if there is a key.
///
/// # Errors
/// See [`JournalError`]; one from the tool says that the file is not as it was written.
pub fn verify(
    path: &Path,
    verify: &Verify,
    deadline: Option<Instant>,
) -> Result<Extent, JournalError> {
    let mut query = journalctl(path);
    match &verify.key {
        None => query.arg("--verify"),
        // journalctl immediately overwrites this argument in its memory.
        Some(key) => query.arg(format!("--verify-key={key}")),
    };
    output(&mut query, deadline, &mut |output| {
        io::copy(output, &mut io::sink()).map(|_| ())
    })
}

fn journalctl(path: &Path) -> Command {
    let mut command = Command::new("journalctl");
    command.args(["--no-pager", "--quiet"]);
    // A pattern, in which a file name may look like more than one file.
    let mut name = std::ffi::OsString::from("--file=");
    name.push(escaped(path));
    command.arg(name);
    command
}

/// A path as a pattern that only this path matches.
fn escaped(path: &Path) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

    let mut escaped = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'*' | b'?' | b'[' | b'\\') {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    std::ffi::OsString::from_vec(escaped)
}

type Output = BufReader<TimedReader<std::process::ChildStdout>>;

/// Calls `each` with a tool's output.
fn output(
    query: &mut Command,
    deadline: Option<Instant>,
    each: &mut dyn FnMut(&mut Output) -> io::Result<()>,
) -> Result<Extent, JournalError> {
    // A file without a name: a tool with many complaints never blocks on a full pipe.
    let errors = nix::sys::memfd::memfd_create(c"errors", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    let mut errors = File::from(errors.map_err(io::Error::from)?);
    let mut child = query
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors.try_clone()?)
        .spawn()
        .map_err(JournalError::NoTool)?;
    let outcome = match child.stdout.take() {
        Some(inner) => each(&mut BufReader::with_capacity(
            256 << 10,
            TimedReader { inner, deadline },
        )),
        None => Ok(()),
    };
    match outcome {
        Ok(()) => {}
        Err(error) => {
            end(&mut child);
            if error.kind() == io::ErrorKind::TimedOut {
                return Ok(Extent::Cut);
            }
            return Err(error.into());
        }
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(Extent::Whole);
    }
    io::Seek::rewind(&mut errors)?;
    let mut stderr = Vec::new();
    errors.take(ERRORS_MAX).read_to_end(&mut stderr)?;
    let stderr = String::from_utf8_lossy(&stderr);
    Err(JournalError::Tool {
        status,
        stderr: mcpinspect_core::text::escape::printable(stderr.trim(), 400),
    })
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A pipe with a deadline for reads.
struct TimedReader<R> {
    inner: R,
    deadline: Option<Instant>,
}

impl<R: Read + AsFd> Read for TimedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(deadline) = self.deadline {
            wait(self.inner.as_fd(), deadline)?;
        }
        self.inner.read(buffer)
    }
}

fn wait(descriptor: BorrowedFd<'_>, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = left.min(Duration::from_secs(10)) + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(descriptor, PollFlags::POLLIN)], timeout) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
