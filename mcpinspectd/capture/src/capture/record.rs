//! Decodes records as they come out of the ring: bytes in, a typed view out.

use std::sync::Arc;

use mcpinspect_common::{
    AncestorReport, ConnectionReport, End, EndpointKey, EndpointReport, ExecReport, Operation,
    RecordFlags, RecordHeader, RecordKind, TlsNews,
};
use mcpinspect_core::model::{
    BlindMechanism, BootTime, Executed, ExecutedBy, GapReason, Pid, Segment, ticks,
};
use thiserror::Error;

/// Why bytes cannot be decoded.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// There are fewer than a header has, or than the header says.
    #[error("record cut short")]
    Short,
    /// The header names a kind, end or operation that this version does not know.
    #[error("record of unknown kind")]
    Unknown,
}

/// Which process a record comes from, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Process (thread group).
    pub tgid: u32,
    /// When it was written.
    pub time: BootTime,
}

/// One record of the probes. The fields are those of [`RecordHeader`], which documents them.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the header documents the fields")]
pub enum KernelRecord<'a> {
    /// Bytes that crossed an end of a stream. They are lost if they could not be copied: their page was
    /// not resident.
    Segment {
        key: EndpointKey,
        end: End,
        segment: Segment<'a>,
    },
    /// A reader reached the end of its stream.
    EndOfStream { key: EndpointKey },
    /// A program was started with these descriptors 0 and 1.
    Exec {
        input: EndpointReport,
        output: EndpointReport,
        /// The real user id of the process.
        uid: u32,
        /// What else the kernel knows about the program; `None` on a kernel that does not say.
        executed: Option<Arc<Executed>>,
    },
    /// A tracked process has exited.
    Exit,
    /// Something about a process and TLS.
    Library { news: TlsNews },
    /// A process has begun a TLS connection with this message. It may be cut short.
    ClientHello { message: &'a [u8] },
    /// An endpoint was registered on request.
    Registered(EndpointReport),
    /// A TCP connection is counted from now on; its first bytes crossed `end`.
    Connected {
        key: EndpointKey,
        end: End,
        report: ConnectionReport,
        /// The real user id of the process.
        uid: u32,
    },
    /// Bytes crossed a stream (`Some`), or some stream of this process (`None`), in a way that cannot be
    /// copied.
    BlindSpot {
        stream: Option<(EndpointKey, End)>,
        bytes: u64,
        mechanism: BlindMechanism,
    },
}

/// Decodes one record.
///
/// # Errors
/// The bytes are not a record of this version.
pub fn decode(data: &[u8]) -> Result<(Origin, KernelRecord<'_>), DecodeError> {
    let header: RecordHeader = plain(data)?;
    let RecordHeader {
        kind,
        end,
        flags,
        share: _,
        len,
        key,
        position,
        time,
        tgid,
        tid: _,
        aux,
    } = header;
    let payload = data
        .get(size_of::<RecordHeader>()..)
        .and_then(|rest| rest.get(..len as usize))
        .ok_or(DecodeError::Short)?;
    let end = End::from_u8(end).ok_or(DecodeError::Unknown)?;
    let record = match RecordKind::from_u8(kind).ok_or(DecodeError::Unknown)? {
        RecordKind::Data => KernelRecord::Segment {
            key,
            end,
            segment: if flags & RecordFlags::FAULT != 0 {
                Segment::lost(position, aux, GapReason::PageNotResident)
            } else if flags & RecordFlags::UNCOPIED != 0 {
                Segment::lost(position, aux, GapReason::NotCopied)
            } else {
                Segment::new(position, payload)
            },
        },
        RecordKind::EndOfStream => KernelRecord::EndOfStream { key },
        RecordKind::Exec => KernelRecord::Exec {
            input: plain(payload)?,
            output: plain(
                payload
                    .get(size_of::<EndpointReport>()..)
                    .ok_or(DecodeError::Short)?,
            )?,
            uid: aux as u32,
            executed: executed(payload, aux as u32).map(Arc::new),
        },
        RecordKind::Exit => KernelRecord::Exit,
        RecordKind::Library => KernelRecord::Library {
            news: TlsNews::from_u64(aux).unwrap_or(TlsNews::MayBeThere),
        },
        RecordKind::ClientHello => KernelRecord::ClientHello { message: payload },
        RecordKind::Registered => KernelRecord::Registered(plain(payload)?),
        RecordKind::Connected => KernelRecord::Connected {
            key,
            end,
            report: plain(payload)?,
            uid: aux as u32,
        },
        RecordKind::BlindSpot => KernelRecord::BlindSpot {
            stream: (key.ino != 0).then_some((key, end)),
            bytes: position,
            mechanism: mechanism(aux).ok_or(DecodeError::Unknown)?,
        },
    };
    let time = BootTime(time);
    Ok((Origin { tgid, time }, record))
}

