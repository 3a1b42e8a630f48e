//! Where detection is plugged in.
//!
//! The engine knows when something is worth a look (a definition that this session has not shown yet,
//! a message) and what to do with a verdict; what makes a text suspicious is somebody else's business.

use serde_json::value::RawValue;

use crate::event::{Action, Detection, Severity, ToolStatus};
use crate::mcp::Message;
use crate::model::{Direction, Pid, ServerId, SessionId, Timestamp};
use crate::registry::DefinitionHash;

/// Where something was seen.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The server.
    pub server_id: &'a ServerId,
    /// The session.
    pub session_id: &'a SessionId,
    /// The client's process, where known: sessions of one client share an agent, and what one server
    /// told it may reach another.
    pub client: Option<Pid>,
    /// When.
    pub time: Timestamp,
}

/// A tool's definition, at its first sight in a session.
#[derive(Clone, Copy, Debug)]
pub struct ToolDefinition<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// SHA-256 of its canonical text.
    pub hash: DefinitionHash,
    /// Its text as it was sent.
    pub definition: &'a RawValue,
    /// How it stands to its pin.
    pub status: ToolStatus,
    /// The pinned definition, where this one differs from it.
    pub pinned: Option<&'a RawValue>,
}

/// A message in its session.
#[derive(Clone, Copy, Debug)]
pub struct MessageInContext<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// The message.
    pub message: &'a Message<'a>,
    /// The method of the request that it answers.
    pub reply_to: Option<&'a str>,
    /// The tool that is called, or whose call is answered.
    pub tool: Option<&'a str>,
}

/// Where what was written to a stream is not what was read from it.
#[derive(Clone, Copy, Debug)]
pub struct Difference<'a> {
    /// Which way the stream goes.
    pub direction: Direction,
    /// The first byte that differs.
    pub position: u64,
    /// How many bytes from there may differ.
    pub bytes: u64,
    /// What was read; the beginning of it.
    pub read: &'a [u8],
    /// What was written; the beginning of it.
    pub written: &'a [u8],
}

/// What detection thinks of something.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What it found.
    pub detections: Vec<Detection>,
    /// The worst of it.
    pub max_severity: Option<Severity>,
    /// What it asks for, all in all.
    pub action: Action,
    /// Whether all of it was looked at, and everything that was found is in here. What a person chose
    /// not to see counts as left out.
    pub complete: bool,
}

impl Verdict {
    /// Nothing found.
    pub const CLEAN: Self = Self {
        detections: Vec::new(),
        max_severity: None,
        action: Action::None,
        complete: true,
    };

    /// Not looked at.
    pub const UNSEEN: Self = Self {
        detections: Vec::new(),
        max_severity: None,
        action: Action::None,
        complete: false,
    };

    /// Whether all of it was looked at and nothing found.
    pub fn is_free_of_findings(&self) -> bool {
        self.complete && self.action == Action::None && self.detections.is_empty()
    }
}

/// Looks at what goes by.
pub trait Detector {
    /// Looks at a tool's definition.
    fn tool(&mut self, context: &Context<'_>, tool: &ToolDefinition<'_>) -> Verdict;

    /// Looks at what a server says of itself: its instructions for the model, a JSON string or `null`,
    /// or its name and version, a JSON object.
    fn introduction(
        &mut self,
        context: &Context<'_>,
        said: &RawValue,
        status: ToolStatus,
    ) -> Verdict;

    /// Looks at a message.
    fn message(&mut self, context: &Context<'_>, message: &MessageInContext<'_>) -> Verdict;

    /// Judges that the two ends of a session's stream differ.
    fn ends_disagree(&mut self, context: &Context<'_>, difference: &Difference<'_>) -> Verdict;

    /// Forgets what it kept of a session that is over.
    fn session_ended(&mut self, session: &SessionId);
}

/// Looks at nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDetector;

impl Detector for NoDetector {
    fn tool(&mut self, _: &Context<'_>, _: &ToolDefinition<'_>) -> Verdict {
        Verdict::UNSEEN
    }

    fn introduction(&mut self, _: &Context<'_>, _: &RawValue, _: ToolStatus) -> Verdict {
        Verdict::UNSEEN
    }

    fn message(&mut self, _: &Context<'_>, _: &MessageInContext<'_>) -> Verdict {
        Verdict::UNSEEN
    }

    fn ends_disagree(&mut self, _: &Context<'_>, _: &Difference<'_>) -> Verdict {
        Verdict::UNSEEN
    }

    fn session_ended(&mut self, _: &SessionId) {}
}
