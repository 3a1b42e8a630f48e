//! A stream's bytes on their way from the kernel's ring to the framer.
//!
//! Every stage on that way speaks these types: the decoder makes segments of the kernel's records,
//! reassembly orders them, the comparison of a stream's two ends adds differences, and the events of a
//! session's two streams become inputs in their common order. Bytes are borrowed until they have to wait
//! for something.

use std::borrow::Cow;

use super::{Direction, GapReason, Input, SessionId, Timestamp};

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Where it starts: bytes from the start of the stream.
    pub position: u64,
    /// What it consists of.
    pub content: Content<'a>,
}

/// Bytes, or the loss of some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The bytes.
    Bytes(Cow<'a, [u8]>),
    /// They were lost.
    Lost {
        /// How many.
        length: u64,
        /// Why.
        reason: GapReason,
    },
}

/// What happens in a stream, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent<'a> {
    /// It continues.
    Segment(Segment<'a>),
    /// What was written is not what was read. The bytes that count follow, or have passed already.
    Difference {
        /// The first byte that differs.
        position: u64,
        /// How many bytes from there on may differ.
        length: u64,
        /// The beginning of what was read from there on.
        read: Cow<'a, [u8]>,
        /// The beginning of what was written from there on.
        written: Cow<'a, [u8]>,
    },
    /// Its reader has seen the end.
    End,
}

impl Content<'_> {
    /// How many bytes of the stream it stands for.
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Lost { length, .. } => *length,
        }
    }

    /// The bytes that are kept, in memory.
    pub fn memory(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Lost { .. } => 0,
        }
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Content<'static> {
        match self {
            Self::Bytes(bytes) => Content::Bytes(Cow::Owned(bytes.into_owned())),
            Self::Lost { length, reason } => Content::Lost { length, reason },
        }
    }
}

impl<'a> Segment<'a> {
    /// The bytes at a position.
    pub fn new(position: u64, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self {
            position,
            content: Content::Bytes(bytes.into()),
        }
    }

    /// The loss of `length` bytes at a position.
    pub fn lost(position: u64, length: u64, reason: GapReason) -> Self {
        Self {
            position,
            content: Content::Lost { length, reason },
        }
    }

    /// Its bytes, unless they were lost.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Bytes(bytes) => Some(bytes),
            Content::Lost { .. } => None,
        }
    }

    /// The position behind it.
    pub fn end(&self) -> u64 {
        self.position.saturating_add(self.content.length())
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Segment<'static> {
        Segment {
            position: self.position,
            content: self.content.into_owned(),
        }
    }
}

impl<'a> StreamEvent<'a> {
    /// The bytes that are kept, in memory.
    pub fn memory(&self) -> usize {
        match self {
            Self::Segment(segment) => segment.content.memory(),
            Self::Difference { read, written, .. } => read.len() + written.len(),
            Self::End => 0,
        }
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> StreamEvent<'static> {
        match self {
            Self::Segment(segment) => StreamEvent::Segment(segment.into_owned()),
            Self::Difference {
                position,
                length,
                read,
                written,
            } => StreamEvent::Difference {
                position,
                length,
                read: Cow::Owned(read.into_owned()),
                written: Cow::Owned(written.into_owned()),
            },
            Self::End => StreamEvent::End,
        }
    }

    /// The event as an input: in one direction of a session, at a time.
    pub fn into_input(
        self,
        session: &'a SessionId,
        direction: Direction,
        time: Timestamp,
    ) -> Input<'a> {
        let session = Cow::Borrowed(session);
        match self {
            Self::Segment(Segment {
                position,
                content: Content::Bytes(bytes),
            }) => Input::Bytes {
                session,
                direction,
                position,
                time,
                bytes,
            },
            Self::Segment(Segment {
                position,
                content: Content::Lost { length, reason },
            }) => Input::Gap {
                session,
                direction,
                position,
                bytes_lost: length,
                reason,
                time,
            },
            Self::Difference {
                position,
                length,
                read,
                written,
            } => Input::EndsDisagree {
                session,
                direction,
                position,
                bytes: length,
                read,
                written,
                time,
            },
            Self::End => Input::EndOfStream {
                session,
                direction,
                time,
            },
        }
    }
}

impl<'a> From<Segment<'a>> for StreamEvent<'a> {
    fn from(segment: Segment<'a>) -> Self {
        Self::Segment(segment)
    }
}
