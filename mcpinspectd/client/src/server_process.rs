//! An MCP server as a process of this program: started, spoken to in lines, and gone at the end.
//!
//! The server is untrusted. Its lines are bounded and read one at a time: while they are not taken, it has to
//! wait. Lines to it are written by a separate thread, because a server that writes before it reads would
//! otherwise block both. It is the leader of a process group, which is killed at the end, whatever ends
//! it: an error, a panic, or Ctrl-C.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcpinspect_core::text::escape::printable;
use mcpinspect_core::wire::framing::DEFAULT_MAX_FRAME;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::peer::{Peer, PeerEnd, Received, SendOutcome};

/// How long a server may take to exit after its input was closed, and after each signal.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// Lines that may wait to be written.
const QUEUE: usize = 16;
/// Bytes to keep of the end of its standard error.
const STDERR_TAIL: usize = 64 << 10;
/// How long output on the standard error of an ended server may take to arrive.
const LAST_WORDS_GRACE: Duration = Duration::from_millis(200);

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables in addition to this program's own.
    pub environment: Vec<(String, String)>,
    /// The directory to start in; `None` is this program's.
    pub directory: Option<PathBuf>,
}

/// A running server.
pub struct ServerProcess {
    child: Child,
    /// Its process group, zero once that was killed.
    group: Arc<AtomicI32>,
    input: Option<SyncSender<Vec<u8>>>,
    lines: Receiver<Received>,
    stderr_tail: Arc<Mutex<VecDeque<u8>>>,
    listening: Option<JoinHandle<()>>,
    started: Instant,
}

impl ServerProcess {
    /// Starts a server.
    ///
    /// # Errors
    /// It cannot be started; an [`io::Error`] says why.
    pub fn start(how: &Start) -> anyhow::Result<Self> {
        let (program, arguments) = how.command.split_first().context("no command given")?;
        let group = Arc::new(AtomicI32::new(0));
        // Before the server is started: a signal in between would leave it behind.
        let killed = Arc::clone(&group);
        let mut signals =
            Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot handle signals")?;
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                kill(&killed);
                std::process::exit(128 + signal);
            }
        });
        let mut command = Command::new(program);
        if let Some(directory) = &how.directory {
            command.current_dir(directory);
        }
        let mut child = command
            .args(arguments)
            .envs(how.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", printable(program, 200)))?;
        group.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
        let (input, queue) = sync_channel::<Vec<u8>>(QUEUE);
        let (sender, lines) = sync_channel(1);
        let stderr_tail = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(mut stdin) = child.stdin.take() {
            std::thread::spawn(move || {
                let mut write = |line: Vec<u8>| stdin.write_all(&line).and_then(|()| stdin.flush());
                while queue.recv().is_ok_and(|line| write(line).is_ok()) {}
            });
        }
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || read(stdout, &sender));
        }
        let listening = child.stderr.take().map(|stderr| {
            let stderr_tail = Arc::clone(&stderr_tail);
            std::thread::spawn(move || listen(stderr, &stderr_tail))
        });
        Ok(Self {
            child,
            group,
            input: Some(input),
            lines,
            stderr_tail,
            listening,
            started: Instant::now(),
        })
    }

    /// Closes the server's input, and kills its process group if that is not enough.
    pub fn stop(&mut self) {
        drop(self.input.take());
        for signal in [None, Some(Signal::SIGTERM)] {
            if let Some(signal) = signal {
                // Fails if the group is already gone, which is the goal.
                let _ = killpg(Pid::from_raw(self.group.load(Ordering::SeqCst)), signal);
            }
            let until = Instant::now() + EXIT_GRACE;
            while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        // Even if the leader is gone: helpers that it started may not be.
        kill(&self.group);
        let _ = self.child.wait();
    }

    /// The lines of its standard error since the last call, at most the last 64 KiB of them.
    pub fn stderr(&mut self) -> Vec<String> {
        let lines = self.stderr_lines();
        let mut stderr_tail = self.stderr_buffer();
        stderr_tail.clear();
        lines
    }

    fn stderr_lines(&mut self) -> Vec<String> {
        let until = Instant::now() + LAST_WORDS_GRACE;
        let listening = self.listening.as_ref();
        let is_coming = || listening.is_some_and(|thread| !thread.is_finished());
        // From an ended server, everything is already on its way; a running one may say more at any time.
        while is_coming() && Instant::now() < until && !matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = String::from_utf8_lossy(self.stderr_buffer().make_contiguous()).into_owned();
        text.lines().map(str::to_owned).collect()
    }

    fn stderr_buffer(&self) -> MutexGuard<'_, VecDeque<u8>> {
        let stderr_tail = self.stderr_tail.lock();
        stderr_tail.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if self.group.load(Ordering::SeqCst) != 0 {
            self.stop();
        }
    }
}

