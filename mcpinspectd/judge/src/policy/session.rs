//! Both directions of a session under a policy: a frame goes in, and what becomes of it comes out.
//!
//! A frame is what is between two newlines. A session remembers which request each answer belongs to,
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

use mcpinspect_core::mcp::json;
use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::{Message, Parsed, Payload};
use mcpinspect_core::model::Direction;
use serde_json::value::RawValue;

use super::consent::Consent;
use super::decide::Policy;
use super::memory::Memory;
use super::pending_requests::PendingRequests;
use super::record::Record;
use super::situation::{Parties, ToolStatus};
use super::standing::{Statuses, tools_in};

/// What an error without an id answers, according to the transport.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answering {
    /// The transport does not tell. If exactly one request waits, it is meant.
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
    pending: [PendingRequests; 2],
    statuses: Statuses,
    /// Whether what is kept back happens anyway.
    is_recorded: bool,
    /// Whether a receiver may end a frame at a carriage return.
    ends_at_returns: bool,
    /// What a person said to the questions about the next frame.
    consents: VecDeque<Consent>,
    /// The exchange that the next frame belongs to.
    exchange: u64,
    /// What an error without an id would answer.
    answering: Answering,
    /// Whether it is only observed, and perhaps not from its beginning.
    is_watched: bool,
}

/// What becomes of a frame.
#[derive(Debug)]
pub struct Handled<'f> {
    /// What is passed on.
    pub forward: Forward<'f>,
    /// Lines for the sender, without newlines.
    pub replies: Vec<String>,
    /// What was decided; empty if no rule matched.
    pub records: Vec<Record>,
    /// Messages that a rule wants a copy of, by its index in [`Policy::rules`].
    pub copies: Vec<(usize, String)>,
    /// How long to wait before passing it on.
    pub delay: Duration,
}

/// What is passed on of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forward<'f> {
    /// Every byte.
    AsIs,
    /// Nothing, not even its newline.
    Nothing,
    /// These consecutive parts.
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
    /// A new session.
    pub fn new(policy: Arc<Policy>, parties: Parties) -> Self {
        Self {
            policy,
            parties,
            memory: Memory::default(),
            pending: Default::default(),
            statuses: Statuses::default(),
            is_recorded: false,
            ends_at_returns: true,
            consents: VecDeque::new(),
            exchange: 0,
            answering: Answering::Unknown,
            is_watched: false,
        }
    }

    /// The same, for a recorded session: what is kept back was answered anyway.
    #[must_use]
    pub fn recorded(self) -> Self {
        Self {
            is_recorded: true,
            ..self
        }
    }

    /// The same, over HTTP. Frames are bodies and the data of events there, so that a carriage return is
    /// just a blank, and an answer may come again on a resumed stream.
    #[must_use]
    pub fn over_http(self) -> Self {
        Self {
            ends_at_returns: false,
            pending: [PendingRequests::repeating(), PendingRequests::repeating()],
            ..self
        }
    }

    /// Sets which exchange the next frames belong to. Peers without a session may use the same ids at the
    /// same time: there, each HTTP request with its response is an exchange of its own. 0 is the session.
    pub fn enter(&mut self, exchange: u64) {
        self.exchange = exchange;
    }

    /// Sets what an error without an id in the next frames would answer. Servers send those in answer to what
    /// they could not read, and to sessions that they have forgotten.
    pub fn answering(&mut self, what: Answering) {
        self.answering = what;
    }

    /// The same, for one of many sessions that are only observed: what is kept back is answered
    /// anyway, and an answer to an unseen request is nothing to worry about.
    #[must_use]
    pub fn watched(self) -> Self {
        Self {
            is_watched: true,
            pending: [PendingRequests::of_many(), PendingRequests::of_many()],
            ..self.recorded()
        }
    }

    /// How many requests of both directions wait for an answer.
    pub fn waiting(&self) -> usize {
        self.pending.iter().map(PendingRequests::count).sum()
    }

    /// Sets the server's name, which may become known late.
    pub fn note_server(&mut self, server: &str) {
        if self.parties.server != server {
            server.clone_into(&mut self.parties.server);
        }
    }

    /// Forgets how tools compare with what was accepted.
    pub fn forget_statuses(&mut self) {
        self.statuses.clear();
    }

    /// Notes how a tool compares with what was accepted. One that was not noted counts as unapproved;
    /// if one is noted twice, the status further from approved counts.
    pub fn note_status(&mut self, tool: &str, status: ToolStatus) {
        self.statuses.note(tool, status);
    }

    /// Says that it could not be determined how tools compare with what was accepted, and what to
    /// assume instead.
    pub fn suppose_status(&mut self, status: ToolStatus) {
        self.statuses.suppose(status);
    }

    /// Calls `ask` for each tool whose status matters for this frame: for a called one with its name,
    /// for those of a listing also with their definitions. Call this before [`Self::handle`].
    pub fn tools_in(
        &self,
        direction: Direction,
        frame: &[u8],
        ask: &mut dyn FnMut(&str, Option<&RawValue>),
    ) {
        let mut each = |parsed: &Parsed<'_>| {
            let target = match &parsed.message {
                Message::Response(response) => response.id.as_ref().and_then(|id| {
                    let pending = &self.pending[direction.reverse() as usize];
                    pending.peek(self.exchange, id.0)
                }),
                _ => None,
            };
            let target = target.map(|target| (&*target.method, target.tool.as_deref()));
            tools_in(parsed, target, ask);
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
