//! The interface between detection and the code that runs it.
//!
//! The engine knows when something needs judging (a definition that is new to this session, a
//! message, a difference between the two ends of a stream) and what to do with the [`Verdict`].
//! It need not know what makes a text suspicious. [`Detector`] is that boundary: the engine
//! depends on detection, never the other way round.

use mcpinspect_core::mcp::Message;
use mcpinspect_core::model::{
    Action, DefinitionHash, Detection, Direction, Pid, ServerId, SessionId, Severity, Timestamp,
    ToolStatus,
};
use serde_json::value::RawValue;

use crate::detect::category::Category;
pub use crate::detect::cross_server::Offer;

/// The session in which something was seen.
#[derive(Clone, Copy, Debug)]
pub struct SessionContext<'a> {
    /// The server.
    pub server_id: &'a ServerId,
    /// The user that it runs as, if known.
    pub user: Option<u32>,
    /// The session.
    pub session_id: &'a SessionId,
    /// The client's process, if known. Sessions of one client share an agent, so what one server
    /// told that agent can reach another server.
    pub client: Option<Pid>,
    /// When it was seen.
    pub time: Timestamp,
}

/// A tool's definition, when a session shows it for the first time.
#[derive(Clone, Copy, Debug)]
pub struct ToolDefinition<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// SHA-256 of its canonical text.
    pub hash: DefinitionHash,
    /// Its text as it was sent.
    pub definition: &'a RawValue,
    /// How it compares with its pin.
    pub status: ToolStatus,
    /// The pinned definition, if this one differs from it.
    pub pinned: Option<&'a RawValue>,
}

/// A message in its session.
#[derive(Clone, Copy, Debug)]
pub struct MessageInContext<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// The message.
    pub message: &'a Message<'a>,
    /// The method of the request that this message answers.
    pub reply_to: Option<&'a str>,
    /// The tool that is called, or whose call is answered.
    pub tool: Option<&'a str>,
}

/// A place where the bytes written to a stream differ from the bytes read from it.
#[derive(Clone, Copy, Debug)]
pub struct Difference<'a> {
    /// The direction of the stream.
    pub direction: Direction,
    /// Position of the first byte that differs.
    pub position: u64,
    /// How many bytes from there may differ.
    pub bytes: u64,
    /// The start of what was read there.
    pub read: &'a [u8],
    /// The start of what was written there.
    pub written: &'a [u8],
}

/// What detection concludes about one definition or message.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The findings.
    pub detections: Vec<Detection>,
    /// The highest severity among the findings.
    pub max_severity: Option<Severity>,
    /// The action that the findings together call for.
    pub action: Action,
    /// Whether everything was examined and every finding is listed. Findings suppressed by a person
    /// count as not listed.
    pub complete: bool,
    /// Whether it may get worse once the rest of the server's listing is known.
    pub undecided: bool,
}

impl Verdict {
    /// Everything was examined and nothing was found.
    pub const CLEAN: Self = Self {
        detections: Vec::new(),
        max_severity: None,
        action: Action::None,
        complete: true,
        undecided: false,
    };

    /// Nothing was examined.
    pub const UNCHECKED: Self = Self {
        detections: Vec::new(),
        max_severity: None,
        action: Action::None,
        complete: false,
        undecided: false,
    };

    /// Bytes of memory it occupies, roughly.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.detections.iter().map(Detection::size).sum::<usize>()
    }

    /// Whether everything was examined and nothing was found.
    pub fn is_free_of_findings(&self) -> bool {
        self.complete && self.action == Action::None && self.detections.is_empty()
    }
}

/// Judges definitions and messages as they arrive.
pub trait Detector {
    /// Takes in a page of a server's listing, before its tools are judged.
    fn offered(&mut self, _: &SessionContext<'_>, _: &Offer<'_>) {}

    /// Judges a tool's definition.
    fn tool(&mut self, context: &SessionContext<'_>, tool: &ToolDefinition<'_>) -> Verdict;

    /// Judges how a server introduces itself: its instructions for the model (a JSON string or
    /// `null`), or its name and version (a JSON object).
    fn introduction(
        &mut self,
        context: &SessionContext<'_>,
        introduction: &RawValue,
        status: ToolStatus,
    ) -> Verdict;

    /// Judges a message.
    fn message(&mut self, context: &SessionContext<'_>, message: &MessageInContext<'_>) -> Verdict;

    /// Judges a difference between the two ends of a stream.
    fn ends_disagree(
        &mut self,
        context: &SessionContext<'_>,
        difference: &Difference<'_>,
    ) -> Verdict;

    /// Judges that the rest of a listing was too much to examine.
    fn overlong_listing(&mut self, _: &SessionContext<'_>) -> Verdict {
        Verdict::UNCHECKED
    }

    /// Judges that the client continued a call (of `tool`, if it is a tool's) with a different
    /// `requestState` than the server had issued.
    fn altered_state(&mut self, _: &SessionContext<'_>, _tool: Option<&str>) -> Verdict {
        Verdict::UNCHECKED
    }

    /// The category of the alert that a definition raises, if no evidence decides it alone. `user` is whose server
    /// offers it.
    fn questionable(
        &mut self,
        _server: &ServerId,
        _user: Option<u32>,
        _definition: &RawValue,
        _time: Timestamp,
    ) -> Option<Category> {
        None
    }

    /// Drops what is kept about a session that has ended.
    fn session_ended(&mut self, session: &SessionId);
}

/// A detector that examines nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDetector;

impl Detector for NoDetector {
    fn tool(&mut self, _: &SessionContext<'_>, _: &ToolDefinition<'_>) -> Verdict {
        Verdict::UNCHECKED
    }

    fn introduction(&mut self, _: &SessionContext<'_>, _: &RawValue, _: ToolStatus) -> Verdict {
        Verdict::UNCHECKED
    }

    fn message(&mut self, _: &SessionContext<'_>, _: &MessageInContext<'_>) -> Verdict {
        Verdict::UNCHECKED
    }

    fn ends_disagree(&mut self, _: &SessionContext<'_>, _: &Difference<'_>) -> Verdict {
        Verdict::UNCHECKED
    }

    fn session_ended(&mut self, _: &SessionId) {}
}
