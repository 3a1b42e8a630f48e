//! The entries' sources: `journalctl` on a directory of journals, or exported files.
//!
//! Journals are read by the stock tool, in a process of its own: their format is large, changes, and
//! is filled by machines that may be hostile. Its output is read line by line, bounded in time
//! and size, and only [`Fleet`] keeps anything of it.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use thiserror::Error;

use super::Fleet;
use super::entry::{DROPPED, Entry, FIELDS, Fields, UNIT};
use crate::event::kind::EventKind;

/// Longest entry that is read, bytes; the daemon's own are smaller than a tenth of it.
const ENTRY_MAX: usize = 1 << 20;
/// Longest error output of a tool, in bytes.
const ERRORS_MAX: u64 = 2_048;
/// Hosts whose last entry is asked for one by one.
const HOSTS_ASKED_MAX: usize = 2_000;

/// Why a collection could not be read.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The tool is not there.
    #[error("journalctl cannot be started: {0}")]
    NoTool(io::Error),
    /// It cannot read the collection.
    #[error("journalctl ended with {status}: {said}")]
    Tool {
        /// Its exit status.
        status: std::process::ExitStatus,
        /// What it said, bounded and harmless.
        said: String,
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

/// Reads the journals in `directory`, since `since` as journalctl understands it, until `deadline`.
///
/// # Errors
/// See [`SourceError`].
pub fn journals(
    fleet: &mut Fleet,
    directory: &Path,
    since: Option<&str>,
    deadline: Instant,
) -> Result<Extent, SourceError> {
    let mut query = journalctl(directory);
    query.arg(format!("--output-fields={}", FIELDS.join(",")));
    query.args(["--output=json", "--all"]);
    if let Some(since) = since {
        query.arg(format!("--since={since}"));
    }
    query.args(EventKind::ALL.map(|kind| format!("MCPINSPECT_EVENT={}", kind.name())));
    query.args(["+", "_PID=1", &format!("UNIT={UNIT}")]);
    query.args(["+", &format!("MESSAGE_ID={DROPPED}")]);
    query.arg(format!("OBJECT_SYSTEMD_UNIT={UNIT}"));
    if run(fleet, &mut query, deadline)? == Extent::Cut {
        return Ok(Extent::Cut);
    }
    // A host that is alive and has no daemon says nothing of ours, so each is asked for its last word.
    let mut names = Vec::new();
    let mut query = journalctl(directory);
    query.arg("--field=_MACHINE_ID");
    let whole = lines(&mut query, deadline, |line| {
        if names.len() < HOSTS_ASKED_MAX
            && line.len() == 32
            && line.iter().all(u8::is_ascii_hexdigit)
        {
            names.push(String::from_utf8_lossy(line).into_owned());
        }
    })?;
    if whole == Extent::Cut {
        return Ok(Extent::Cut);
    }
    for name in names {
        let mut query = journalctl(directory);
        query.arg("--output-fields=_HOSTNAME,_MACHINE_ID");
        query.args(["--output=json", "--lines=1"]);
        query.arg(format!("_MACHINE_ID={name}"));
        if run(fleet, &mut query, deadline)? == Extent::Cut {
            return Ok(Extent::Cut);
        }
    }
    Ok(Extent::Whole)
}

fn journalctl(directory: &Path) -> Command {
    let mut command = Command::new("journalctl");
    command.args(["--no-pager", "--quiet", "--directory"]);
    command.arg(directory);
    command
}

fn run(fleet: &mut Fleet, query: &mut Command, deadline: Instant) -> Result<Extent, SourceError> {
    lines(query, deadline, |line| take(fleet, Fields::of_json(line)))
}

fn take(fleet: &mut Fleet, fields: Option<Fields>) {
    match fields.as_ref().and_then(Entry::of) {
        Some(entry) => fleet.add(&entry),
        None => fleet.unreadable(),
    }
}

/// Calls `each` with each line of a tool's output.
fn lines(
    query: &mut Command,
    deadline: Instant,
    mut each: impl FnMut(&[u8]),
) -> Result<Extent, SourceError> {
    let mut errors = tempfile_for_errors()?;
    let mut child = query
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors.try_clone()?)
        .spawn()
        .map_err(SourceError::NoTool)?;
    let outcome = match child.stdout.take() {
        Some(output) => each_line(
            BufReader::new(Timed {
                inner: output,
                deadline,
            }),
            &mut each,
        ),
        None => Ok(()),
    };
    match outcome {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            end(&mut child);
            return Ok(Extent::Cut);
        }
        Err(error) => {
            end(&mut child);
            return Err(error.into());
        }
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(Extent::Whole);
    }
    io::Seek::rewind(&mut errors)?;
    let mut said = Vec::new();
    errors.take(ERRORS_MAX).read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said);
    Err(SourceError::Tool {
        status,
        said: crate::text::escape::printable(said.trim(), 400),
    })
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Creates a file without a name, so that a tool with many complaints never blocks on a full pipe.
fn tempfile_for_errors() -> io::Result<std::fs::File> {
    let file = nix::sys::memfd::memfd_create(c"errors", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)?;
    let mut file = std::fs::File::from(file);
    file.flush()?;
    Ok(file)
}

