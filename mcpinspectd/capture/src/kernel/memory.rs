//! The running sessions, saved for the daemon's next start.
//!
//! The file is in a directory that goes away at shutdown, because it holds command lines, which may
//! contain secrets, and because pids and inode numbers mean nothing afterwards. A separate thread writes
//! it, at most once a second, and replaces it as a whole. What is read back is believed only for
//! streams that one of the remembered processes still holds.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mcpinspect_core::model::{BootTime, InodeKey, Pid};
use mcpinspect_process::fds::Holders;
use mcpinspect_process::info::RunningProcess;
use mcpinspect_runtime::priority::Priority;
use nix::libc;

use crate::discover::RememberedStream;

/// Most bytes of the file, since it takes memory. What does not fit is forgotten.
const FILE_MAX: usize = 8 << 20;
/// Bytes of an ordinary stream: a few programs, with the command lines of their ancestors. Those get space
/// first, however long a few others are.
const USUAL_MAX: usize = 64 << 10;
/// Most bytes of one stream: a program and its ancestors may have a command line of 64 KiB each.
const LINE_MAX: usize = 2 << 20;
/// Time between two writes.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps the file.
pub(super) struct Memory {
    snapshots: Option<SyncSender<Vec<RememberedStream>>>,
    thread: Option<JoinHandle<()>>,
    /// What was last written.
    last: Vec<RememberedStream>,
    next: BootTime,
}

impl Memory {
    /// Starts the writing thread; it ends when this value is dropped, after a last write.
    pub(super) fn start(path: &Path) -> io::Result<Self> {
        let (snapshots, queue) = sync_channel(1);
        let path = path.to_owned();
        let thread = std::thread::Builder::new()
            .name("memory".into())
            .spawn(move || write_each(&path, &queue))?;
        Ok(Self {
            snapshots: Some(snapshots),
            thread: Some(thread),
            last: Vec::new(),
            next: BootTime::default(),
        })
    }

    /// Whether it is time to check for changes.
    pub(super) fn is_due(&self, now: BootTime) -> bool {
        now >= self.next
    }

    /// Saves what is to be remembered, if it changed.
    pub(super) fn keep(&mut self, streams: Vec<RememberedStream>, now: BootTime) {
        self.next = now + PAUSE;
        if streams == self.last {
            return;
        }
        // If the last one is still being written, the next time is soon enough.
        let sent = self
            .snapshots
            .as_ref()
            .map(|snapshots| snapshots.try_send(streams.clone()));
        if matches!(sent, Some(Ok(()))) {
            self.last = streams;
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.snapshots = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by its hook.
            let _ = thread.join();
        }
    }
}

fn write_each(path: &Path, snapshots: &Receiver<Vec<RememberedStream>>) {
    Priority::Background.claim();
    for streams in snapshots {
        if let Err(error) = write(path, &streams) {
            let path = path.display();
            tracing::warn!(%path, %error, "cannot save the running sessions; after a restart their servers may get new names");
        }
    }
}

fn write(path: &Path, streams: &[RememberedStream]) -> io::Result<()> {
    let new = beside(path);
    // Left by a daemon that was killed.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let mut file = BufWriter::new(file);
    let mut room = FILE_MAX;
    for lengths in [0..=USUAL_MAX, USUAL_MAX + 1..=LINE_MAX] {
        for stream in streams {
            let mut line = serde_json::to_vec(stream)?;
            line.push(b'\n');
            if lengths.contains(&line.len()) && line.len() <= room {
                room -= line.len();
                file.write_all(&line)?;
            }
        }
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?;
    fs::rename(new, path)
}

fn beside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Reads the file. A missing or damaged one does not prevent the start.
pub(super) fn read(path: &Path) -> Vec<RememberedStream> {
    match lines(path) {
        Ok(streams) => streams,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let path = path.display();
            tracing::warn!(%path, %error, "cannot read the saved sessions");
            Vec::new()
        }
    }
}

fn lines(path: &Path) -> io::Result<Vec<RememberedStream>> {
    let file: File = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let mut streams = Vec::new();
    for line in BufReader::new(file.take(FILE_MAX as u64)).split(b'\n') {
        streams.push(serde_json::from_slice(&line?)?);
    }
    Ok(streams)
}

