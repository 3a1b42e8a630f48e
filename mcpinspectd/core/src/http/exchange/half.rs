//! One half of an exchange: its request, or its response.

use crate::http::body::Body;
use crate::http::head::{Coding, Content};
use crate::http::limits::Limits;
use crate::http::sniff;
use crate::http::sniff::MessageSniffer;
use crate::wire::held::{BufferUsage, Held};

/// One half of an exchange.
#[derive(Default)]
pub(super) struct Half {
    state: State,
    body: Option<Body>,
    /// How far the current message was examined.
    pub(super) sniffer: MessageSniffer,
    /// How long the body is according to its head.
    length: Option<u64>,
    /// Bytes of the body so far, lost ones included; `None` if their number is unknown.
    bytes: Option<u64>,
    /// The type of the body is unknown: its first byte tells.
    unknown: Option<Coding>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Awaited,
    Open,
    Over {
        is_whole: bool,
    },
}

impl Half {
    /// Its head arrived.
    pub(super) fn begin(&mut self, body: Option<Body>, length: Option<u64>) {
        self.state = State::Open;
        self.body = body;
        self.length = length;
        self.bytes = Some(0);
    }

    /// The type of its body is unknown.
    pub(super) fn await_content(&mut self, coding: Coding) {
        self.unknown = Some(coding);
    }

    /// Counts bytes of its body, the first of which is `first`.
    pub(super) fn count(&mut self, bytes: Option<u64>, first: Option<u8>, limits: &Limits) {
        self.bytes = self
            .bytes
            .zip(bytes)
            .map(|(one, other)| one.saturating_add(other));
        if let Some(first) = first
            && let Some(coding) = self.unknown.take()
        {
            // Compressed data does not show its type.
            let content = match coding {
                Coding::Identity => sniff::content(first),
                _ => Content::Other,
            };
            self.body = Body::new(content, coding, limits);
        }
    }

    /// It is over.
    pub(super) fn end(&mut self, is_whole: bool) {
        if !self.is_over() {
            self.state = State::Over { is_whole };
        }
        self.body = None;
    }

    pub(super) fn has_begun(&self) -> bool {
        self.state != State::Awaited
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over { .. })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.state == State::Over { is_whole: true }
    }

    /// Whether its body is not as long as its head says. Some responses have a length and no body.
    pub(super) fn has_wrong_length(&self) -> bool {
        match (self.length, self.bytes) {
            (Some(length), Some(bytes)) => bytes > 0 && bytes != length,
            _ => false,
        }
    }

    /// What unfinished messages occupy.
    pub(super) fn usage(&self) -> BufferUsage {
        self.body
            .as_ref()
            .map_or(BufferUsage::default(), Body::usage)
    }

    /// The current message.
    pub(super) fn held(&self) -> Option<&Held> {
        self.body.as_ref().map(Body::held)
    }

    /// The current message, to move it to a file.
    pub(super) fn held_mut(&mut self) -> Option<&mut Held> {
        self.body.as_mut().map(Body::held_mut)
    }

    /// Whether its body is decompressed.
    pub(super) fn is_compressed(&self) -> bool {
        self.body.as_ref().is_some_and(Body::is_compressed)
    }

    /// Gives up the current message.
    pub(super) fn abandon(&mut self) {
        if let Some(body) = &mut self.body {
            body.abandon();
        }
    }

    pub(super) fn take_body(&mut self) -> Option<Body> {
        self.body.take()
    }

    pub(super) fn put_body(&mut self, body: Body) {
        self.body = Some(body);
    }
}
