//! A body that may carry messages: decompressed, and split into messages.
//!
//! A JSON body is one message; in a body of events, the data of each is one. A body is read from its
//! first byte, before it is clear whether it is MCP at all, so until then it keeps no more than it is asked to
//! (see [`Body::beginning`]).

use super::coding::Decompressor;
use super::head::{Coding, Content};
use super::limits::Limits;
use super::sse::{Events, Item};
use crate::wire::held::{BufferUsage, Held};

/// What comes out of a [`Body`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried<'a> {
    /// A message, or what takes its place.
    Message {
        position: u64,
        bytes: &'a [u8],
        /// The event that carries it.
        event: Option<EventFields<'a>>,
    },
    /// A message was lost.
    Lost {
        position: u64,
        /// Bytes of it that were seen.
        seen: u64,
        /// Bytes of it that were not, if that is known.
        missing: Option<u64>,
        loss: Loss,
    },
}

/// What an event says besides its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventFields<'a> {
    pub(super) name: &'a [u8],
    pub(super) id: Option<&'a [u8]>,
}

/// Why a message is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Bytes of it were not captured.
    Gap,
    /// It exceeds the limit, or took more than there was room for.
    TooLarge,
    /// It ended midway: the connection was interrupted, or one side gave up.
    Unfinished,
    /// Its compression is unknown here, invalid, or makes it too large.
    Compressed,
}

impl Loss {
    /// The word for programs to read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::TooLarge => "too_large",
            Self::Unfinished => "unfinished",
            Self::Compressed => "compressed",
        }
    }
}

/// A body in progress.
pub(super) struct Body {
    coding: Stage,
    kind: Kind,
    /// Where its first byte is.
    start: Option<u64>,
    /// Bytes on the wire so far.
    seen: u64,
    /// Bytes known to be missing; `None` if the number is unknown.
    missing: Option<u64>,
    /// Why no message can come of it any more.
    lost: Option<Loss>,
    max_decompressed: u64,
    /// Bytes that decompression made since the last event.
    decompressed: u64,
}

enum Stage {
    Plain,
    Compressed(Box<Decompressor>),
    /// Compressed, and not decompressed here.
    Opaque,
}

enum Kind {
    Json { buffer: Held, max: usize },
    Events(Box<Events>),
}

impl Body {
    /// A body; `None` if its type can carry no message.
    pub(super) fn new(content: Content, coding: Coding, limits: &Limits) -> Option<Self> {
        let kind = match content {
            Content::Json => Kind::Json {
                buffer: Held::default(),
                max: limits.max_message,
            },
            Content::Events => Kind::Events(Box::new(Events::new(limits.max_message))),
            Content::Other | Content::Unknown => return None,
        };
        let coding = match coding {
            Coding::Identity => Stage::Plain,
            coding => match Decompressor::new(coding) {
                Some(decompressor) => Stage::Compressed(Box::new(decompressor)),
                None => Stage::Opaque,
            },
        };
        let lost = matches!(coding, Stage::Opaque).then_some(Loss::Compressed);
        Some(Self {
            coding,
            kind,
            start: None,
            seen: 0,
            missing: Some(0),
            lost,
            max_decompressed: limits.max_decompressed,
            decompressed: 0,
        })
    }

    /// Whether it is decompressed.
    pub(super) fn is_compressed(&self) -> bool {
        matches!(self.coding, Stage::Compressed(_))
    }

    /// Gives up decompression because too many bodies are being decompressed already.
    pub(super) fn forgo_decompression(&mut self) {
        if self.is_compressed() {
            self.lose(Loss::Compressed);
        }
    }

    /// What unfinished messages occupy.
    pub(super) fn usage(&self) -> BufferUsage {
        self.held().usage() + BufferUsage::memory(self.coding.memory())
    }

    /// The start of the current message, where kept; nothing of one in a file.
    pub(super) fn beginning(&self) -> &[u8] {
        self.held().in_memory()
    }

    /// The current message.
    pub(super) fn held(&self) -> &Held {
        match &self.kind {
            Kind::Json { buffer, .. } => buffer,
            Kind::Events(events) => events.unfinished(),
        }
    }

    /// The current message, to move it to a file.
    pub(super) fn held_mut(&mut self) -> &mut Held {
        match &mut self.kind {
            Kind::Json { buffer, .. } => buffer,
            Kind::Events(events) => events.unfinished_mut(),
        }
    }

    /// Keeps no more of the current message.
    pub(super) fn abandon(&mut self) {
        match &mut self.kind {
            Kind::Json { .. } => self.lose(Loss::TooLarge),
            // The memory is that of the decompressor, which the following events need as well.
            Kind::Events(events) if self.coding.memory() > events.usage().total() => {
                self.lose(Loss::Compressed);
            }
            Kind::Events(events) => events.abandon(),
        }
    }

