//! A message in its context: everything that a rule can ask about.

use jiff::tz::TimeZone;
use mcpinspect_core::mcp::Outcome;
use mcpinspect_core::mcp::ambiguity::MessagePart;
use mcpinspect_core::model::{Direction, Severity, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Expects an answer.
    Request,
    /// Expects none.
    Notification,
    /// Is an answer.
    Response,
}

impl Kind {
    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Notification => "notification",
            Self::Response => "response",
        }
    }
}

/// How a tool compares with what was accepted, from near to far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// A person approved it in this form.
    Approved,
    /// It was not approved, or is unknown.
    Unapproved,
    /// It is not what was accepted.
    Changed,
}

/// Who talks to whom.
#[derive(Clone, Debug)]
pub struct Parties {
    /// The server's name.
    pub server: String,
    /// The client's name, as it introduced itself.
    pub client: Option<String>,
    /// The user, by name and by number.
    pub user: Vec<String>,
    /// The time zone in which times of day are meant.
    pub zone: TimeZone,
}

impl Parties {
    /// A server by name, with an unknown client and user, in UTC.
    pub fn of(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            client: None,
            user: Vec::new(),
            zone: TimeZone::UTC,
        }
    }
}

/// A finding of detection in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageFinding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is a sign of, such as `exfiltration`.
    pub category: String,
}

/// Why it is uncertain what the receiver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Where readers may disagree. In the envelope: about everything. In the parameters: about the tool and
    /// all values. Inside: about values.
    pub part: MessagePart,
    /// Whether it is nevertheless certain that it is a request, a notification or a response.
    pub is_kind_sure: bool,
    /// The reason, as a word.
    pub reason: &'static str,
}

impl Doubt {
    /// A doubt about the whole message.
    pub const fn total(reason: &'static str) -> Self {
        Self {
            part: MessagePart::Envelope,
            is_kind_sure: false,
            reason,
        }
    }

    /// A doubt about an answer whose request is unknown.
    pub const fn unrelated() -> Self {
        Self {
            part: MessagePart::Envelope,
            is_kind_sure: true,
            reason: "answers_no_request",
        }
    }

    /// Whether it is about the whole message.
    pub fn is_total(&self) -> bool {
        self.part == MessagePart::Envelope
    }
}

/// A message in its context.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// When.
    pub time: Timestamp,
    /// Which way.
    pub direction: Direction,
    /// What it is.
    pub kind: Kind,
    /// Its method, or that of the request that it answers.
    pub method: Option<&'a str>,
    /// The tool that is called, or whose call is answered; in a listing, the tool in question.
    pub tool: Option<&'a str>,
    /// How that tool compares with what was accepted.
    pub tool_status: Option<ToolStatus>,
    /// Its parameters.
    pub params: Option<&'a RawValue>,
    /// Its result or error.
    pub outcome: Option<Outcome<'a>>,
    /// What detection found in it.
    pub findings: &'a [MessageFinding],
    /// Who talks to whom.
    pub parties: &'a Parties,
    /// Why it is uncertain what the receiver reads.
    pub doubt: Option<Doubt>,
}
