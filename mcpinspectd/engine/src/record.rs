//! What the engine says, in a form that can be kept.

use mcpinspect_core::session::Exchange;

use super::output::{FrameInfo, Head, MessageSeen, Overdue, SessionInfo};
use crate::event::Event;

/// Anything that the engine says, borrowing nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A message, or a member of a batch.
    Message(MessageRecord),
    /// A request that waited too long.
    Overdue(Overdue),
    /// An event.
    Event(Box<Event>),
}

impl Record {
    /// Bytes of memory it occupies, roughly.
    pub fn size(&self) -> usize {
        match self {
            Self::Message(message) => {
                size_of::<Self>() + message.body.as_ref().map_or(0, |body| body.len())
            }
            Self::Overdue(_) => size_of::<Self>(),
            Self::Event(event) => size_of::<Self>() + event.body.size(),
        }
    }
}

/// Most bytes of a message to copy. Anything larger would cost its size once more.
pub const MAX_BODY: usize = 16 << 20;

/// A message as it was seen, borrowing nothing: for a store or a later reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// The session it belongs to.
    pub session: SessionInfo,
    /// The frame it came in; for a member, its batch's.
    pub frame: FrameInfo,
    /// Bytes between two newlines. `None` for a member of a batch: the record of the batch, which comes
    /// before those of its members, has the bytes of all.
    pub bytes: Option<u64>,
    /// The exact bytes. `None` for a member of a batch, and if they exceed [`MAX_BODY`].
    pub body: Option<Box<[u8]>>,
    /// What it says of itself.
    pub head: Head<'static>,
    /// The exchange that it belongs to.
    pub exchange: Exchange,
}

impl MessageRecord {
    /// The record of a message that was seen.
    pub fn message(seen: &MessageSeen<'_>) -> Self {
        Self {
            bytes: Some(seen.bytes.len() as u64),
            body: (seen.bytes.len() <= MAX_BODY).then(|| seen.bytes.into()),
            ..Self::member(seen)
        }
    }

    /// The record of a batch's member.
    pub fn member(seen: &MessageSeen<'_>) -> Self {
        Self {
            session: seen.session.clone(),
            frame: seen.frame,
            bytes: None,
            body: None,
            head: seen.head.clone().into_owned(),
            exchange: seen.exchange.clone(),
        }
    }

    /// Its method, or that of the request that it answers.
    pub fn method(&self) -> Option<&str> {
        self.head.method.as_deref().or(self.exchange.reply_to())
    }
}
