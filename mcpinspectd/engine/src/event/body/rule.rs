//! Rules of the policy, as they matched messages that the daemon saw.

use mcpinspect_core::model::{Direction, Severity};
use mcpinspect_core::text::escape::printable;
use serde::Serialize;

use crate::event::vocabulary::{Describe, Details, MAX_NAME, Sentence, name};

/// A rule that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatchedRule {
    /// Its id.
    pub id: String,
    /// What it is for, in its author's words.
    pub name: Option<String>,
    /// What it does.
    pub action: &'static str,
}

/// A rule of the policy matched a message. The daemon stands beside the wire, so the message arrived all the
/// same; a guard would have kept it back, changed it or let it wait, as `decision` says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleMatched {
    /// Which way the message went.
    pub direction: Direction,
    /// `request`, `notification` or `response`; `null` where it cannot be read.
    pub kind: Option<&'static str>,
    /// Its method, or that of the request that it answers.
    pub method: Option<String>,
    /// The tool that is called, or whose call is answered.
    pub tool_name: Option<String>,
    /// Its number among the session's messages of both directions, from 1.
    pub message: u64,
    /// What the rules come to: what weighs most.
    pub decision: &'static str,
    /// Whether that was done. The daemon logs, alerts, freezes and kills; all else only a guard can do.
    pub enforced: bool,
    /// The rules that matched, in the order in which they were asked.
    pub rules: Vec<MatchedRule>,
    /// Why the message cannot be read with certainty, where a guard would have refused it for that.
    pub reason: Option<&'static str>,
    /// Tools that would have been taken out of a listing.
    pub hidden: Vec<String>,
}

impl RuleMatched {
    /// Bytes of memory that its texts take, roughly.
    pub(super) fn size(&self) -> usize {
        let rule = |rule: &MatchedRule| {
            size_of::<MatchedRule>() + rule.id.len() + rule.name.as_ref().map_or(0, String::len)
        };
        let hidden = self
            .hidden
            .iter()
            .map(|tool| size_of::<String>() + tool.len());
        self.rules.iter().map(rule).sum::<usize>() + hidden.sum::<usize>()
    }

    /// Whether one of the rules does this.
    pub fn asks_for(&self, action: &str) -> bool {
        self.rules.iter().any(|rule| rule.action == action)
    }

    /// The ids of the rules.
    pub fn ids(&self) -> String {
        let ids: Vec<&str> = self.rules.iter().map(|rule| rule.id.as_str()).collect();
        ids.join(" ")
    }

    /// What was done with the message, or would have been.
    fn verb(&self) -> &'static str {
        match self.decision {
            "block" => "would have blocked",
            "error" => "would have answered with an error",
            "refuse" => "would have refused",
            "modify" => "would have changed",
            "hide" => "would have hidden tools in",
            "ask" => "would have asked about",
            "delay" => "would have delayed",
            "fork" => "would have copied",
            "webhook" => "would have posted its decision on",
            "freeze" => "freezes the server after",
            "kill" => "kills the server after",
            "alert" => "alerts to",
            _ => "notes",
        }
    }
}

impl Describe for RuleMatched {
    fn severity(&self) -> Option<Severity> {
        let is_grave = ["alert", "freeze", "kill"];
        Some(match self.decision {
            _ if is_grave.iter().any(|action| self.asks_for(action)) => Severity::High,
            // Whoever tries a policy asked for events, and not to be disturbed by them.
            "log" => return None,
            _ => Severity::Low,
        })
    }

    fn title(&self, server: &str) -> String {
        let verb = self.verb();
        let method = self.method.as_deref().unwrap_or("message");
        let method = printable(method, MAX_NAME);
        let way = match self.direction {
            Direction::ClientToServer => "to",
            Direction::ServerToClient => "of",
        };
        let kind = self.kind.unwrap_or("message");
        match (&self.tool_name, self.kind) {
            (Some(tool), Some("request")) => {
                format!("Policy {verb} a call of {} {way} {server}", name(tool))
            }
            (Some(tool), _) => format!("Policy {verb} a result of {} {way} {server}", name(tool)),
            (None, _) => format!("Policy {verb} a {method} {kind} {way} {server}"),
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        sentence.add(format!("rules {}", self.ids()));
        for purpose in self.rules.iter().filter_map(|rule| rule.name.as_deref()) {
            sentence.add(purpose);
        }
        if let Some(reason) = self.reason {
            sentence.add(format!("it can be read in two ways ({reason})"));
        }
        if !self.hidden.is_empty() {
            let hidden: Vec<String> = self.hidden.iter().map(|tool| name(tool)).collect();
            sentence.add(format!("hidden: {}", hidden.join(", ")));
        }
        sentence.add(format!(
            "{}, message {}",
            self.direction.as_str(),
            self.message
        ));
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_RULES", &self.ids());
        details.add("MCPINSPECT_DECISION", self.decision);
        details.add("MCPINSPECT_DIRECTION", self.direction.as_str());
        details.add_some("MCPINSPECT_METHOD", self.method.as_deref());
        details.add_some("MCPINSPECT_TOOL", self.tool_name.as_deref());
        details.add_some("MCPINSPECT_REASON", self.reason);
    }
}
