//! What a sentence orders and what a tool does, in the same few words.
//!
//! An order and the call that carries it out hardly ever use the same verb: "transfer", "pay", "send a
//! transaction" all end in `send_money`. So verbs are sorted into a handful of acts, and both sides are compared
//! by those. A verb may stand for several: to *invite* someone is to send something, and to create something.

use std::collections::HashMap;
use std::ops::{BitAnd, BitOr};
use std::sync::LazyLock;

use foldhash::fast::FixedState;

use crate::detect::text::names;
use crate::detect::words::WORDS;

/// A set of acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acts(u8);

impl Acts {
    /// No act.
    pub const NONE: Self = Self(0);
    /// Something leaves: a message, money, a file, a permission.
    pub const SEND: Self = Self(1);
    /// Something comes into being.
    pub const CREATE: Self = Self(2);
    /// Something ceases to be.
    pub const DELETE: Self = Self(4);
    /// Something that exists becomes different.
    pub const CHANGE: Self = Self(8);
    /// A program runs.
    pub const RUN: Self = Self(16);
    /// Something is looked at.
    pub const READ: Self = Self(32);

    /// Every act.
    pub const ALL: Self = Self(63);
    /// The acts that have an effect outside the conversation and are not everyday work on a computer: an
    /// honest document tells its reader to run commands on every page.
    pub const EFFECT: Self = Self(1 | 2 | 4 | 8);

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether there is one that is also among `other`.
    pub fn meets(self, other: Self) -> bool {
        !(self & other).is_empty()
    }

    /// The acts that a verb stands for, in lower case.
    pub fn of_verb(verb: &str) -> Self {
        // Every word of every result is looked up.
        static ACTS: LazyLock<HashMap<&str, Acts, FixedState>> = LazyLock::new(|| {
            let mut all: HashMap<&str, Acts, FixedState> = HashMap::default();
            let verbs = &WORDS.acts;
            for (act, verbs) in [
                (Acts::SEND, &verbs.send),
                (Acts::CREATE, &verbs.create),
                (Acts::DELETE, &verbs.delete),
                (Acts::CHANGE, &verbs.change),
                (Acts::RUN, &verbs.run),
                (Acts::READ, &verbs.read),
            ] {
                for verb in verbs {
                    let known = all.entry(verb).or_default();
                    *known = *known | act;
                }
            }
            all
        });
        ACTS.get(verb).copied().unwrap_or_default()
    }
}

impl Acts {
    /// The acts of a deed that is made, written or placed: to make a payment is to send something.
    pub fn of_deed(noun: &str) -> Self {
        match WORDS.orders.deeds.contains(noun) {
            true => Self::SEND,
            false => Self::NONE,
        }
    }
}

impl BitOr for Acts {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Acts {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// More bytes than any verb has: a longer word need not be lower-cased.
pub(super) const VERB: usize = 64;

/// What a tool does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAct {
    /// What it does.
    pub acts: Acts,
    /// The words of its name that are not verbs, in the singular: what it acts on.
    pub things: Vec<String>,
}

impl ToolAct {
    /// What a tool does, by its name; by the first word of its description if the name has no verb.
    pub fn of(name: &str, description: Option<&str>) -> Self {
        let words = names::words(name);
        let is_verb = |word: &&String| !Acts::of_verb(word).is_empty();
        let nouns = &WORDS.tool_names.verbs_as_nouns;
        let certain = words
            .iter()
            .position(|word| is_verb(&word) && !nouns.contains(word.as_str()));
        let verb = certain.or_else(|| words.iter().position(|word| is_verb(&word)));
        let acts = match verb {
            Some(at) => Acts::of_verb(&words[at]),
            None => description
                .and_then(|text| text.split_whitespace().next())
                .filter(|word| word.len() <= VERB)
                .map(|word| Acts::of_verb(third_person(&word.to_lowercase())))
                .unwrap_or_default(),
        };
        let things = words.iter().enumerate();
        let things = things.filter(|(at, word)| Some(*at) != verb && word.len() > 2);
        Self {
            acts,
            things: things.map(|(_, word)| singular(word).to_owned()).collect(),
        }
    }

    /// Whether calls of it have an effect that an order in a text could be after.
    pub fn has_effect(&self) -> bool {
        self.acts.meets(Acts::EFFECT)
    }

    /// Whether it makes or changes something on the user's own computer, or runs a program there.
    pub fn is_local_work(&self) -> bool {
        let destroys_or_sends = self.acts.meets(Acts::SEND | Acts::DELETE);
        !destroys_or_sends
            && self
                .things
                .iter()
                .any(|thing| WORDS.tool_names.local_things.contains(thing.as_str()))
    }
}

/// A verb without its third-person ending: "sends" to "send".
fn third_person(word: &str) -> &str {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    word.strip_suffix('s').unwrap_or(word)
}

/// A noun without its plural ending.
pub(super) fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_and_a_tool_meet_in_an_act() {
        let tool = ToolAct::of("send_money", None);
        assert!(Acts::of_verb("transfer").meets(tool.acts));
        assert_eq!(tool.things, ["money"]);
        let tool = ToolAct::of("updatePassword", None);
        assert!(Acts::of_verb("change").meets(tool.acts));
        assert!(
            ToolAct::of("gmail-send-emails", None)
                .acts
                .meets(Acts::SEND)
        );
        assert!(ToolAct::of("payments", Some("Sends a payment.")).has_effect());
        assert!(!ToolAct::of("get_emails", None).has_effect());
        assert!(!ToolAct::of("frobnicate", None).has_effect());
    }

    #[test]
    fn what_documentation_tells_to_do_is_local_work() {
        for tool in [
            "write_file",
            "edit_file",
            "create_directory",
            "run_command",
            "append_to_file",
        ] {
            let act = ToolAct::of(tool, None);
            assert!(act.is_local_work() || !act.has_effect(), "{tool}");
        }
        for tool in [
            "delete_file",
            "share_file",
            "send_email",
            "create_calendar_event",
        ] {
            assert!(!ToolAct::of(tool, None).is_local_work(), "{tool}");
        }
    }
}
