//! Both directions of a session under a policy: a frame goes in, and what becomes of it comes out.
//!
//! Frames are what stands between two newlines. A session remembers which request each answer belongs to,
//! because rules about answers ask for the method; an answer to a request that it does not know could be
//! anything. It does no I/O: a guard writes what it says, and a test of a tape only looks at it.
//!
//! - here: what a session knows
//! - `frame`: what becomes of a frame
//! - `questions`: what a person is asked first

mod frame;
mod judge;
mod questions;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::consent::Consent;
use super::decide::Policy;
use super::memory::Memory;
use super::record::Record;
use super::situation::{Parties, ToolStatus};
use super::standing::{Statuses, tools_in};
use super::waiting::Waiting;
use crate::mcp::json;
use crate::mcp::message::{self, Message, Parsed, Payload};
use crate::model::Direction;

/// What an error without an id answers, by the transport.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answering {
    /// The transport does not tell. If one request waits, it is meant.
    #[default]
    Unknown,
    /// No request.
    Nothing,
    /// The request with this id, as JSON text.
    Request(Box<str>),
}

/// A session under a policy.
#[derive(Debug)]
pub struct Session {
    policy: Arc<Policy>,
    parties: Parties,
    memory: Memory,
    /// Requests without an answer, by [`Direction`].
    waiting: [Waiting; 2],
    statuses: Statuses,
    /// Whether what is kept back happens all the same.
    is_recorded: bool,
    /// Whether a receiver may end a frame at a carriage return.
    ends_at_returns: bool,
    /// What a person said to the questions about the next frame.
    consents: VecDeque<Consent>,
    /// The exchange that the next frame belongs to.
    exchange: u64,
    /// What an error without an id in it would answer.
    answering: Answering,
    /// Whether it is seen from beside, and perhaps not from its beginning.
    is_watched: bool,
}

/// What becomes of a frame.
#[derive(Debug)]
pub struct Handled<'f> {
    /// What is passed on.
    pub forward: Forward<'f>,
    /// Lines for the sender, without newlines.
    pub replies: Vec<String>,
    /// What was decided; nothing where no rule matched.
    pub records: Vec<Record>,
    /// Messages of which a rule wants a copy, by its place in [`Policy::rules`].
    pub copies: Vec<(usize, String)>,
    /// How long it waits before it is passed on.
    pub delay: Duration,
}

/// What is passed on of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forward<'f> {
    /// Every byte.
    AsIs,
    /// Nothing, not even its newline.
    Nothing,
    /// These parts in a row.
    Parts(Vec<Cow<'f, str>>),
}

impl<'f> Handled<'f> {
    fn passing() -> Self {
        Self {
            forward: Forward::AsIs,
            replies: Vec::new(),
            records: Vec::new(),
            copies: Vec::new(),
            delay: Duration::ZERO,
        }
    }
}

impl Session {
    /// A session that begins.
    pub fn new(policy: Arc<Policy>, parties: Parties) -> Self {
        Self {
            policy,
            parties,
            memory: Memory::default(),
            waiting: Default::default(),
            statuses: Statuses::default(),
            is_recorded: false,
            ends_at_returns: true,
            consents: VecDeque::new(),
            exchange: 0,
            answering: Answering::Unknown,
            is_watched: false,
        }
    }

    /// The same, for a session that was recorded: what is kept back was answered all the same.
    #[must_use]
    pub fn recorded(self) -> Self {
        Self {
            is_recorded: true,
            ..self
        }
    }

    /// The same, over HTTP. Frames are bodies and the data of events there, so that a carriage return is
    /// nothing but a blank, and an answer may come again on a stream that is resumed.
    #[must_use]
    pub fn over_http(self) -> Self {
        Self {
            ends_at_returns: false,
            waiting: [Waiting::repeating(), Waiting::repeating()],
            ..self
        }
    }

    /// Says which exchange the next frames belong to. Peers without a session may use the same ids at the
    /// same time: there, each HTTP request with its response is an exchange of its own. 0 is the session.
    pub fn enter(&mut self, exchange: u64) {
        self.exchange = exchange;
    }

    /// Says what an error without an id would answer that stands in the next frames. Servers answer so what
    /// they could not read, and sessions that they have forgotten.
    pub fn answering(&mut self, what: Answering) {
        self.answering = what;
    }

    /// The same, for a session that is seen from beside, as one of many: what is kept back is answered all
    /// the same, and an answer to a request that was not seen is none to worry about.
    #[must_use]
    pub fn watched(self) -> Self {
        Self {
            is_watched: true,
            waiting: [Waiting::of_many(), Waiting::of_many()],
            ..self.recorded()
        }
    }

    /// How many requests of both directions wait for an answer.
    pub fn waiting(&self) -> usize {
        self.waiting.iter().map(Waiting::count).sum()
    }

    /// Notes the server's name, which may become known late.
    pub fn note_server(&mut self, server: &str) {
        if self.parties.server != server {
            server.clone_into(&mut self.parties.server);
        }
    }

    /// Forgets how tools compare with what was accepted of them.
    pub fn forget_statuses(&mut self) {
        self.statuses.clear();
    }

    /// Notes how a tool compares with what was accepted of it. One that was not noted counts as unapproved;
    /// of one that is noted twice, the status counts that is further from approved.
    pub fn note_status(&mut self, tool: &str, status: ToolStatus) {
        self.statuses.note(tool, status);
    }

    /// Says that it could not be found out how tools compare with what was accepted of them, and what they
    /// are taken for.
    pub fn suppose_status(&mut self, status: ToolStatus) {
        self.statuses.suppose(status);
    }

    /// Calls `ask` for each tool whose status counts for this frame: for one that is called with its name,
    /// for those of a listing with their definitions, too. To be called before [`Self::handle`].
    pub fn tools_in(
        &self,
        direction: Direction,
        frame: &[u8],
        ask: &mut dyn FnMut(&str, Option<&RawValue>),
    ) {
        let mut each = |parsed: &Parsed<'_>| {
            let asked = match &parsed.message {
                Message::Response(response) => response.id.as_ref().and_then(|id| {
                    let waiting = &self.waiting[direction.reverse() as usize];
                    waiting.peek(self.exchange, id.0)
                }),
                _ => None,
            };
            let asked = asked.map(|asked| (&*asked.method, asked.tool.as_deref()));
            tools_in(parsed, asked, ask);
        };
        match message::parse(frame) {
            Ok(Payload::Single(parsed)) => each(&parsed),
            Ok(Payload::Batch(_)) => {
                let text = std::str::from_utf8(frame).unwrap_or_default();
                // The text was read as an array.
                let _ = json::elements(text.trim_start_matches('\u{feff}'), |element| {
                    if let Ok(Payload::Single(parsed)) = message::parse(element.get().as_bytes()) {
                        each(&parsed);
                    }
                    true
                });
            }
            Err(_) => {}
        }
    }
}
