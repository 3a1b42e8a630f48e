//! A decision as a line of JSON: what was decided about which message, by which rules, with the message
//! before and after. Texts are bounded, and secrets in them masked.

use mcpinspect_core::mcp::json::cut;
use mcpinspect_core::model::{Direction, Timestamp};
use mcpinspect_core::text::redact;
use serde::Serialize;

use super::decide::{Policy, Rule};
use super::situation::{Kind, Parties};

/// Bytes of a message to show.
const SHOWN: usize = 2048;
/// Bytes of a message to search for secrets. A secret that is cut off at the end of this is far beyond
/// what is shown.
const SEARCHED: usize = 4 * SHOWN;

/// What was decided about a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// `mcp_guard`.
    #[serde(rename = "type")]
    pub kind_of_record: &'static str,
    /// When.
    pub timestamp: Timestamp,
    /// The server's name.
    pub server_id: String,
    /// The client's name, as it introduced itself.
    pub client: Option<String>,
    /// Which way the message went.
    pub direction: Direction,
    /// What it is; absent if it cannot be read.
    pub kind: Option<Kind>,
    /// Its method, or that of the request that it answers.
    pub method: Option<String>,
    /// The tool that is called, or whose call is answered.
    pub tool: Option<String>,
    /// Its id, as JSON text.
    pub id: Option<String>,
    /// What became of it: `allow`, `block`, `error`, `modify`, `hide`, `delay`, `fork`, `webhook`, `alert`, `log`
    /// or `refuse`, whichever weighs most; `ask` if no one could be asked because it was only observed.
    pub action: &'static str,
    /// The rules that say so, in the order in which they were evaluated.
    pub rules: Vec<RuleName>,
    /// Why the message cannot be read with certainty, if it was refused for that; `status_unknown` if
    /// a rule asked for a tool's status, and it was unknown.
    pub reason: Option<&'static str>,
    /// The answer of the person asked: `allowed`, `denied`, `no_answer`, or `no_one_to_ask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<&'static str>,
    /// Tools that were removed from a listing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// The start of the message as it came.
    pub before: String,
    /// The start of what was passed on instead; absent if nothing was, or nothing changed.
    pub after: Option<String>,
}

/// A rule in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleName {
    /// Its id.
    pub id: String,
    /// What it is for.
    pub name: Option<String>,
    /// What it does.
    pub action: &'static str,
}

impl RuleName {
    pub(super) fn of(rule: &Rule) -> Self {
        Self {
            id: rule.id.clone(),
            name: rule.name.clone(),
            action: rule.action.as_str(),
        }
    }
}

/// What a record says about a message besides its decision.
pub(super) struct Subject<'a> {
    pub(super) time: Timestamp,
    pub(super) direction: Direction,
    pub(super) parties: &'a Parties,
    pub(super) kind: Option<Kind>,
    pub(super) method: Option<&'a str>,
    pub(super) tool: Option<&'a str>,
    pub(super) id: Option<&'a str>,
    pub(super) text: &'a [u8],
}

impl Record {
    /// A record of `action` by these rules. The caller adds anything else there is to say.
    pub(super) fn new(
        subject: &Subject<'_>,
        action: &'static str,
        policy: &Policy,
        rules: &[usize],
    ) -> Self {
        let owned = |text: &str| cut(text, SHOWN).to_owned();
        let rules = rules.iter().filter_map(|at| policy.rules().get(*at));
        Self {
            kind_of_record: "mcp_guard",
            timestamp: subject.time,
            server_id: subject.parties.server.clone(),
            client: subject.parties.client.clone(),
            direction: subject.direction,
            kind: subject.kind,
            method: subject.method.map(owned),
            tool: subject.tool.map(owned),
            id: subject.id.map(owned),
            action,
            rules: rules.map(RuleName::of).collect(),
            reason: None,
            asked: None,
            hidden: Vec::new(),
            before: shown(subject.text),
            after: None,
        }
    }

    /// Whether a person should see it at once.
    pub fn is_alert(&self) -> bool {
        self.rules.iter().any(|rule| rule.action == "alert")
    }
}

/// The start of a text with its secrets masked.
pub(super) fn shown(text: &[u8]) -> String {
    let text = text.get(..SEARCHED).unwrap_or(text);
    let text = String::from_utf8_lossy(text);
    cut(&redact::json(&text), SHOWN).to_owned()
}
