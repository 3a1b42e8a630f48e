//! One function per way of moving bytes through a descriptor.
//!
//! The standard library picks the call for us; these tests have to pick it themselves.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::libc;

/// How a peer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each is the system call of its name")]
pub enum ReadCall {
    Read,
    Readv,
    Preadv2,
    Recvfrom,
    Recvmsg,
    Recvmmsg,
    Splice,
    Tee,
    IoUring,
}

/// How a peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each is the system call of its name")]
pub enum WriteCall {
    Write,
    Writev,
    Pwritev2,
    Sendto,
    Sendmsg,
    Sendmmsg,
    Splice,
    Vmsplice,
    Sendfile,
    IoUring,
}

/// The calls that the probes copy, for pipes.
pub const PIPE_READS: [ReadCall; 3] = [ReadCall::Read, ReadCall::Readv, ReadCall::Preadv2];
/// The calls that the probes copy, for pipes.
pub const PIPE_WRITES: [WriteCall; 3] = [WriteCall::Write, WriteCall::Writev, WriteCall::Pwritev2];
/// The calls that the probes copy, for sockets.
pub const SOCKET_READS: [ReadCall; 6] = [
    ReadCall::Read,
    ReadCall::Readv,
    ReadCall::Preadv2,
    ReadCall::Recvfrom,
    ReadCall::Recvmsg,
    ReadCall::Recvmmsg,
];
/// The calls that the probes copy, for sockets.
pub const SOCKET_WRITES: [WriteCall; 6] = [
    WriteCall::Write,
    WriteCall::Writev,
    WriteCall::Pwritev2,
    WriteCall::Sendto,
    WriteCall::Sendmsg,
    WriteCall::Sendmmsg,
];

