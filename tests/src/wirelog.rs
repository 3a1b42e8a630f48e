//! The peers' own account of the wire, which is what the tests believe.
//!
//! One file per peer process, `<role>-<pid>.jsonl` in the directory that `WIRE_LOG_DIR` names, one
//! line per frame. A frame is what lies between two newlines. The Python and JavaScript peers
//! write the same format.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Environment variable that names the directory for the logs.
pub const DIRECTORY: &str = "WIRE_LOG_DIR";
/// Frames up to this many bytes are logged with their text, so that a failing test can show them.
const TEXT_LIMIT: usize = 2048;

/// Whether the logging peer wrote the frame or read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The peer wrote it.
    Sent,
    /// The peer read it.
    Received,
}

/// One frame as the peer saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Whether it was written or read.
    pub way: Way,
    /// Bytes between the newlines, including a trailing carriage return.
    pub bytes: u64,
    /// SHA-256 over exactly these bytes, hex.
    pub sha256: String,
    /// The frame itself, if it is short and UTF-8.
    #[serde(default)]
    pub text: Option<String>,
}

impl Frame {
    /// Describes `bytes` (without the newline).
    pub fn of(way: Way, bytes: &[u8]) -> Self {
        let mut cutter = Cutter::default();
        cutter.part(bytes);
        cutter.cut(way)
    }

    /// A blank line separates frames and is not one itself.
    pub fn is_blank(&self) -> bool {
        self.bytes == 0 || (self.bytes == 1 && self.text.as_deref() == Some("\r"))
    }
}

/// Cuts a byte stream at newlines without keeping the bytes.
#[derive(Default)]
struct Cutter {
    hasher: Sha256,
    bytes: u64,
    head: Vec<u8>,
}

impl Cutter {
    fn push(&mut self, way: Way, mut bytes: &[u8], emit: &mut impl FnMut(Frame)) {
        while let Some(end) = bytes.iter().position(|&b| b == b'\n') {
            self.part(&bytes[..end]);
            emit(self.cut(way));
            bytes = &bytes[end + 1..];
        }
        self.part(bytes);
    }

    fn part(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        let room = (TEXT_LIMIT + 1).saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn cut(&mut self, way: Way) -> Frame {
        let digest = std::mem::take(&mut self.hasher).finalize();
        let head = std::mem::take(&mut self.head);
        Frame {
            way,
            bytes: std::mem::take(&mut self.bytes),
            sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            text: (head.len() <= TEXT_LIMIT)
                .then(|| String::from_utf8(head).ok())
                .flatten(),
        }
    }
}

/// Writes a peer's log. Without `WIRE_LOG_DIR` it does nothing.
pub struct WireLog {
    file: Option<File>,
    sent: Cutter,
    received: Cutter,
}

impl WireLog {
    /// Opens this process's log for appending: a peer that re-executes itself keeps its log.
    pub fn open(role: &str) -> io::Result<Self> {
        let file = match std::env::var_os(DIRECTORY) {
            Some(directory) => {
                let name = format!("{role}-{}.jsonl", std::process::id());
                let path = Path::new(&directory).join(name);
                Some(OpenOptions::new().create(true).append(true).open(path)?)
            }
            None => None,
        };
        Ok(Self {
            file,
            sent: Cutter::default(),
            received: Cutter::default(),
        })
    }

    /// Notes bytes that the peer wrote.
    pub fn sent(&mut self, bytes: &[u8]) -> io::Result<()> {
        Self::note(&self.file, &mut self.sent, Way::Sent, bytes)
    }

    /// Notes bytes that the peer read.
    pub fn received(&mut self, bytes: &[u8]) -> io::Result<()> {
        Self::note(&self.file, &mut self.received, Way::Received, bytes)
    }

    fn note(file: &Option<File>, cutter: &mut Cutter, way: Way, bytes: &[u8]) -> io::Result<()> {
        let Some(mut file) = file.as_ref() else {
            return Ok(());
        };
        let mut lines = Vec::new();
        cutter.push(way, bytes, &mut |frame| lines.push(frame));
        for frame in lines {
            // One write per line: a peer that is killed leaves only whole lines.
            let mut line = serde_json::to_vec(&frame)?;
            line.push(b'\n');
            file.write_all(&line)?;
        }
        Ok(())
    }
}

/// One peer's log, read back.
#[derive(Clone, Debug)]
pub struct PeerLog {
    /// `client` or `server`.
    pub role: String,
    /// The process that wrote it, which is the process that moved the bytes.
    pub pid: u32,
    /// Its frames in order.
    pub frames: Vec<Frame>,
}

impl PeerLog {
    /// Every non-empty log of a directory.
    pub fn read_all(directory: &Path) -> io::Result<Vec<Self>> {
        let mut logs = Vec::new();
        let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)?
            .map(|entry| entry.map(|e| e.path()))
            .collect::<io::Result<_>>()?;
        paths.sort();
        for path in paths {
            let Some((role, pid)) = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .filter(|_| path.extension().is_some_and(|e| e == "jsonl"))
                .and_then(|stem| stem.rsplit_once('-'))
            else {
                continue;
            };
            let text = std::fs::read_to_string(&path)?;
            let frames = text
                .lines()
                .map(serde_json::from_str)
                .collect::<Result<Vec<Frame>, _>>()
                .map_err(|e| io::Error::other(format!("{}: {e}", path.display())))?;
            if frames.is_empty() {
                continue;
            }
            logs.push(Self {
                role: role.to_owned(),
                pid: pid.parse().map_err(io::Error::other)?,
                frames,
            });
        }
        Ok(logs)
    }

    /// Its frames of one way, blank lines left out.
    pub fn frames(&self, way: Way) -> Vec<Frame> {
        let wanted = |frame: &&Frame| frame.way == way && !frame.is_blank();
        self.frames.iter().filter(wanted).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_cut_at_the_newline_however_the_bytes_arrive() {
        let wire = b"{\"a\":1}\r\n\nxyz\nrest";
        for step in 1..wire.len() {
            let mut cutter = Cutter::default();
            let mut frames = Vec::new();
            for chunk in wire.chunks(step) {
                cutter.push(Way::Sent, chunk, &mut |f| frames.push(f));
            }
            let sizes: Vec<u64> = frames.iter().map(|f| f.bytes).collect();
            assert_eq!(sizes, [8, 0, 3], "in steps of {step}");
            assert_eq!(frames[2], Frame::of(Way::Sent, b"xyz"));
            assert!(frames[1].is_blank());
        }
    }

    #[test]
    fn long_frames_are_logged_without_their_text() {
        let long = vec![b'x'; TEXT_LIMIT + 1];
        assert_eq!(Frame::of(Way::Sent, &long).text, None);
        assert!(Frame::of(Way::Sent, &long[1..]).text.is_some());
    }
}
