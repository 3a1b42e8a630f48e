//! Ways for the wire to end up somewhere other than on descriptors 0 and 1 of the process that was
//! started: duplicated high up, kept across an exec, or passed to another process.

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
    sendmsg, setsockopt, socketpair, sockopt::PassCred,
};

/// How another process gets the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// In a message on a Unix socket.
    Scm,
    /// The same, behind the sender's credentials.
    ScmCredentials,
    /// In the second of two messages that are received at once.
    ScmSecond,
    /// Taken with `pidfd_getfd`.
    Pidfd,
}

/// How the other process receives the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// The descriptors come in a message on this socket.
    Socket(RawFd),
    /// The descriptors come in the second message on this socket.
    Second(RawFd),
    /// The descriptors are 0 and 1 of this process.
    Process(libc::pid_t),
}

impl FromStr for Adoption {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once('=') {
            Some(("socket", fd)) => Ok(Self::Socket(fd.parse()?)),
            Some(("second", fd)) => Ok(Self::Second(fd.parse()?)),
            Some(("process", pid)) => Ok(Self::Process(pid.parse()?)),
            _ => bail!("socket=FD, second=FD or process=PID"),
        }
    }
}

/// Starts a second process without standard streams, passes it ours and waits for it.
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
        Method::Scm | Method::ScmCredentials | Method::ScmSecond => {
            if method == Method::ScmCredentials {
                setsockopt(&theirs, PassCred, &true)?;
            }
            // Inherited by the child alone: it is the only thing started while this holds.
            fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty()))?;
            let kind = match method {
                Method::ScmSecond => "second",
                _ => "socket",
            };
            let socket = format!("{kind}={}", theirs.as_raw_fd());
            let child = command.args(["--adopt", &socket]).spawn()?;
            drop(theirs);
            let rights = [ControlMessage::ScmRights(&[0, 1])];
            let payload = [IoSlice::new(b"!")];
            if method == Method::ScmSecond {
                sendmsg::<()>(ours.as_raw_fd(), &payload, &[], MsgFlags::empty(), None)?;
            }
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
            let mut space = nix::cmsg_space!([RawFd; 2], libc::ucred);
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
        Adoption::Second(socket) => second_message(socket),
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

/// Receives two messages in one call and takes the descriptors of the second.
fn second_message(socket: RawFd) -> Result<(OwnedFd, OwnedFd)> {
    // `recvmmsg` waits until both are there.
    let mut bytes = [[0u8; 1]; 2];
    let mut spaces = [[0u64; 8]; 2];
    let mut vectors = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 1,
    }; 2];
    // SAFETY: all zero is a valid message header.
    let mut messages: [libc::mmsghdr; 2] = unsafe { std::mem::zeroed() };
    for (index, message) in messages.iter_mut().enumerate() {
        vectors[index].iov_base = bytes[index].as_mut_ptr().cast();
        message.msg_hdr.msg_iov = &raw mut vectors[index];
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = spaces[index].as_mut_ptr().cast();
        message.msg_hdr.msg_controllen = size_of_val(&spaces[index]);
    }
    // SAFETY: two message headers whose buffers outlive the call.
    let count =
        unsafe { libc::recvmmsg(socket, messages.as_mut_ptr(), 2, 0, std::ptr::null_mut()) };
    ensure!(
        count == 2,
        "{count} messages: {}",
        io::Error::last_os_error()
    );
    // SAFETY: the header that the kernel filled in, and the space after it.
    let control = unsafe { libc::CMSG_FIRSTHDR(&raw const messages[1].msg_hdr) };
    ensure!(!control.is_null(), "no descriptors in the second message");
    // SAFETY: a control message of two descriptors, as the sender sent it.
    let [input, output] = unsafe {
        libc::CMSG_DATA(control)
            .cast::<[RawFd; 2]>()
            .read_unaligned()
    };
    // SAFETY: the kernel just made these descriptors for us.
    Ok(unsafe { (OwnedFd::from_raw_fd(input), OwnedFd::from_raw_fd(output)) })
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

/// Replaces this process with a fresh run of the same program that continues the session.
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
