//! HTTP/2, as an observer reads it (RFC 9113).
//!
//! A [`Side`] reads one direction as frames: data is passed on as it comes, and blocks of headers
//! are collected until they are complete. Everything else is skipped: an observer need not count what it
//! does not send, and tables change their size within the blocks themselves.
//!
//! A loss within a frame's payload costs that frame. After any other, frames may begin anywhere: what
//! follows is examined at once, and if it looks like a frame, reading continues with it. A missed
//! block leaves the compression table unknown (see [`hpack`]).

mod frame;
mod hpack;

use self::frame::{HEADER, Header, Kind};
use self::hpack::Decoder;
use super::anomaly::Anomaly;
use super::head::{Head, Upgrade};
use super::limits::Limits;
use super::part::{Left, PREFACE, Part, Role, Stream};

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Side {
    role: Role,
    limits: Limits,
    state: State,
    /// Where the next byte is.
    next: u64,
    decoder: Decoder,
    /// The block of headers in progress.
    block: Option<Block>,
}

#[derive(Debug)]
enum State {
    /// Before the first frame: this many bytes of the preface came.
    Preface(usize),
    /// Within a frame's header.
    Header([u8; HEADER], usize),
    /// Within what may be a frame's header: bytes were lost before it.
    Adrift([u8; HEADER], usize),
    Payload(Payload),
    /// After a loss that could not be overcome: this much has passed since.
    Lost(u64),
    /// Nothing more is read.
    Left,
}

/// A frame's payload in progress.
#[derive(Debug)]
struct Payload {
    header: Header,
    /// Bytes that are still to come.
    left: u32,
    /// Bytes of padding at the end; `None` until the byte that says so.
    padding: Option<u32>,
    /// What was collected.
    buffer: Vec<u8>,
    /// Bytes of it were lost, or are too many.
    is_torn: bool,
}

/// A block of headers, which may span frames.
#[derive(Debug)]
struct Block {
    stream: Stream,
    position: u64,
    bytes: Vec<u8>,
    ends_stream: bool,
    /// It is a promise, read only to keep the table up to date.
    is_promise: bool,
    is_torn: bool,
    is_too_large: bool,
}

impl Side {
    /// Reads a direction from its beginning, at `position`. `preface` bytes of the client's preface have
    /// already passed.
    pub(super) fn new(role: Role, position: u64, preface: usize, limits: Limits) -> Self {
        Self {
            role,
            state: match role {
                Role::Requests => State::Preface(preface),
                Role::Responses => State::Header([0; HEADER], 0),
            },
            next: position,
            decoder: Decoder::new(limits.max_fields),
            block: None,
            limits,
        }
    }

    /// Reads a direction whose next byte, at `position`, may belong to anything.
    pub(super) fn joined(role: Role, position: u64, limits: Limits) -> Self {
        Self {
            state: State::Adrift([0; HEADER], 0),
            decoder: Decoder::unknown(limits.max_fields),
            ..Self::new(role, position, 0, limits)
        }
    }

    /// Bytes of memory held for a frame and for heads.
    pub(super) fn memory(&self) -> usize {
        let payload = match &self.state {
            State::Payload(payload) => payload.buffer.capacity(),
            _ => 0,
        };
        let block = self
            .block
            .as_ref()
            .map_or(0, |block| block.bytes.capacity());
        payload + block + self.decoder.memory()
    }

    /// Whether the first bytes of a direction look like a frame.
    pub(super) fn begins(bytes: &[u8], role: Role) -> Option<bool> {
        let header = Header::read(bytes.first_chunk().copied()?);
        Some(header.is_believable(role))
    }

