//! What a rule does to a message.

use std::path::PathBuf;
use std::time::Duration;

use mcpinspect_core::json_path::Pattern;
use regex::Regex;
use serde_json::Value;

/// What a rule does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Lets it pass; rules of lower priority do not apply.
    Allow,
    /// Answers in the receiver's place, or replaces the answer.
    Block(Answer),
    /// Changes parameters or a result.
    Modify(Vec<Edit>),
    /// Removes tools from a listing.
    Hide,
    /// A person decides.
    Ask(Question),
    /// Delays it.
    Delay(Duration),
    /// Writes a copy of it elsewhere; the message passes.
    Fork(Destination),
    /// Posts the decision to a URL of HTTP; the message passes.
    Webhook(String),
    /// Only records it.
    Log,
    /// Records it where a person sees it.
    Alert,
    /// Has the daemon stop the server's processes, or end them; the message passes.
    Contain(Measure),
}

/// What the daemon does to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Its processes are stopped until a person thaws them.
    Freeze,
    /// Its processes end.
    Kill,
}

/// What a person is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The question, if the rule has one.
    pub text: Option<String>,
    /// How long to wait for an answer. Silence means no.
    pub timeout: Duration,
    /// What the sender gets if the answer is no.
    pub denial: Answer,
}

/// Where copies of messages go, one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To the end of a file.
    File(PathBuf),
    /// To the standard input of a command, which is started with the first copy.
    Command(Vec<String>),
}

/// What the sender of a blocked request gets.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What happened, in words for a person or a model.
    pub message: String,
    /// The code of the error.
    pub code: i64,
    /// Whether a tool call is answered with a result that says it failed, which a model reads,
    /// instead of an error, which the client handles.
    pub as_result: bool,
    /// Whether it simulates a server failure: nothing in the answer names the policy.
    pub is_injected: bool,
}

/// One change of parameters or a result.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Sets a value.
    Set {
        /// Where.
        path: Pattern,
        /// Where to add it if it is missing: an object, and the name of the member.
        parent: Option<(Parent, String)>,
        /// What.
        value: Value,
    },
    /// Masks parts of the strings at a path.
    Redact {
        /// Where.
        path: Pattern,
        /// What to mask; secrets of known forms if `None`.
        matches: Option<Regex>,
        /// The replacement.
        with: String,
    },
}

/// Where a missing member is added.
#[derive(Clone, Debug)]
pub enum Parent {
    /// In the parameters or the result itself.
    Root,
    /// In the objects that a path leads to.
    Below(Pattern),
}

impl Action {
    /// The word for it in rule files and records.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Block(answer) if answer.is_injected => "error",
            Self::Block(_) => "block",
            Self::Modify(_) => "modify",
            Self::Hide => "hide",
            Self::Ask(_) => "ask",
            Self::Delay(_) => "delay",
            Self::Fork(_) => "fork",
            Self::Webhook(_) => "webhook",
            Self::Log => "log",
            Self::Alert => "alert",
            Self::Contain(Measure::Freeze) => "freeze",
            Self::Contain(Measure::Kill) => "kill",
        }
    }

    /// Whether it keeps something from the receiver, so that a message that it might concern cannot
    /// pass without being understood.
    pub fn restrains(&self) -> bool {
        matches!(
            self,
            Self::Block(_) | Self::Ask(_) | Self::Modify(_) | Self::Hide
        )
    }

    /// The paths of its changes.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Pattern> {
        let edits = match self {
            Self::Modify(edits) => edits.as_slice(),
            _ => &[],
        };
        edits.iter().flat_map(|edit| match edit {
            Edit::Set {
                path,
                parent: Some((Parent::Below(parent), _)),
                ..
            } => [Some(path), Some(parent)].into_iter().flatten(),
            Edit::Set { path, .. } | Edit::Redact { path, .. } => {
                [Some(path), None].into_iter().flatten()
            }
        })
    }

    /// Whether no further rule applies.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Allow | Self::Block(_) | Self::Ask(_))
    }
}