    /// Takes in the body's next bytes, the first of which is at `position`.
    pub(super) fn push(&mut self, position: u64, bytes: &[u8], emit: &mut dyn FnMut(Carried<'_>)) {
        let start = *self.start.get_or_insert(position);
        self.seen += bytes.len() as u64;
        if self.lost.is_some() {
            return;
        }
        match &mut self.coding {
            Stage::Plain => {
                if let Err(loss) = self.kind.push(position, bytes, emit) {
                    self.lose(loss);
                }
            }
            Stage::Compressed(decompressor) => {
                let (kind, made, max) = (
                    &mut self.kind,
                    &mut self.decompressed,
                    self.max_decompressed,
                );
                let mut loss = Loss::Compressed;
                let result = decompressor.push(bytes, |bytes| {
                    *made += bytes.len() as u64;
                    // A position within a compressed body says nothing, so messages are placed at its start.
                    let mut ended = false;
                    let pushed = kind.push(start, bytes, &mut |carried| {
                        ended = true;
                        emit(carried);
                    });
                    if ended {
                        *made = 0;
                    }
                    if let Err(reason) = pushed {
                        loss = reason;
                    }
                    pushed.is_ok() && *made <= max
                });
                if result.is_err() {
                    self.lose(loss);
                }
            }
            Stage::Opaque => {}
        }
    }

    /// Notes that bytes were lost.
    pub(super) fn hole(&mut self, position: u64, bytes: Option<u64>) {
        self.start.get_or_insert(position);
        self.missing = self.missing.zip(bytes).map(|(one, other)| one + other);
        match (&self.coding, &mut self.kind) {
            (Stage::Plain, Kind::Events(events)) => events.hole(),
            _ => self.lose(Loss::Gap),
        }
    }

    /// Ends the body. `is_whole` says whether all of it was there.
    pub(super) fn finish(&mut self, is_whole: bool, emit: &mut dyn FnMut(Carried<'_>)) {
        let position = self.start.unwrap_or(0);
        let (seen, missing) = (self.seen, self.missing);
        let mut lost = self.lost;
        if let Stage::Compressed(decompressor) = &self.coding
            && !decompressor.is_over()
            && seen > 0
        {
            lost.get_or_insert(Loss::Unfinished);
        }
        if !is_whole {
            lost.get_or_insert(Loss::Unfinished);
        }
        let gap = missing != Some(0);
        match (&mut self.kind, lost) {
            (Kind::Events(events), None) => {
                let mut torn = gap && events.is_within();
                events.finish(&mut |item| {
                    torn = false;
                    emit(carried(item));
                });
                if torn {
                    emit(Carried::Lost {
                        position,
                        seen: 0,
                        missing,
                        loss: Loss::Gap,
                    });
                }
            }
            // A stream of events is cut off when its reader wants no more of it.
            (Kind::Events(events), Some(Loss::Unfinished)) => {
                events.finish(&mut |item| emit(carried(item)));
            }
            (Kind::Json { buffer, .. }, None) => {
                let told = buffer.read(|bytes| {
                    if !bytes.trim_ascii_start().is_empty() {
                        emit(Carried::Message {
                            position,
                            bytes,
                            event: None,
                        });
                    }
                });
                if told.is_err() {
                    emit(Carried::Lost {
                        position,
                        seen,
                        missing,
                        loss: Loss::TooLarge,
                    });
                }
            }
            (_, Some(loss)) => {
                if seen > 0 || gap {
                    emit(Carried::Lost {
                        position,
                        seen,
                        missing,
                        loss,
                    });
                }
            }
        }
        self.release();
    }

    fn lose(&mut self, loss: Loss) {
        self.lost.get_or_insert(loss);
        self.release();
    }

    /// Frees what is kept: nothing more will be read.
    fn release(&mut self) {
        self.coding = match self.coding {
            Stage::Plain => Stage::Plain,
            _ => Stage::Opaque,
        };
        self.kind.release();
    }
}

impl Stage {
    fn memory(&self) -> usize {
        match self {
            Self::Compressed(decompressor) => decompressor.memory(),
            Self::Plain | Self::Opaque => 0,
        }
    }
}

impl Kind {
    fn push(
        &mut self,
        position: u64,
        bytes: &[u8],
        emit: &mut dyn FnMut(Carried<'_>),
    ) -> Result<(), Loss> {
        match self {
            Self::Json { buffer, max } => {
                let fits = buffer.len() + bytes.len() <= *max;
                if !fits || buffer.extend(bytes, *max).is_err() {
                    return Err(Loss::TooLarge);
                }
            }
            Self::Events(events) => events.push(position, bytes, &mut |item| emit(carried(item))),
        }
        Ok(())
    }

    fn release(&mut self) {
        match self {
            Self::Json { buffer, .. } => *buffer = Held::default(),
            Self::Events(events) => **events = Events::new(0),
        }
    }
}

fn carried(item: Item<'_>) -> Carried<'_> {
    let lost = |position, seen, loss| Carried::Lost {
        position,
        seen,
        missing: Some(0),
        loss,
    };
    match item {
        Item::Event {
            position,
            name,
            id,
            data,
        } => Carried::Message {
            position,
            bytes: data.unwrap_or_default(),
            event: Some(EventFields { name, id }),
        },
        Item::Oversize { position, bytes } => lost(position, bytes, Loss::TooLarge),
        Item::Unfinished { position, bytes } => lost(position, bytes, Loss::Unfinished),
    }
}