    /// Takes in the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8], emit: &mut dyn FnMut(Part<'_>)) {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let taken = match &mut self.state {
                State::Preface(came) => {
                    let wanted = &PREFACE[*came..];
                    let taken = wanted.len().min(rest.len());
                    let same = rest
                        .iter()
                        .zip(wanted)
                        .take_while(|(one, other)| one == other);
                    let same = same.count();
                    if same < taken {
                        self.next += same as u64;
                        self.doubt(Anomaly::MalformedFrame, emit);
                        return;
                    }
                    *came += taken;
                    if *came == PREFACE.len() {
                        self.state = State::Header([0; HEADER], 0);
                    }
                    taken
                }
                State::Header(header, came) | State::Adrift(header, came) => {
                    let taken = rest.len().min(HEADER - *came);
                    header[*came..*came + taken].copy_from_slice(&rest[..taken]);
                    *came += taken;
                    let (is_whole, header) = (*came == HEADER, *header);
                    self.next += taken as u64;
                    at += taken;
                    if is_whole {
                        self.header(Header::read(header), emit);
                    }
                    continue;
                }
                State::Payload(_) => self.payload(rest, emit),
                State::Lost(bytes) => {
                    *bytes += rest.len() as u64;
                    rest.len()
                }
                State::Left => rest.len(),
            };
            self.next += taken as u64;
            at += taken;
            self.end_of_payload(emit);
        }
    }

    /// Notes that the next bytes were lost: this many, or an unknown number.
    pub(super) fn gap(&mut self, lost: Option<u64>, emit: &mut dyn FnMut(Part<'_>)) {
        let position = self.next;
        self.next = position.saturating_add(lost.unwrap_or(0));
        if let State::Payload(payload) = &mut self.state
            && let Some(lost) = lost.and_then(|lost| u32::try_from(lost).ok())
            && lost <= payload.left
        {
            match payload.header.kind {
                Kind::Data => {
                    let of_data = payload
                        .padding
                        .map(|padding| u64::from(lost.min(payload.left.saturating_sub(padding))));
                    emit(Part::Hole {
                        stream: payload.header.stream,
                        position,
                        bytes: of_data,
                    });
                    // What is left of it may be padding.
                    payload.padding.get_or_insert(payload.left);
                }
                _ => payload.is_torn = true,
            }
            payload.left -= lost;
            self.end_of_payload(emit);
            return;
        }
        let before = match self.state {
            State::Left => return,
            State::Header(_, came) | State::Adrift(_, came) => came as u64,
            State::Lost(bytes) => bytes,
            State::Preface(_) | State::Payload(_) => 0,
        };
        emit(Part::Lost {
            position: position.saturating_sub(before),
            bytes: lost.map(|lost| lost.saturating_add(before)),
        });
        self.block = None;
        self.decoder.forget();
        self.state = State::Adrift([0; HEADER], 0);
    }

    /// Ends the direction.
    pub(super) fn finish(&mut self, emit: &mut dyn FnMut(Part<'_>)) {
        let bytes = match self.state {
            State::Header(_, came) | State::Adrift(_, came) => came as u64,
            State::Lost(bytes) => bytes,
            State::Preface(_) | State::Payload(_) | State::Left => 0,
        };
        if bytes > 0 {
            emit(Part::Lost {
                position: self.next - bytes,
                bytes: Some(bytes),
            });
        }
        self.state = State::Left;
    }

    /// Takes in a frame's header.
    fn header(&mut self, header: Header, emit: &mut dyn FnMut(Part<'_>)) {
        if matches!(self.state, State::Adrift(..)) && !header.is_believable(self.role) {
            self.state = State::Lost(HEADER as u64);
            return;
        }
        if !header.is_valid() {
            self.doubt(Anomaly::MalformedFrame, emit);
            return;
        }
        let goes_on = self.block.as_ref().map(|block| block.stream);
        let is_continuation = header.kind == Kind::Continuation;
        // A continuation of nothing continues a block that was lost, or is an attack.
        if goes_on.is_some_and(|stream| !is_continuation || stream != header.stream) {
            self.doubt(Anomaly::InterruptedHeaders, emit);
            return;
        }
        self.state = State::Payload(Payload {
            header,
            left: header.length,
            padding: (!header.is_padded()).then_some(0),
            buffer: Vec::new(),
            is_torn: false,
        });
        self.end_of_payload(emit);
    }

    /// Takes in some of a frame's payload. Returns how many bytes.
    fn payload(&mut self, rest: &[u8], emit: &mut dyn FnMut(Part<'_>)) -> usize {
        let position = self.next;
        let State::Payload(payload) = &mut self.state else {
            return 0;
        };
        let whole = usize::try_from(payload.left).unwrap_or(usize::MAX);
        match payload.header.kind {
            Kind::Data => {
                let Some(padding) = payload.padding else {
                    let padding = u32::from(rest[0]);
                    payload.left -= 1;
                    payload.padding = Some(padding);
                    if padding > payload.left {
                        self.doubt(Anomaly::MalformedFrame, emit);
                    }
                    return 1;
                };
                let data = payload.left.saturating_sub(padding);
                let wanted = if data > 0 { data } else { payload.left };
                let taken = usize::try_from(wanted)
                    .unwrap_or(usize::MAX)
                    .min(rest.len());
                payload.left -= u32::try_from(taken).unwrap_or(payload.left);
                if data > 0 {
                    emit(Part::Body {
                        stream: payload.header.stream,
                        position,
                        bytes: &rest[..taken],
                    });
                }
                taken
            }
            kind => {
                let taken = whole.min(rest.len());
                payload.left -= u32::try_from(taken).unwrap_or(payload.left);
                if matches!(kind, Kind::Headers | Kind::Push | Kind::Continuation) {
                    // One byte too many shows that it is too large.
                    let room = (self.limits.max_head + 1).saturating_sub(payload.buffer.len());
                    let kept = rest.get(..taken.min(room)).unwrap_or_default();
                    payload.buffer.extend_from_slice(kept);
                }
                taken
            }
        }
    }

    /// Acts on a frame whose payload is complete.
    fn end_of_payload(&mut self, emit: &mut dyn FnMut(Part<'_>)) {
        let State::Payload(payload) = &mut self.state else {
            return;
        };
        if payload.left > 0 {
            return;
        }
        let header = payload.header;
        let (buffer, is_torn) = (std::mem::take(&mut payload.buffer), payload.is_torn);
        self.state = State::Header([0; HEADER], 0);
        match header.kind {
            Kind::Data if header.ends_stream() => emit(Part::End {
                stream: header.stream,
                position: self.next,
                is_whole: true,
            }),
            Kind::Reset => emit(Part::Reset {
                stream: header.stream,
            }),
            Kind::Headers | Kind::Push | Kind::Continuation => {
                self.fragment(header, &buffer, is_torn, emit);
            }
            _ => {}
        }
    }

    /// Takes in a part of a block of headers.
    fn fragment(
        &mut self,
        header: Header,
        payload: &[u8],
        is_torn: bool,
        emit: &mut dyn FnMut(Part<'_>),
    ) {
        let max = self.limits.max_head;
        let is_too_large = payload.len() > max;
        let fragment = if is_torn || is_too_large {
            &[]
        } else {
            match fragment(header, payload) {
                Some(fragment) => fragment,
                None => return self.doubt(Anomaly::MalformedFrame, emit),
            }
        };
        let mut block = self.block.take().unwrap_or_else(|| Block {
            stream: header.stream,
            position: self.next - u64::from(header.length) - HEADER as u64,
            bytes: Vec::new(),
            ends_stream: header.ends_stream(),
            is_promise: header.kind == Kind::Push,
            // Its start was not seen.
            is_torn: header.kind == Kind::Continuation,
            is_too_large: false,
        });
        block.is_torn |= is_torn;
        block.is_too_large |= is_too_large || block.bytes.len() + fragment.len() > max;
        if block.is_too_large {
            block.bytes = Vec::new();
        } else {
            block.bytes.extend_from_slice(fragment);
        }
        if header.ends_headers() {
            self.block(block, emit);
        } else {
            self.block = Some(block);
        }
    }

    /// Takes in a complete block of headers.
    fn block(&mut self, block: Block, emit: &mut dyn FnMut(Part<'_>)) {
        let (stream, position) = (block.stream, block.position);
        let mut anomaly = |anomaly| {
            emit(Part::Anomaly {
                stream: Some(stream),
                position,
                anomaly,
            });
        };
        let mut head = Head::default();
        let is_read = if block.is_torn || block.is_too_large {
            self.decoder.forget();
            if block.is_too_large {
                anomaly(Anomaly::HeadTooLarge);
            }
            false
        } else {
            match self.decoder.read(&block.bytes, &mut head) {
                Ok(has_more) => {
                    if has_more {
                        anomaly(Anomaly::HeadTooLarge);
                    }
                    true
                }
                Err(_) => {
                    anomaly(Anomaly::MalformedCompression);
                    false
                }
            }
        };
        if block.is_promise {
            return;
        }
        if head.is_chunked || head.upgrade != Upgrade::None {
            anomaly(Anomaly::ForbiddenField);
        } else if let Some(ambiguity) = head.ambiguity {
            anomaly(ambiguity);
        }
        if !is_read {
            emit(Part::NoHead { stream, position });
        } else if !(100..200).contains(&head.status) {
            emit(Part::Head {
                stream,
                position,
                head: Box::new(head),
            });
        }
        if block.ends_stream {
            emit(Part::End {
                stream,
                position: self.next,
                is_whole: true,
            });
        }
    }

    /// Reports that it is unknown what follows, and leaves it alone.
    fn doubt(&mut self, anomaly: Anomaly, emit: &mut dyn FnMut(Part<'_>)) {
        emit(Part::Anomaly {
            stream: None,
            position: self.next,
            anomaly,
        });
        self.state = State::Left;
        self.block = None;
        emit(Part::Left {
            position: self.next,
            reason: Left::Ambiguous,
        });
    }
}

/// The part of a block that a frame's payload holds; `None` if its padding is longer than itself.
fn fragment(header: Header, mut payload: &[u8]) -> Option<&[u8]> {
    let mut padding = 0;
    if header.is_padded() {
        let (first, rest) = payload.split_first()?;
        (padding, payload) = (usize::from(*first), rest);
    }
    if header.has_priority() {
        payload = payload.get(5..)?;
    }
    if header.kind == Kind::Push {
        payload = payload.get(4..)?;
    }
    payload.get(..payload.len().checked_sub(padding)?)
}
