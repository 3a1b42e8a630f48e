//! One peer's two stream ends: writing in the requested portions, reading line by line, and a log
//! of both.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, sync_channel};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::calls::{self, ReadCall, WriteCall};
use crate::wirelog::WireLog;

/// How a peer moves its bytes.
#[derive(Clone, Debug, clap::Args)]
pub struct IoOptions {
    /// System call to read with.
    #[arg(long, value_enum, default_value = "read")]
    pub read: ReadCall,
    /// System call to write with.
    #[arg(long, value_enum, default_value = "write")]
    pub write: WriteCall,
    /// Vectors per vectored call.
    #[arg(long, default_value_t = 1)]
    pub pieces: usize,
    /// Longest single write, in bytes.
    #[arg(long, default_value_t = usize::MAX)]
    pub fragment: usize,
    /// Size of the read buffer, in bytes.
    #[arg(long, default_value_t = 65_536)]
    pub buffer: usize,
    /// Makes both ends non-blocking and waits with poll.
    #[arg(long)]
    pub nonblocking: bool,
    /// Looks at the waiting bytes with MSG_PEEK before each read.
    #[arg(long)]
    pub peek: bool,
    /// Reads from a thread of its own.
    #[arg(long)]
    pub threads: bool,
}

/// A peer's end of a session.
pub struct Link {
    options: IoOptions,
    output: OwnedFd,
    input: Input,
    pending: Vec<u8>,
    searched: usize,
    log: WireLog,
}

enum Input {
    Direct(OwnedFd),
    Thread(Receiver<io::Result<Vec<u8>>>),
}

impl Link {
    /// Takes the two ends. They may be the same socket.
    pub fn new(
        input: OwnedFd,
        output: OwnedFd,
        options: IoOptions,
        log: WireLog,
    ) -> io::Result<Self> {
        if options.nonblocking {
            for fd in [&input, &output] {
                fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            }
        }
        let input = if options.threads {
            let (sender, receiver) = sync_channel(1);
            let thread_options = options.clone();
            std::thread::Builder::new()
                .name("reader".to_owned())
                .spawn(move || {
                    loop {
                        let bytes = read_some(input.as_fd(), &thread_options);
                        let last = !matches!(&bytes, Ok(b) if !b.is_empty());
                        if sender.send(bytes).is_err() || last {
                            return;
                        }
                    }
                })?;
            Input::Thread(receiver)
        } else {
            Input::Direct(input)
        };
        Ok(Self {
            options,
            output,
            input,
            pending: Vec::new(),
            searched: 0,
            log,
        })
    }

    /// Writes all of `bytes` and logs them.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let piece = &left[..left.len().min(self.options.fragment)];
            let fd = self.output.as_fd();
            match calls::write_once(self.options.write, fd, piece, self.options.pieces) {
                Ok(count) => left = &left[count..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => wait(fd, PollFlags::POLLOUT)?,
                Err(e) => return Err(e),
            }
        }
        self.log.sent(bytes)
    }

    /// Writes one line.
    pub fn send_line(&mut self, line: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        self.send(&bytes)
    }

    /// The next line without its newline; `None` at the end of the stream.
    pub fn receive_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.pending[self.searched..]
                .iter()
                .position(|&b| b == b'\n')
            {
                let rest = self.pending.split_off(self.searched + at + 1);
                let mut line = std::mem::replace(&mut self.pending, rest);
                line.pop();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.pending.len();
            let bytes = match &self.input {
                Input::Direct(fd) => read_some(fd.as_fd(), &self.options)?,
                Input::Thread(receiver) => receiver.recv().unwrap_or(Ok(Vec::new()))?,
            };
            if bytes.is_empty() {
                return Ok(None);
            }
            self.log.received(&bytes)?;
            self.pending.extend_from_slice(&bytes);
        }
    }

    /// Whether bytes are waiting here that no line took yet.
    pub fn has_unread(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Closes the writing end and reads the other side's last lines.
    pub fn finish(self) -> io::Result<()> {
        let Self {
            options,
            output,
            input,
            mut log,
            ..
        } = self;
        let _ = nix::sys::socket::shutdown(output.as_raw_fd(), nix::sys::socket::Shutdown::Write);
        drop(output);
        loop {
            let bytes = match &input {
                Input::Direct(fd) => read_some(fd.as_fd(), &options)?,
                Input::Thread(receiver) => receiver.recv().unwrap_or(Ok(Vec::new()))?,
            };
            if bytes.is_empty() {
                return Ok(());
            }
            log.received(&bytes)?;
        }
    }
}

fn wait(fd: BorrowedFd<'_>, what: PollFlags) -> io::Result<()> {
    poll(&mut [PollFd::new(fd, what)], PollTimeout::NONE)?;
    Ok(())
}

fn read_some(fd: BorrowedFd<'_>, options: &IoOptions) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; options.buffer.max(1)];
    loop {
        let result = if options.peek {
            calls::peek(fd, &mut buffer).and_then(|_| read(fd, &mut buffer, options))
        } else {
            read(fd, &mut buffer, options)
        };
        match result {
            Ok(count) => {
                buffer.truncate(count);
                return Ok(buffer);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => wait(fd, PollFlags::POLLIN)?,
            // The other side of a socket pair went away with unread bytes: also an end.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(Vec::new()),
            Err(e) => return Err(e),
        }
    }
}

fn read(fd: BorrowedFd<'_>, buffer: &mut [u8], options: &IoOptions) -> io::Result<usize> {
    calls::read_once(options.read, fd, buffer, options.pieces)
}