impl ReadCall {
    /// Its name on a command line.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl WriteCall {
    /// Its name on a command line.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

fn checked(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// `count` vectors over `length` bytes at `base`, as even as possible; more vectors than bytes result in
/// empty vectors, which are legal and occur in the wild.
fn vectors(base: *mut u8, length: usize, count: usize) -> Vec<libc::iovec> {
    let count = count.max(1);
    let size = length.div_ceil(count);
    (0..count)
        .map(|i| {
            let start = (i * size).min(length);
            let end = (start + size).min(length);
            libc::iovec {
                // `start` is at most `length`, so this stays inside the buffer or at its end.
                iov_base: base.wrapping_add(start).cast(),
                iov_len: end - start,
            }
        })
        .collect()
}

fn header(vectors: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: msghdr is plain data for which all zeroes means "nothing".
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = vectors.len();
    header
}

/// Two messages, each with half of the vectors, for the calls that take several.
fn headers(vectors: &mut [libc::iovec]) -> Vec<libc::mmsghdr> {
    let half = vectors.len().div_ceil(2);
    vectors
        .chunks_mut(half)
        .map(|part| libc::mmsghdr {
            msg_hdr: header(part),
            msg_len: 0,
        })
        .collect()
}

fn moved(result: libc::c_int, messages: &[libc::mmsghdr]) -> io::Result<usize> {
    let count = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
    Ok(messages[..count].iter().map(|m| m.msg_len as usize).sum())
}

/// Reads once into `buffer`, cut into `pieces` vectors if the call takes vectors. Zero is the end.
pub fn read_once(
    call: ReadCall,
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    pieces: usize,
) -> io::Result<usize> {
    let (raw, base, length) = (fd.as_raw_fd(), buffer.as_mut_ptr(), buffer.len());
    let mut parts = vectors(base, length, pieces);
    let count = parts.len() as libc::c_int;
    // SAFETY (all calls): `base..base + length` is `buffer`, borrowed mutably for the whole call;
    // vectors and headers point into it and outlive the call.
    match call {
        // SAFETY: as above.
        ReadCall::Read => checked(unsafe { libc::read(raw, base.cast(), length) }),
        // SAFETY: as above.
        ReadCall::Readv => checked(unsafe { libc::readv(raw, parts.as_ptr(), count) }),
        // SAFETY: as above; offset -1 means "the current position", all that pipes have.
        ReadCall::Preadv2 => checked(unsafe { libc::preadv2(raw, parts.as_ptr(), count, -1, 0) }),
        ReadCall::Recvfrom => {
            let none = std::ptr::null_mut();
            // SAFETY: as above; no address is requested.
            checked(unsafe {
                libc::recvfrom(raw, base.cast(), length, 0, none, std::ptr::null_mut())
            })
        }
        ReadCall::Recvmsg => {
            let mut header = header(&mut parts);
            // SAFETY: as above.
            checked(unsafe { libc::recvmsg(raw, &raw mut header, 0) })
        }
        ReadCall::Recvmmsg => {
            let mut parts = vectors(base, length, pieces.max(2));
            let mut messages = headers(&mut parts);
            // SAFETY: as above; MSG_WAITFORONE keeps the second message from blocking.
            let result = unsafe {
                libc::recvmmsg(
                    raw,
                    messages.as_mut_ptr(),
                    messages.len() as libc::c_uint,
                    libc::MSG_WAITFORONE as _,
                    std::ptr::null_mut(),
                )
            };
            let count = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
            let lengths: Vec<usize> = messages[..count]
                .iter()
                .map(|message| message.msg_len as usize)
                .collect();
            // The second message starts at its own place, however short the first one was.
            if let [first, second] = lengths[..] {
                let half = parts.len().div_ceil(2);
                let start: usize = parts[..half].iter().map(|part| part.iov_len).sum();
                buffer.copy_within(start..start + second, first);
            }
            Ok(lengths.iter().sum())
        }
        ReadCall::Splice => through_pipe(raw, buffer, |pipe, length| {
            // SAFETY: only descriptors and null offsets are passed.
            unsafe { libc::splice(raw, no_offset(), pipe, no_offset(), length, 0) }
        }),
        ReadCall::Tee => through_pipe(raw, buffer, |pipe, length| {
            // SAFETY: only descriptors are passed.
            let seen = unsafe { libc::tee(raw, pipe, length, 0) };
            if seen > 0 {
                let null = std::fs::File::options().write(true).open("/dev/null");
                let Ok(null) = null else { return -1 };
                // Tee copies; what it copied must be taken out without reading it.
                // SAFETY: only descriptors and null offsets are passed.
                unsafe {
                    libc::splice(
                        raw,
                        no_offset(),
                        null.as_raw_fd(),
                        no_offset(),
                        seen as usize,
                        0,
                    )
                };
            }
            seen
        }),
        ReadCall::IoUring => {
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            let entry = io_uring::opcode::Read::new(io_uring::types::Fd(raw), base, length)
                .offset(u64::MAX);
            submit(&entry.build())
        }
    }
}

/// Writes once from `bytes`, cut into `pieces` vectors if the call takes vectors.
pub fn write_once(
    call: WriteCall,
    fd: BorrowedFd<'_>,
    bytes: &[u8],
    pieces: usize,
) -> io::Result<usize> {
    let (raw, base, length) = (fd.as_raw_fd(), bytes.as_ptr(), bytes.len());
    // The kernel only reads through these, whatever the C types say.
    let mut parts = vectors(base.cast_mut(), length, pieces);
    let count = parts.len() as libc::c_int;
    // SAFETY (all calls): `base..base + length` is `bytes`, borrowed for the whole call; vectors
    // and headers point into it and outlive the call.
    match call {
        // SAFETY: as above.
        WriteCall::Write => checked(unsafe { libc::write(raw, base.cast(), length) }),
        // SAFETY: as above.
        WriteCall::Writev => checked(unsafe { libc::writev(raw, parts.as_ptr(), count) }),
        WriteCall::Pwritev2 => {
            // SAFETY: as above.
            checked(unsafe { libc::pwritev2(raw, parts.as_ptr(), count, -1, 0) })
        }
        // SAFETY: as above; no address is passed.
        WriteCall::Sendto => checked(unsafe {
            libc::sendto(
                raw,
                base.cast(),
                length,
                libc::MSG_NOSIGNAL,
                std::ptr::null(),
                0,
            )
        }),
        WriteCall::Sendmsg => {
            let header = header(&mut parts);
            // SAFETY: as above.
            checked(unsafe { libc::sendmsg(raw, &raw const header, libc::MSG_NOSIGNAL) })
        }
        WriteCall::Sendmmsg => {
            let mut parts = vectors(base.cast_mut(), length, pieces.max(2));
            let mut messages = headers(&mut parts);
            // SAFETY: as above.
            let result = unsafe {
                libc::sendmmsg(
                    raw,
                    messages.as_mut_ptr(),
                    messages.len() as libc::c_uint,
                    libc::MSG_NOSIGNAL as _,
                )
            };
            moved(result, &messages)
        }
        WriteCall::Splice => {
            let (out, into) = nix::unistd::pipe()?;
            let length = nix::unistd::write(&into, &bytes[..length.min(PIPE)])?;
            drop(into);
            drain(length, |left| {
                // SAFETY: only descriptors and null offsets are passed.
                unsafe { libc::splice(out.as_raw_fd(), no_offset(), raw, no_offset(), left, 0) }
            })
        }
        WriteCall::Vmsplice => {
            // SAFETY: as above; the pages stay untouched until the reader has taken them.
            let count = checked(unsafe { libc::vmsplice(raw, parts.as_ptr(), parts.len(), 0) })?;
            while unread(raw)? > 0 {
                std::thread::yield_now();
            }
            Ok(count)
        }
        WriteCall::Sendfile => {
            let file = memory_file(bytes)?;
            let mut offset: libc::off_t = 0;
            drain(length, |left| {
                // SAFETY: the offset is a local that outlives the call.
                unsafe { libc::sendfile(raw, file.as_raw_fd(), &raw mut offset, left) }
            })
        }
        WriteCall::IoUring => {
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            let entry = io_uring::opcode::Write::new(io_uring::types::Fd(raw), base, length)
                .offset(u64::MAX);
            submit(&entry.build())
        }
    }
}

/// Looks at up to `buffer` waiting bytes of a socket without taking them.
pub fn peek(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the buffer's length into the borrowed buffer.
    checked(unsafe {
        libc::recv(
            fd.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_PEEK,
        )
    })
}

/// What a fresh pipe holds: longer pieces would block half way.
const PIPE: usize = 65_536;

fn no_offset() -> *mut libc::loff_t {
    std::ptr::null_mut()
}

/// Moves bytes from `raw` into a private pipe by `fill`, then takes them out of there.
fn through_pipe(
    raw: RawFd,
    buffer: &mut [u8],
    fill: impl Fn(RawFd, usize) -> isize,
) -> io::Result<usize> {
    debug_assert!(raw >= 0);
    let (out, into) = nix::unistd::pipe()?;
    let length = checked(fill(into.as_raw_fd(), buffer.len().min(PIPE)))?;
    drop(into);
    let mut done = 0;
    while done < length {
        done += nix::unistd::read(&out, &mut buffer[done..length])?;
    }
    Ok(length)
}

/// How many bytes wait in a pipe.
fn unread(raw: RawFd) -> io::Result<libc::c_int> {
    let mut count: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, to a local that outlives the call.
    let result = unsafe { libc::ioctl(raw, libc::FIONREAD, &raw mut count) };
    checked(result as isize).map(|_| count)
}

/// Repeats `step` until all of `length` has moved: what was taken from the source must arrive.
fn drain(length: usize, mut step: impl FnMut(usize) -> isize) -> io::Result<usize> {
    let mut done = 0;
    while done < length {
        done += checked(step(length - done))?;
    }
    Ok(done)
}

fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    use io::Write;
    let fd = nix::sys::memfd::memfd_create(c"oddpeer", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// Runs one operation on a ring of its own and waits for it.
fn submit(entry: &io_uring::squeue::Entry) -> io::Result<usize> {
    let mut ring = io_uring::IoUring::new(2)?;
    // SAFETY: the entry's buffer belongs to the caller, who waits here until the kernel is done.
    unsafe { ring.submission().push(entry) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    let done = ring.completion().next();
    let result = done.map_or(-libc::EIO, |entry| entry.result());
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
