//! One open exchange, and what is reported about it.

use super::half::Half;
use crate::http::agreement;
use crate::http::body::{Body, Carried, Loss};
use crate::http::event::{Carrier, Event, Exchange, Message, Opened, ResponseHead};
use crate::http::head::{Content, McpFields, Method, Target, TargetKey};
use crate::http::sniff::{MessageSniffer, Verdict};
use crate::model::Direction;

/// Losses that wait for the verdict about an exchange.
const LOSSES: usize = 4;

/// Takes events.
pub(super) type Emit<'a> = dyn FnMut(Event<'_>) + 'a;

/// An open exchange.
pub(super) struct Open {
    /// `None` if its request was not seen.
    pub(super) number: Option<Exchange>,
    pub(super) verdict: Verdict,
    pub(super) request: Half,
    pub(super) response: Half,
    /// What to report first, once it is decided.
    pub(super) opening: Option<Box<Opening>>,
    pub(super) answer: Option<Box<Answer>>,
    /// What was lost before that.
    losses: Vec<Lost>,
    /// What the request's head says about its message.
    pub(super) fields: McpFields,
    pub(super) target: Option<TargetKey>,
    /// Bytes may have been lost in it, perhaps including its end.
    pub(super) is_stale: bool,
}

pub(super) struct Opening {
    pub(super) position: u64,
    pub(super) method: Method,
    pub(super) target: Target,
}

pub(super) struct Answer {
    pub(super) position: u64,
    pub(super) status: u16,
    pub(super) content: Content,
    pub(super) fields: McpFields,
}

struct Lost {
    direction: Direction,
    position: u64,
    seen: u64,
    missing: Option<u64>,
    loss: Loss,
}

impl Open {
    pub(super) fn new(number: Option<Exchange>, verdict: Verdict) -> Self {
        Self {
            number,
            verdict,
            request: Half::default(),
            response: Half::default(),
            opening: None,
            answer: None,
            losses: Vec::new(),
            fields: McpFields::default(),
            target: None,
            is_stale: false,
        }
    }

    pub(super) fn half(&self, direction: Direction) -> &Half {
        match direction {
            Direction::ClientToServer => &self.request,
            Direction::ServerToClient => &self.response,
        }
    }

    pub(super) fn half_mut(&mut self, direction: Direction) -> &mut Half {
        match direction {
            Direction::ClientToServer => &mut self.request,
            Direction::ServerToClient => &mut self.response,
        }
    }

    /// Reports what waited for the verdict.
    pub(super) fn tell(&mut self, emit: &mut Emit<'_>) {
        if let (Some(opening), Some(exchange)) = (self.opening.take(), self.number) {
            emit(Event::Opened(Opened {
                exchange,
                position: opening.position,
                method: opening.method,
                target: &opening.target,
                fields: &self.fields,
            }));
        }
        for lost in std::mem::take(&mut self.losses) {
            emit(Event::Lost {
                exchange: self.number,
                direction: lost.direction,
                position: lost.position,
                seen: lost.seen,
                missing: lost.missing,
                loss: lost.loss,
            });
        }
        if let Some(answer) = self.answer.take() {
            emit(Event::Answered(ResponseHead {
                exchange: self.number,
                position: answer.position,
                status: answer.status,
                content: answer.content,
                fields: &answer.fields,
            }));
        }
    }

    /// Lets a body take something in, judges the exchange by it, and passes on the result.
    pub(super) fn act(
        &mut self,
        direction: Direction,
        is_known: bool,
        max: usize,
        emit: &mut Emit<'_>,
        act: impl FnOnce(&mut Body, &mut dyn FnMut(Carried<'_>)),
    ) {
        let half = self.half_mut(direction);
        let Some(mut body) = half.take_body() else {
            return;
        };
        let mut sniffer = half.sniffer;
        let judged = |sniffer: &mut MessageSniffer, text: &[u8], is_whole| match sniffer
            .sniff(text, is_whole, max)
        {
            // At an address where there was MCP, nothing has to be proved.
            Verdict::Other if is_known && text.trim_ascii_start().starts_with(b"{") => Verdict::Mcp,
            verdict => verdict,
        };
        act(&mut body, &mut |carried| {
            if self.verdict == Verdict::Undecided
                && let Carried::Message { bytes, event, .. } = &carried
                && !bytes.is_empty()
            {
                let is_endpoint = event.is_some_and(|event| event.name == b"endpoint");
                self.verdict = if is_endpoint {
                    Verdict::Mcp
                } else {
                    judged(&mut sniffer, bytes, true)
                };
                sniffer = MessageSniffer::default();
            }
            match carried {
                _ if self.verdict == Verdict::Mcp => {
                    self.tell(emit);
                    self.carry(direction, carried, emit);
                }
                Carried::Lost {
                    position,
                    seen,
                    missing,
                    loss,
                } if self.verdict == Verdict::Undecided && self.losses.len() < LOSSES => {
                    self.losses.push(Lost {
                        direction,
                        position,
                        seen,
                        missing,
                        loss,
                    });
                }
                _ => {}
            }
        });
        if self.verdict == Verdict::Undecided {
            self.verdict = judged(&mut sniffer, body.beginning(), false);
        }
        let half = self.half_mut(direction);
        half.sniffer = sniffer;
        half.put_body(body);
    }

    /// Reports what a body carries.
    fn carry(&self, direction: Direction, carried: Carried<'_>, emit: &mut Emit<'_>) {
        let exchange = self.number;
        match carried {
            Carried::Lost {
                position,
                seen,
                missing,
                loss,
            } => emit(Event::Lost {
                exchange,
                direction,
                position,
                seen,
                missing,
                loss,
            }),
            Carried::Message {
                position,
                bytes,
                event: Some(event),
            } if event.name == b"endpoint" => emit(Event::Endpoint {
                exchange,
                position,
                target: &Target::of(bytes),
            }),
            // A stream may begin with just an id, from which it can be resumed.
            Carried::Message { bytes, .. } if bytes.trim_ascii().is_empty() => {}
            Carried::Message {
                position,
                bytes,
                event,
            } => {
                let carrier = match (event, direction) {
                    (Some(event), _) => Carrier::Event { id: event.id },
                    (None, Direction::ClientToServer) => Carrier::Request,
                    (None, Direction::ServerToClient) => Carrier::Response,
                };
                emit(Event::Message(Message {
                    exchange,
                    direction,
                    position,
                    carrier,
                    bytes,
                }));
                if direction == Direction::ClientToServer {
                    agreement::compare(&self.fields, bytes, &mut |field, head, message| {
                        emit(Event::Disagreement {
                            exchange,
                            position,
                            field,
                            head,
                            message,
                        });
                    });
                }
            }
        }
    }
}