/// A pipe that is waited for until a deadline.
struct Timed<R> {
    inner: R,
    deadline: Instant,
}

impl<R: Read + AsFd> Read for Timed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait(self.inner.as_fd(), self.deadline)?;
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

/// Calls `each` with each line; a line that is too long is passed as an empty one.
fn each_line(mut input: impl BufRead, each: &mut impl FnMut(&[u8])) -> io::Result<()> {
    let mut line = Vec::new();
    while read_line(&mut input, &mut line)? {
        each(&line);
    }
    Ok(())
}

/// Reads a line without its end; `false` at the end of the input.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut too_long = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(too_long || !line.is_empty());
        }
        let end = memchr::memchr(b'\n', available);
        let part = &available[..end.unwrap_or(available.len())];
        let used = end.map_or(part.len(), |end| end + 1);
        if line.len() + part.len() > ENTRY_MAX {
            too_long = true;
            line.clear();
        }
        if !too_long {
            line.extend_from_slice(part);
        }
        input.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// Reads the output of `journalctl -o json` or `-o export`, told apart by its first byte.
///
/// # Errors
/// The input breaks.
pub fn exported(fleet: &mut Fleet, input: impl Read) -> io::Result<()> {
    let mut input = BufReader::new(input);
    if input.fill_buf()?.first() == Some(&b'{') {
        return each_line(input, &mut |line| {
            if !line.is_empty() {
                take(fleet, Fields::of_json(line));
            }
        });
    }
    // The Journal Export Format: FIELD=value, or FIELD, its length in eight bytes, and the value.
    let mut line = Vec::new();
    let mut fields = Fields::default();
    while read_line(&mut input, &mut line)? {
        if line.is_empty() {
            if !fields.is_empty() {
                take(fleet, Some(std::mem::take(&mut fields)));
            }
        } else if let Some(at) = memchr::memchr(b'=', &line) {
            let (name, value) = (&line[..at], &line[at + 1..]);
            fields.add(&String::from_utf8_lossy(name), || {
                Some(String::from_utf8_lossy(value).into_owned())
            });
        } else {
            let value = read_binary(&mut input)?;
            fields.add(&String::from_utf8_lossy(&line), || {
                value.map(|value| String::from_utf8_lossy(&value).into_owned())
            });
        }
    }
    if !fields.is_empty() {
        take(fleet, Some(fields));
    }
    Ok(())
}

