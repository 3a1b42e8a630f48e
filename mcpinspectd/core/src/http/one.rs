//! HTTP/1, as an observer reads it (RFC 9112).
//!
//! A [`Side`] reads one direction of a connection: heads, and bodies in the way that their heads frame
//! them. Heads are collected up to their blank line and then read at once; nothing is kept of a body. How
//! long a response is depends on its request, so both sides share the requests that [wait](Waiting).
//!
//! After a loss within a head, or around the size of a chunk, it is unknown where the next message
//! begins. What follows is examined at once: if it begins like a head, reading continues there; if not, it
//! is lost up to the next loss. Either way it is no longer known which response answers which
//! request, and nothing later will tell.

mod chunked;
mod head;
mod waiting;

use self::chunked::Chunks;
use self::head::{HeadStatus, Heading};
pub(super) use self::waiting::Waiting;
use super::anomaly::Anomaly;
use super::head::{Head, Method, Upgrade};
use super::limits::Limits;
use super::part::{Left, Part, Role, Stream};

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Side {
    role: Role,
    limits: Limits,
    state: State,
    /// Where the next byte is.
    next: u64,
    /// Whether a head was read, so that this is HTTP.
    has_begun: bool,
}

#[derive(Debug)]
enum State {
    /// Between two messages, or within a head.
    Head(Heading),
    Body {
        stream: Stream,
        framing: Framing,
    },
    /// After a loss that could not be overcome: where it continues, and how much has passed since.
    Lost {
        position: u64,
        bytes: u64,
    },
    /// Nothing more is read.
    Left,
}

/// How a body ends.
#[derive(Debug)]
enum Framing {
    /// After this many bytes.
    Length(u64),
    Chunked(Chunks),
    /// With the connection.
    Close,
}

/// The bytes that follow are HTTP/2's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switch;

impl Side {
    /// Reads a direction whose next byte, at `position`, begins a head.
    pub(super) fn new(role: Role, position: u64, limits: Limits) -> Self {
        Self {
            role,
            limits,
            state: State::Head(Heading::default()),
            next: position,
            has_begun: false,
        }
    }

    /// Reads a direction whose next byte, at `position`, may belong to anything.
    pub(super) fn joined(role: Role, position: u64, limits: Limits) -> Self {
        Self {
            state: State::Head(Heading::behind_a_loss()),
            has_begun: true,
            ..Self::new(role, position, limits)
        }
    }

    /// Bytes of memory held for a head in progress.
    pub(super) fn memory(&self) -> usize {
        match &self.state {
            State::Head(heading) => heading.memory(),
            State::Body { .. } | State::Lost { .. } | State::Left => 0,
        }
    }

    /// The message whose body is in progress, and how many bytes of it come before anything else.
    pub(super) fn body(&self) -> Option<(Stream, u64)> {
        match &self.state {
            State::Body { stream, framing } => Some((*stream, framing.left().unwrap_or(0))),
            _ => None,
        }
    }

