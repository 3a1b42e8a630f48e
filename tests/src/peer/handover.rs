//! Ways for the wire to end up somewhere else than on descriptors 0 and 1 of the process that was
//! started: duplicated high up, kept over an exec, or passed to another process.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};

/// How another process gets the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// In a message on a Unix socket.
    Scm,
    /// Taken with `pidfd_getfd`.
    Pidfd,
}

/// What the other process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// The descriptors come in a message on this socket.
    Socket(RawFd),
    /// The descriptors are 0 and 1 of this process.
    Process(libc::pid_t),
}

impl FromStr for Adoption {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once('=') {
            Some(("socket", fd)) => Ok(Self::Socket(fd.parse()?)),
            Some(("process", pid)) => Ok(Self::Process(pid.parse()?)),
            _ => bail!("socket=FD or process=PID"),
        }
    }
}

/// Starts a second process without standard streams, gives it ours and waits for it.
pub fn give(method: Method) -> Result<()> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let at = arguments.iter().position(|a| a == "--hand-over");
    let at = at.context("the option that brought us here")?;
    arguments.drain(at..at + 2);
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let (ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?;
    let mut child = match method {
        Method::Scm => {
            // Inherited by the child alone: it is the only thing started while this holds.
            fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty()))?;
            let socket = format!("socket={}", theirs.as_raw_fd());
            let child = command.args(["--adopt", &socket]).spawn()?;
            drop(theirs);
            let rights = [ControlMessage::ScmRights(&[0, 1])];
            let payload = [IoSlice::new(b"!")];
            sendmsg::<()>(ours.as_raw_fd(), &payload, &rights, MsgFlags::empty(), None)?;
            child
        }
        Method::Pidfd => {
            let process = format!("process={}", std::process::id());
            command.args(["--adopt", &process]).spawn()?
        }
    };
    let status = child.wait()?;
    ensure!(
        status.success(),
        "the process that serves ended with {status}"
    );
    Ok(())
}

/// Takes the wire from another process.
pub fn take(adoption: Adoption) -> Result<(OwnedFd, OwnedFd)> {
    match adoption {
        Adoption::Socket(socket) => {
            // SAFETY: the starter leaves this descriptor open for us alone.
            let socket = unsafe { OwnedFd::from_raw_fd(socket) };
            let mut byte = [0];
            let mut payload = [IoSliceMut::new(&mut byte)];
            let mut space = nix::cmsg_space!([RawFd; 2]);
            let flags = MsgFlags::empty();
            let message = recvmsg::<()>(socket.as_raw_fd(), &mut payload, Some(&mut space), flags)?;
            for part in message.cmsgs()? {
                if let ControlMessageOwned::ScmRights(fds) = part
                    && let [input, output] = fds[..]
                {
                    // SAFETY: the kernel just made these descriptors for us.
                    return Ok(unsafe {
                        (OwnedFd::from_raw_fd(input), OwnedFd::from_raw_fd(output))
                    });
                }
            }
            bail!("no descriptors in the message")
        }
        Adoption::Process(pid) => {
            // SAFETY: takes and returns plain numbers.
            let pidfd = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
            let get = |fd: RawFd| {
                // SAFETY: takes and returns plain numbers.
                owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0) })
            };
            Ok((get(0)?, get(1)?))
        }
    }
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(result).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Duplicates both ends to descriptors from 200 up and closes the originals.
pub fn move_high(input: OwnedFd, output: OwnedFd) -> io::Result<(OwnedFd, OwnedFd)> {
    let high = |fd: OwnedFd| -> io::Result<OwnedFd> {
        let copy = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(200))?;
        owned(libc::c_long::from(copy))
    };
    Ok((high(input)?, high(output)?))
}

/// Points 0 at the null device and 1 at standard error, as a careful server does once the wire is
/// elsewhere.
pub fn occupy_standard_streams() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    // SAFETY: plain descriptor numbers; nothing in this program uses 0 and 1 any more.
    let done = unsafe { libc::dup2(null.as_raw_fd(), 0) >= 0 && libc::dup2(2, 1) >= 0 };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Replaces this process by a fresh run of the same program that goes on with the session.
pub fn execute_anew() -> Result<()> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let at = arguments.iter().position(|a| a == "--reexec-after");
    let at = at.context("the option that brought us here")?;
    arguments.drain(at..at + 2);
    let error = Command::new(std::env::current_exe()?)
        .args(arguments)
        .exec();
    Err(error).context("executing itself anew")
}
