//! Where detection is plugged in.
//!
//! The engine knows when something is worth a look (a definition that this session has not shown yet,
//! a message) and what to do with a verdict; what makes a text suspicious is somebody else's business.

use serde_json::value::RawValue;

use crate::event::{Action, Detection, Severity, ToolStatus};
use crate::mcp::Message;
use crate::model::{Direction, ServerId, SessionId, Timestamp};
use crate::registry::DefinitionHash;

/// Where something was seen.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The server.
    pub server_id: &'a ServerId,
    /// The session.
    pub session_id: &'a SessionId,
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

/// What detection thinks of something.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What it found.
    pub detections: Vec<Detection>,
    /// The worst of it.
    pub max_severity: Option<Severity>,
    /// What it asks for, all in all.
    pub action: Action,
}

impl Verdict {
    /// Nothing found.
    pub const CLEAN: Self = Self {
        detections: Vec::new(),
        max_severity: None,
        action: Action::None,
    };
}

/// Looks at what goes by.
pub trait Detector {
    /// Looks at a tool's definition.
    fn tool(&mut self, context: &Context<'_>, tool: &ToolDefinition<'_>) -> Verdict;

    /// Looks at what a server tells the model about itself.
    fn instructions(&mut self, context: &Context<'_>, text: &str, status: ToolStatus) -> Verdict;

    /// Looks at a message.
    fn message(&mut self, context: &Context<'_>, message: &MessageInContext<'_>) -> Verdict;

    /// Forgets what it kept of a session that is over.
    fn session_ended(&mut self, session: &SessionId);
}

/// Finds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDetector;

impl Detector for NoDetector {
    fn tool(&mut self, _: &Context<'_>, _: &ToolDefinition<'_>) -> Verdict {
        Verdict::CLEAN
    }

    fn instructions(&mut self, _: &Context<'_>, _: &str, _: ToolStatus) -> Verdict {
        Verdict::CLEAN
    }

    fn message(&mut self, _: &Context<'_>, _: &MessageInContext<'_>) -> Verdict {
        Verdict::CLEAN
    }

    fn session_ended(&mut self, _: &SessionId) {}
}