/// A value with its length before it; `None` where it is too long to keep.
fn read_binary(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let fits = usize::try_from(length).is_ok_and(|length| length <= ENTRY_MAX);
    let mut value = Vec::new();
    let mut rest = input.by_ref().take(length);
    let read = if fits {
        io::copy(&mut rest, &mut value)?
    } else {
        io::copy(&mut rest, &mut io::sink())?
    };
    let mut end = [0];
    input.read_exact(&mut end)?;
    if read != length || end != *b"\n" {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "this is neither `journalctl -o json` nor `journalctl -o export`",
        ));
    }
    Ok(fits.then_some(value))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const ENTRY: &str = "__REALTIME_TIMESTAMP=1760000000000000\n_MACHINE_ID=00112233445566778899aabbccddeeff\n_HOSTNAME=a\n_UID=0\nMCPINSPECT_EVENT=mcp_tool_seen\nMCPINSPECT_SERVER=s\nMCPINSPECT_TOOL=t\n";

    fn read(input: &[u8]) -> Fleet {
        let mut fleet = Fleet::default();
        exported(&mut fleet, input).unwrap();
        fleet
    }

    #[test]
    fn both_export_formats_say_the_same() {
        let mut export = format!("{ENTRY}MCPINSPECT_HASH\n").into_bytes();
        export.extend_from_slice(&2_u64.to_le_bytes());
        export.extend_from_slice(b"ab\n\n");
        let json = "{\"__REALTIME_TIMESTAMP\":\"1760000000000000\",\"_MACHINE_ID\":\"00112233445566778899aabbccddeeff\",\"_HOSTNAME\":\"a\",\"_UID\":\"0\",\"MCPINSPECT_EVENT\":\"mcp_tool_seen\",\"MCPINSPECT_SERVER\":\"s\",\"MCPINSPECT_TOOL\":\"t\",\"MCPINSPECT_HASH\":\"ab\"}\n";
        let (one, other) = (read(&export), read(json.as_bytes()));
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
        assert_eq!((one.hosts.len(), one.items), (1, 2));
    }

    #[test]
    fn too_much_is_left_out_and_the_rest_is_read() {
        for length in [ENTRY_MAX - 1, ENTRY_MAX, ENTRY_MAX + 1, 3 * ENTRY_MAX] {
            let long = format!("{{\"x\":\"{}", "y".repeat(length - 6));
            let mut seen = Vec::new();
            let input = format!("{long}\nshort\n");
            each_line(input.as_bytes(), &mut |line| seen.push(line.len())).unwrap();
            let expected = if length > ENTRY_MAX { 0 } else { length };
            assert_eq!(seen, [expected, 5]);
        }
        let mut export = b"BIG\n".to_vec();
        export.extend_from_slice(&(2 * ENTRY_MAX as u64).to_le_bytes());
        export.extend(std::iter::repeat_n(b'z', 2 * ENTRY_MAX));
        export.extend_from_slice(format!("\n{ENTRY}\n").as_bytes());
        assert_eq!(read(&export).hosts.len(), 1);
    }

    #[test]
    fn what_is_no_export_is_an_error_or_nothing() {
        let mut fleet = Fleet::default();
        assert!(exported(&mut fleet, &b"GIF89a\n\x01\x02"[..]).is_err());
        let mut endless = b"F\n".to_vec();
        endless.extend_from_slice(&u64::MAX.to_le_bytes());
        endless.extend_from_slice(b"short");
        assert!(exported(&mut fleet, endless.as_slice()).is_err());
        assert_eq!(read(b"").hosts.len(), 0);
        assert_eq!(read(b"{}\nnothing\n").left_out.unreadable, 2);
    }

    #[test]
    fn a_tool_is_not_waited_for_for_ever() {
        let mut slow = Command::new("sh");
        slow.args(["-c", "echo one; sleep 30"]);
        let begun = Instant::now();
        let mut seen = 0;
        let read = lines(&mut slow, begun + Duration::from_millis(200), |_| seen += 1).unwrap();
        assert_eq!((read, seen), (Extent::Cut, 1));
        assert!(begun.elapsed() < Duration::from_secs(10));

        let mut broken = Command::new("sh");
        broken.args(["-c", "echo no such thing >&2; exit 3"]);
        let error =
            lines(&mut broken, Instant::now() + Duration::from_secs(5), |_| {}).unwrap_err();
        assert!(error.to_string().contains("no such thing"), "{error}");
    }
}