/// What a program is, if the kernel says more than its standard input and output.
fn executed(payload: &[u8], uid: u32) -> Option<Executed> {
    let ExecReport {
        stdio: _,
        start_time,
        executable_ino,
        directory_ino,
        arguments_length,
        name,
        executable_name,
        executable_path,
        ancestors,
    } = plain(payload).ok()?;
    let arguments = payload.get(size_of::<ExecReport>()..).unwrap_or_default();
    Some(Executed {
        start_time: ticks(start_time),
        uid,
        name: text(&name),
        executable: executable(&text(&executable_path), &text(&executable_name)),
        executable_ino,
        directory_ino,
        arguments: (arguments_length == 0 || !arguments.is_empty()).then(|| arguments.into()),
        ancestors: ancestors
            .iter()
            .take_while(|ancestor| ancestor.tgid != 0)
            .map(|ancestor| {
                let AncestorReport {
                    start_time,
                    tgid,
                    uid,
                    name,
                } = ancestor;
                ExecutedBy {
                    pid: Pid(*tgid),
                    start_time: ticks(*start_time),
                    uid: *uid,
                    name: text(name),
                }
            })
            .collect(),
    })
}

/// The path of an executable that was started as `path`, where links may have led to `name`.
fn executable(path: &str, name: &str) -> String {
    match path.rsplit_once('/') {
        _ if name.is_empty() => path.to_owned(),
        Some((directory, _)) => format!("{directory}/{name}"),
        None => name.to_owned(),
    }
}

/// Text up to its first zero, with a replacement for anything that is not UTF-8.
fn text(bytes: &[u8]) -> String {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// The mechanism that a report names by its operation; `None` if the probes copy what it moves, or
/// if this version does not know it.
fn mechanism(operation: u64) -> Option<BlindMechanism> {
    Some(match Operation::from_u8(u8::try_from(operation).ok()?) {
        Operation::Splice => BlindMechanism::Splice,
        Operation::Tee => BlindMechanism::Tee,
        Operation::VmSplice => BlindMechanism::VmSplice,
        Operation::SendFile => BlindMechanism::SendFile,
        Operation::IoUring => BlindMechanism::IoUring,
        Operation::Aio => BlindMechanism::Aio,
        Operation::TakeDescriptor => BlindMechanism::TakeDescriptor,
        Operation::Compat => BlindMechanism::Compat,
        Operation::Supervised => BlindMechanism::Supervised,
        Operation::ConnectionBudget => BlindMechanism::ConnectionBudget,
        Operation::TlsUnpaired => BlindMechanism::TlsUnpaired,
        Operation::Urgent => BlindMechanism::Urgent,
        Operation::None
        | Operation::PerhapsCompat
        | Operation::Map
        | Operation::GetOption
        | Operation::Socket
        | Operation::Accept
        | Operation::Read
        | Operation::Write
        | Operation::ReadVector
        | Operation::WriteVector
        | Operation::ReceiveFrom
        | Operation::SendTo
        | Operation::ReceiveMessage
        | Operation::SendMessage
        | Operation::ReceiveMessages
        | Operation::SendMessages => return None,
    })
}

/// Structures that records consist of.
trait Plain: Copy {}
impl Plain for RecordHeader {}
impl Plain for EndpointReport {}
impl Plain for ExecReport {}
impl Plain for ConnectionReport {}

fn plain<T: Plain>(data: &[u8]) -> Result<T, DecodeError> {
    let bytes = data.get(..size_of::<T>()).ok_or(DecodeError::Short)?;
    // SAFETY: `Plain` types are `repr(C)` integers without padding, for which every bit pattern is
    // valid, and `bytes` has exactly their size; the read does not assume alignment.
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The length of the record at the start of `data`, header included.
///
/// # Errors
/// `data` is shorter than the header says.
pub fn length(data: &[u8]) -> Result<usize, DecodeError> {
    let header: RecordHeader = plain(data)?;
    let length = size_of::<RecordHeader>() + header.len as usize;
    if data.len() < length {
        Err(DecodeError::Short)
    } else {
        Ok(length)
    }
}

/// The share of the ring ([`mcpinspect_common::ring_share_slot`]) that the record at the start of `data`
/// is counted against, if any.
pub fn share(data: &[u8]) -> Option<u8> {
    let header: RecordHeader = plain(data).ok()?;
    (header.share != 0).then_some(header.share)
}

#[cfg(test)]
mod tests;
