//! Questions to a person about a message, and answers. An answer counts once, for exactly the message that was
//! shown.

use std::collections::VecDeque;

use super::action::{Action, Question};
use super::decide::Policy;

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The rule that asks, by its index in [`Policy::rules`].
    pub rule: usize,
    /// The server's name.
    pub server: String,
    /// The client's name, as it introduced itself.
    pub client: Option<String>,
    /// The method of the request.
    pub method: String,
    /// The tool being called.
    pub tool: Option<String>,
    /// The start of the parameters, with secrets masked.
    pub params: String,
    /// The message.
    pub(super) text: String,
}

/// What a person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Yes.
    Allowed,
    /// No.
    Denied,
    /// Nothing, in the available time.
    NoAnswer,
    /// There was no one to ask.
    NoOneToAsk,
}

impl Reply {
    /// The word for it in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::NoAnswer => "no_answer",
            Self::NoOneToAsk => "no_one_to_ask",
        }
    }
}

/// A question with its answer.
#[derive(Clone, Debug)]
pub struct Consent {
    asking: Asking,
    reply: Reply,
    passes: bool,
}

impl Asking {
    /// The question with its answer, and whether that lets the message pass.
    pub fn answered(self, reply: Reply, passes: bool) -> Consent {
        Consent {
            asking: self,
            reply,
            passes,
        }
    }

    /// The rule's question, and how long to wait for an answer.
    pub fn question<'p>(&self, policy: &'p Policy) -> Option<&'p Question> {
        match &policy.rules().get(self.rule)?.action {
            Action::Ask(question) => Some(question),
            _ => None,
        }
    }
}

/// The answer to what `rule` asked about a message, and whether it passes.
pub(super) fn take(
    consents: &mut VecDeque<Consent>,
    rule: usize,
    text: &str,
) -> Option<(Reply, bool)> {
    let is_it = |consent: &Consent| consent.asking.rule == rule && consent.asking.text == text;
    let at = consents.iter().position(is_it)?;
    let consent = consents.remove(at)?;
    Some((consent.reply, consent.passes))
}