/// Keeps what is unchanged: a process that was started with the stream still holds it.
pub(super) fn still_there(
    mut streams: Vec<RememberedStream>,
    processes: &[RunningProcess],
    holders: &Holders,
) -> Vec<RememberedStream> {
    let started: HashMap<Pid, u64> = processes
        .iter()
        .map(|process| (process.pid, process.start_time))
        .collect();
    streams.retain(|stream| {
        let key = InodeKey {
            dev: stream.endpoint.dev.into(),
            ino: stream.endpoint.ino,
        };
        let is_held = |pid: Pid| {
            let mut holders = holders.get(&key).into_iter().flatten();
            holders.any(|holder| holder.pid == pid)
        };
        stream.programs.iter().any(|program| {
            let pid = Pid(program.pid);
            let then = program.info.as_ref().map(|info| info.process().start_time);
            then.is_some() && then == started.get(&pid).copied() && is_held(pid)
        })
    });
    streams
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::Arc;

    use mcpinspect_process::fds::{Access, Holder, StreamKind};
    use mcpinspect_process::{ProcessInfo, ProcessSnapshot, own, start_time};

    use super::*;
    use crate::discover::{RememberedEndpoint, RememberedProgram};

    fn endpoint(ino: u64) -> RememberedEndpoint {
        RememberedEndpoint {
            ino,
            dev: 15,
            kind: 1,
        }
    }

    /// A stream whose program has a command line of this many bytes.
    fn stream_of_length(ino: u64, length: usize) -> RememberedStream {
        let process = ProcessSnapshot {
            argv: vec!["x".repeat(length)],
            ..ProcessInfo::read(own()).unwrap().process().clone()
        };
        let info = serde_json::json!({ "process": process, "ancestors": [] });
        stream_of(ino, serde_json::from_value(info).unwrap())
    }

    /// A stream that this process was started with.
    fn stream(ino: u64) -> RememberedStream {
        stream_of(ino, ProcessInfo::read(own()).map(Arc::new))
    }

    fn stream_of(ino: u64, info: Option<Arc<ProcessInfo>>) -> RememberedStream {
        RememberedStream {
            endpoint: endpoint(ino),
            programs: vec![RememberedProgram {
                pid: own().0,
                input: Some(endpoint(ino)),
                output: Some(endpoint(ino + 1)),
                origin: info.clone(),
                info,
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_back_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.jsonl");
        assert_eq!(read(&path), [], "none yet");
        let mut memory = Memory::start(&path).unwrap();
        fs::write(beside(&path), "left behind").unwrap();
        memory.keep(vec![stream(1), stream(2)], BootTime(5));
        assert!(!memory.is_due(BootTime(4) + PAUSE) && memory.is_due(BootTime(5) + PAUSE));
        drop(memory);
        assert_eq!(read(&path), [stream(1), stream(2)]);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!beside(&path).exists());
    }

    #[test]
    fn a_file_that_is_not_ours_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.jsonl");
        write(&path, &[stream(1)]).unwrap();
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(read(&link), []);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(read(&path), [], "damaged");
    }

    #[test]
    fn the_file_has_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.jsonl");
        // Each is written twice per line: as the program and as its origin.
        let many = vec![stream_of_length(1, FILE_MAX / 32); 32];
        write(&path, &many).unwrap();
        assert!(fs::metadata(&path).unwrap().len() <= FILE_MAX as u64);
        let kept = read(&path);
        assert!((12..16).contains(&kept.len()), "{} of 32", kept.len());
        write(&path, &[stream_of_length(1, LINE_MAX / 2)]).unwrap();
        assert_eq!(read(&path), [], "too long");
    }

    #[test]
    fn long_command_lines_take_no_room_from_ordinary_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.jsonl");
        let mut all = vec![stream_of_length(1, LINE_MAX / 3); 10];
        let ordinary: Vec<_> = (2..102).map(|ino| stream_of_length(ino, 1000)).collect();
        all.extend(ordinary.clone());
        write(&path, &all).unwrap();
        let kept = read(&path);
        assert_eq!(kept[..ordinary.len()], ordinary);
        assert!(kept.len() > ordinary.len());
    }

    #[test]
    fn a_stream_is_believed_if_its_program_still_holds_it() {
        let own = own();
        let itself = RunningProcess {
            pid: own,
            start_time: start_time(own).unwrap(),
            parent: Pid(0),
        };
        let holder = |pid| Holder {
            pid,
            fd: 0,
            access: Access::Read,
            kind: StreamKind::Pipe,
        };
        let key = |ino| InodeKey { dev: 15, ino };
        let holders: Holders = [(key(1), vec![holder(own)]), (key(2), vec![holder(Pid(1))])].into();
        let streams = vec![stream(1), stream(2), stream(3)];
        let kept = still_there(streams.clone(), &[itself], &holders);
        assert_eq!(kept, [stream(1)]);
        let another = RunningProcess {
            start_time: itself.start_time + 1,
            ..itself
        };
        assert_eq!(still_there(streams.clone(), &[another], &holders), []);
        assert_eq!(still_there(streams, &[], &holders), []);
    }
}