    /// Takes in the next bytes. Returns how many belong to HTTP/1, if HTTP/2 follows.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        waiting: &mut Waiting,
        emit: &mut dyn FnMut(Part<'_>),
    ) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let position = self.next;
            let taken = match &mut self.state {
                State::Head(heading) => {
                    let (taken, found) = heading.push(rest, self.role, &self.limits);
                    self.next += taken as u64;
                    at += taken;
                    if self.found(found, waiting, emit).is_some() {
                        return Some(at);
                    }
                    continue;
                }
                State::Body { stream, framing } => {
                    let stream = *stream;
                    let step = framing.step(rest, &mut |bytes, at| {
                        emit(Part::Body {
                            stream,
                            position: position + at as u64,
                            bytes,
                        });
                    });
                    match step {
                        Ok((taken, is_over)) => {
                            if is_over {
                                self.end(stream, position + taken as u64, true, emit);
                            }
                            taken
                        }
                        Err(at) => {
                            let position = position + at as u64;
                            self.end(stream, position, false, emit);
                            self.doubt(Some(stream), position, Anomaly::MalformedChunk, emit);
                            rest.len()
                        }
                    }
                }
                State::Lost { bytes, .. } => {
                    *bytes += rest.len() as u64;
                    rest.len()
                }
                State::Left => rest.len(),
            };
            self.next += taken as u64;
            at += taken;
        }
        None
    }

    /// Notes that the next bytes were lost: this many, or an unknown number.
    pub(super) fn gap(
        &mut self,
        lost: Option<u64>,
        waiting: &mut Waiting,
        emit: &mut dyn FnMut(Part<'_>),
    ) {
        let position = self.next;
        self.next = position.saturating_add(lost.unwrap_or(0));
        match &mut self.state {
            State::Left => {}
            State::Body { stream, framing } => {
                let stream = *stream;
                let fits = match framing.left() {
                    // It continues after the loss, wherever that is.
                    None => true,
                    Some(left) => lost.is_some_and(|lost| lost <= left && left > 0),
                };
                let hole = if fits { lost } else { None };
                emit(Part::Hole {
                    stream,
                    position,
                    bytes: hole,
                });
                if fits {
                    if framing.skip(lost.unwrap_or(0)) {
                        self.end(stream, self.next, true, emit);
                    }
                } else {
                    self.end(stream, position, false, emit);
                    self.state = State::Head(Heading::behind_a_loss());
                    waiting.lose();
                }
            }
            State::Head(_) | State::Lost { .. } => {
                self.report_loss(lost, emit);
                self.state = State::Head(Heading::behind_a_loss());
                waiting.lose();
            }
        }
    }

    /// Ends the direction.
    pub(super) fn finish(&mut self, emit: &mut dyn FnMut(Part<'_>)) {
        match &self.state {
            State::Body { stream, framing } => {
                let is_whole = matches!(framing, Framing::Close);
                self.end(*stream, self.next, is_whole, emit);
            }
            State::Head(_) | State::Lost { .. } => self.report_loss(Some(0), emit),
            State::Left => {}
        }
        self.state = State::Left;
    }

    /// Leaves the rest of the direction alone.
    fn leave(&mut self, position: u64, reason: Left, emit: &mut dyn FnMut(Part<'_>)) {
        self.state = State::Left;
        emit(Part::Left { position, reason });
    }

    /// Reports bytes that belong to no known message, and `more` that were not seen.
    fn report_loss(&self, more: Option<u64>, emit: &mut dyn FnMut(Part<'_>)) {
        let (position, bytes) = match &self.state {
            State::Head(heading) => {
                let length = heading.length() as u64;
                // What was not captured is already past `next`.
                let end = self.next - more.unwrap_or(0).min(self.next);
                (end.saturating_sub(length), length)
            }
            State::Lost { position, bytes } => (*position, *bytes),
            State::Body { .. } | State::Left => return,
        };
        let bytes = more.map(|more| bytes.saturating_add(more));
        if bytes != Some(0) {
            emit(Part::Lost { position, bytes });
        }
    }

    /// Acts on what became of a head.
    fn found(
        &mut self,
        found: HeadStatus,
        waiting: &mut Waiting,
        emit: &mut dyn FnMut(Part<'_>),
    ) -> Option<Switch> {
        let State::Head(heading) = &self.state else {
            return None;
        };
        let length = heading.length() as u64;
        let position = self.next - length;
        match found {
            HeadStatus::Incomplete => None,
            HeadStatus::NotAHead => {
                self.state = State::Lost {
                    position,
                    bytes: length,
                };
                None
            }
            HeadStatus::Invalid(anomaly) => {
                self.wrong(position, anomaly, emit);
                None
            }
            HeadStatus::Complete => {
                if self.role == Role::Requests && heading.is_preface() {
                    let is_upgrade = waiting
                        .only()
                        .is_some_and(|last| last.upgrade == Upgrade::H2c);
                    if is_upgrade {
                        return Some(Switch);
                    }
                }
                match heading.read(self.role, &self.limits) {
                    Ok(head) => self.head(position, head, waiting, emit),
                    Err(anomaly) => {
                        self.wrong(position, anomaly, emit);
                        None
                    }
                }
            }
        }
    }

    /// Handles a supposed head that is not one, or cannot be trusted.
    fn wrong(&mut self, position: u64, anomaly: Anomaly, emit: &mut dyn FnMut(Part<'_>)) {
        if self.has_begun {
            self.doubt(None, position, anomaly, emit);
        } else {
            self.leave(position, Left::NotHttp, emit);
        }
    }

    /// Takes in a head.
    fn head(
        &mut self,
        position: u64,
        head: Head,
        waiting: &mut Waiting,
        emit: &mut dyn FnMut(Part<'_>),
    ) -> Option<Switch> {
        self.has_begun = true;
        self.state = State::Head(Heading::default());
        let expected = waiting.first();
        let stream = match self.role {
            Role::Requests => match waiting.add(head.method, head.upgrade) {
                Some(stream) => stream,
                None => {
                    self.doubt(None, position, Anomaly::TooManyExchanges, emit);
                    return None;
                }
            },
            Role::Responses => {
                let stream = expected.map_or(0, |expected| expected.stream);
                match head.status {
                    101 => {
                        if expected.is_some_and(|expected| expected.upgrade == Upgrade::H2c) {
                            return Some(Switch);
                        }
                        self.leave(self.next, Left::Upgraded, emit);
                        return None;
                    }
                    100..200 => return None,
                    _ => {}
                }
                if expected.is_none() && !waiting.is_lost() {
                    emit(Part::Anomaly {
                        stream: None,
                        position,
                        anomaly: Anomaly::UnexpectedResponse,
                    });
                }
                waiting.answered();
                stream
            }
        };
        let ambiguity = head.ambiguity;
        let framing = self.framing(&head, expected);
        let is_tunnel = match self.role {
            Role::Requests => head.method == Method::Connect,
            Role::Responses => {
                let is_connect = expected.is_some_and(|last| last.method == Method::Connect);
                is_connect && (200..300).contains(&head.status)
            }
        };
        emit(Part::Head {
            stream,
            position,
            head: Box::new(head),
        });
        if let Some(anomaly) = ambiguity {
            self.end(stream, self.next, false, emit);
            self.doubt(Some(stream), position, anomaly, emit);
        } else if is_tunnel {
            self.leave(self.next, Left::Upgraded, emit);
        } else {
            match framing {
                Some(framing) => self.state = State::Body { stream, framing },
                None => self.end(stream, self.next, true, emit),
            }
        }
        None
    }

    /// How the body after `head` ends; `None` if there is none (RFC 9112, 6.3).
    fn framing(&self, head: &Head, expected: Option<waiting::Expected>) -> Option<Framing> {
        let is_response = self.role == Role::Responses;
        if is_response {
            let to_head = expected.is_some_and(|expected| expected.method == Method::Head);
            if to_head || matches!(head.status, 204 | 304) {
                return None;
            }
        }
        match head.length {
            _ if head.is_chunked => Some(Framing::Chunked(Chunks::default())),
            Some(0) => None,
            Some(length) => Some(Framing::Length(length)),
            None if is_response => Some(Framing::Close),
            None => None,
        }
    }

    fn end(
        &mut self,
        stream: Stream,
        position: u64,
        is_whole: bool,
        emit: &mut dyn FnMut(Part<'_>),
    ) {
        self.state = State::Head(Heading::default());
        emit(Part::End {
            stream,
            position,
            is_whole,
        });
    }

    /// Reports that two readers may disagree about what follows, and leaves it alone.
    fn doubt(
        &mut self,
        stream: Option<Stream>,
        position: u64,
        anomaly: Anomaly,
        emit: &mut dyn FnMut(Part<'_>),
    ) {
        emit(Part::Anomaly {
            stream,
            position,
            anomaly,
        });
        self.leave(position, Left::Ambiguous, emit);
    }
}

impl Framing {
    /// The bytes of the body that come before anything else; `None` if all that follow do.
    fn left(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Chunked(chunks) => Some(chunks.left()),
            Self::Close => None,
        }
    }

    /// Takes in some of the next bytes. Returns how many, and whether the body is over; or how many came before
    /// a wrong one.
    fn step(
        &mut self,
        rest: &[u8],
        data: &mut dyn FnMut(&[u8], usize),
    ) -> Result<(usize, bool), usize> {
        match self {
            Self::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                data(&rest[..taken], 0);
                *left -= taken as u64;
                Ok((taken, *left == 0))
            }
            Self::Chunked(chunks) => chunks.step(rest, data),
            Self::Close => {
                data(rest, 0);
                Ok((rest.len(), false))
            }
        }
    }

    /// Skips lost bytes. Returns whether the body is over.
    fn skip(&mut self, bytes: u64) -> bool {
        match self {
            Self::Length(left) => {
                *left -= bytes.min(*left);
                *left == 0
            }
            Self::Chunked(chunks) => {
                chunks.skip(bytes);
                false
            }
            Self::Close => false,
        }
    }
}
