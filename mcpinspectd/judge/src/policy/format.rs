//! The format of policy files: what a TOML file with rules can express.
//!
//! ```toml
//! [[rule]]
//! id = "read-only"
//! priority = 10
//! when = { method = "tools/call", tool = { in = ["write_file", "edit_file"] } }
//! action = "block"
//! answer = "result"
//! message = "This file system is read-only."
//! ```
//!
//! Unknown keys are mistakes: a condition that is silently ignored makes a rule that says less than its
//! author means.

use std::path::PathBuf;

use mcpinspect_core::model::Severity;
use serde::Deserialize;
use toml::Spanned;

use super::situation::{Kind, ToolStatus};
use super::text::RawText;

/// A policy file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    #[serde(default, rename = "rule")]
    pub(super) rules: Vec<RawRule>,
}

/// A rule as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    /// Its name in records: lower-case letters, digits, hyphens.
    pub(super) id: Spanned<String>,
    /// What it is for, in words.
    pub(super) name: Option<String>,
    /// Rules of higher priority come first; among equals, the order of files and lines decides.
    pub(super) priority: Option<Spanned<i64>>,
    /// The kinds of messages that it concerns.
    pub(super) on: Option<Spanned<Vec<Kind>>>,
    /// The conditions; all of them must hold.
    pub(super) when: Spanned<RawCondition>,
    /// What it does.
    pub(super) action: Spanned<String>,
    /// The answer to the sender.
    pub(super) message: Option<Spanned<String>>,
    /// `error` or `result`.
    pub(super) answer: Option<Spanned<RawAnswer>>,
    /// The code of the error.
    pub(super) code: Option<Spanned<i64>>,
    /// Values to set.
    pub(super) set: Option<Spanned<Vec<RawSet>>>,
    /// Texts to mask.
    pub(super) redact: Option<Spanned<Vec<RawRedact>>>,
    /// How long it waits, such as `500ms`.
    pub(super) delay: Option<Spanned<String>>,
    /// The question to a person.
    pub(super) question: Option<Spanned<String>>,
    /// How long to wait for an answer, such as `60s`.
    pub(super) timeout: Option<Spanned<String>>,
    /// Where copies go.
    pub(super) to: Option<Spanned<RawDestination>>,
    /// Where decisions are posted.
    pub(super) url: Option<Spanned<String>>,
}

/// Where copies go: exactly one of these.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDestination {
    pub(super) file: Option<PathBuf>,
    pub(super) command: Option<Vec<String>>,
}

/// How a blocked call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawAnswer {
    Error,
    Result,
}

/// A value to set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSet {
    pub(super) path: Spanned<String>,
    pub(super) value: toml::Value,
}

/// Texts to mask.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRedact {
    pub(super) path: Spanned<String>,
    pub(super) matches: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) secrets: bool,
    pub(super) with: Option<String>,
}

/// Conditions as written; all of them must hold.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCondition {
    pub(super) from: Option<RawParty>,
    pub(super) method: Option<Spanned<RawText>>,
    pub(super) tool: Option<Spanned<RawText>>,
    pub(super) server: Option<Spanned<RawText>>,
    pub(super) client: Option<Spanned<RawText>>,
    pub(super) user: Option<Spanned<RawText>>,
    pub(super) param: Option<Spanned<RawValueTest>>,
    pub(super) result: Option<Spanned<RawValueTest>>,
    pub(super) error: Option<Spanned<Vec<i64>>>,
    pub(super) is_error: Option<Spanned<bool>>,
    pub(super) finding: Option<Spanned<RawFinding>>,
    pub(super) tool_status: Option<ToolStatus>,
    pub(super) rate: Option<Spanned<RawRate>>,
    pub(super) after: Option<Spanned<RawAfter>>,
    pub(super) time: Option<Spanned<RawTime>>,
    pub(super) all: Option<Spanned<Vec<Self>>>,
    pub(super) any: Option<Spanned<Vec<Self>>>,
    pub(super) not: Option<Box<Spanned<Self>>>,
}

/// Whose message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawParty {
    Client,
    Server,
}

/// A test of a value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawValueTest {
    pub(super) path: Spanned<String>,
    pub(super) equals: Option<toml::Value>,
    #[serde(rename = "in")]
    pub(super) among: Option<Vec<toml::Value>>,
    pub(super) contains: Option<String>,
    pub(super) matches: Option<String>,
    pub(super) exists: Option<bool>,
}

/// A finding of detection.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFinding {
    /// At least this.
    pub(super) severity: Option<Severity>,
    pub(super) category: Option<Spanned<RawText>>,
}

/// More than this many messages in a time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRate {
    pub(super) more_than: usize,
    pub(super) within: Spanned<String>,
}

/// An earlier message of the session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAfter {
    pub(super) when: Spanned<Box<RawCondition>>,
    pub(super) within: Option<Spanned<String>>,
}

/// A time of day.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTime {
    pub(super) from: Option<Spanned<String>>,
    pub(super) to: Option<Spanned<String>>,
    pub(super) days: Option<Spanned<Vec<Day>>>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}