impl Peer for ServerProcess {
    fn send(&mut self, line: &str) -> SendOutcome {
        let Some(input) = &self.input else {
            return SendOutcome::Closed;
        };
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        match input.try_send(bytes) {
            Ok(()) => SendOutcome::Queued,
            Err(TrySendError::Full(_)) => SendOutcome::Full,
            Err(TrySendError::Disconnected(_)) => SendOutcome::Closed,
        }
    }

    fn receive(&mut self, wait: Duration) -> Received {
        match self.lines.recv_timeout(wait) {
            Ok(received) => received,
            Err(RecvTimeoutError::Timeout) => Received::Nothing,
            Err(RecvTimeoutError::Disconnected) => Received::Closed,
        }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn end(&mut self) -> PeerEnd {
        let until = Instant::now() + EXIT_GRACE;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let status = self.child.try_wait().ok().flatten();
        let stderr_lines = self.stderr_lines();
        let last_line = stderr_lines.iter().rfind(|line| !line.trim().is_empty());
        PeerEnd {
            what: match status {
                Some(status) => format!("the server ended ({status})"),
                None => "the server closed its output".to_owned(),
            },
            exited: status.is_some(),
            exit_status: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            last_line: last_line.map(|line| printable(line, 300)),
        }
    }
}

/// Kills a process group, once.
fn kill(group: &AtomicI32) {
    let group = group.swap(0, Ordering::SeqCst);
    if group > 0 {
        // Fails if the group is already gone, which is the goal.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

/// Reads lines until there are no more, or the receiver is gone.
fn read(stdout: ChildStdout, lines: &SyncSender<Received>) {
    let mut reader = BufReader::new(stdout);
    while let Ok(Some(received)) = next_line(&mut reader) {
        if lines.send(received).is_err() {
            return;
        }
    }
}

/// The next line, bounded; `None` at the end.
///
/// # Errors
/// It cannot be read.
pub fn next_line(reader: &mut impl BufRead) -> io::Result<Option<Received>> {
    let mut line = Vec::new();
    let limit = DEFAULT_MAX_FRAME as u64;
    let mut read = (&mut *reader).take(limit).read_until(b'\n', &mut line)? as u64;
    if read == 0 {
        return Ok(None);
    }
    if line.ends_with(b"\n") || read < limit {
        while line.ends_with(b"\n") || line.ends_with(b"\r") {
            line.pop();
        }
        return Ok(Some(Received::Line(line)));
    }
    drop(line);
    loop {
        let bytes = reader.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        reader.consume(taken);
        read += taken as u64;
        if end.is_some() || taken == 0 {
            return Ok(Some(Received::TooLong(read)));
        }
    }
}

/// Keeps the end of what the server writes on its standard error.
fn listen(mut stderr: ChildStderr, stderr_tail: &Mutex<VecDeque<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut buffer) {
        let mut stderr_tail = stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        stderr_tail.extend(buffer.iter().take(count));
        let surplus = stderr_tail.len().saturating_sub(STDERR_TAIL);
        stderr_tail.drain(..surplus);
    }
}
