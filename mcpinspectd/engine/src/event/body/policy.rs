//! Decisions: about a definition or its pin, about a rule, or about watching at all.

use mcpinspect_core::model::{DefinitionHash, ItemKind, Severity};
use mcpinspect_judge::registry::DecisionKind;
use serde::{Serialize, Serializer};

use crate::event::vocabulary::{Describe, Details, Sentence, name};

/// What a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyItem {
    /// Something that is pinned.
    Definition(ItemKind),
    /// A detection rule.
    Rule,
    /// Whether a server is watched.
    Monitoring,
    /// The daemon's configuration.
    Configuration,
    /// A signed list of approved definitions.
    ApprovalList,
}

impl PolicyItem {
    /// The word used on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Definition(kind) => kind.as_str(),
            Self::Rule => "rule",
            Self::Monitoring => "monitoring",
            Self::Configuration => "configuration",
            Self::ApprovalList => "approval_list",
        }
    }
}

impl Serialize for PolicyItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    /// Something about a pin.
    Pin(DecisionKind),
    /// A rule was suppressed.
    Suppress,
    /// Servers are not watched for now.
    Pause,
    /// Servers are watched again.
    Resume,
    /// The configuration was read again.
    Reload,
    /// An approval list was taken in.
    Accept,
    /// An approval list was refused.
    Refuse,
    /// An approval list is gone.
    Withdraw,
}

impl PolicyDecision {
    /// The word used on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pin(verb) => verb.as_str(),
            Self::Suppress => "suppress",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Reload => "reload",
            Self::Accept => "accept",
            Self::Refuse => "refuse",
            Self::Withdraw => "withdraw",
        }
    }
}

impl Serialize for PolicyDecision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A person or the configuration decided something. No session takes part: the subject's `session_id`
/// is empty, its `server_id` is `*` where all servers are concerned, and the time is when it was decided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Policy {
    /// What it is about.
    pub item: PolicyItem,
    /// The tool concerned; `null` for the rest.
    pub tool_name: Option<String>,
    /// The hash of the definition that was decided on.
    pub hash: Option<DefinitionHash>,
    /// What was decided.
    pub decision: PolicyDecision,
    /// `person`, `policy` where the configuration's rules for changes did it, or `list` where a signed
    /// list of approvals did.
    pub by: &'static str,
    /// Which person; `null` for a policy and a list.
    pub uid: Option<u32>,
    /// The user whose server it is about; absent where several users or none are concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_uid: Option<u32>,
    /// Why, in that person's words, what the policy was satisfied with, or who put it on the list and why;
    /// redacted and bounded.
    pub reason: String,
}

impl Describe for Policy {
    fn severity(&self) -> Option<Severity> {
        (self.decision == PolicyDecision::Refuse).then_some(Severity::Medium)
    }

    fn title(&self, server: &str) -> String {
        let decision = self.decision.as_str();
        match self.decision {
            PolicyDecision::Accept => return "Approval list loaded".to_owned(),
            PolicyDecision::Refuse => return "Approval list rejected".to_owned(),
            PolicyDecision::Withdraw => return "Approval list removed".to_owned(),
            _ => {}
        }
        match &self.tool_name {
            Some(tool) => format!("{decision} for tool {} of {server}", name(tool)),
            None => format!("{decision} for {} of {server}", self.item.as_str()),
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        match self.uid {
            Some(uid) => sentence.add(format!("by uid {uid}")),
            None => sentence.add(format!("by {}", self.by)),
        }
        if !self.reason.is_empty() {
            sentence.add(&self.reason);
        }
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_ITEM", self.item.as_str());
        details.add_some("MCPINSPECT_TOOL", self.tool_name.as_deref());
        if let Some(hash) = self.hash {
            details.add("MCPINSPECT_HASH", &hash.to_string());
        }
        if !self.reason.is_empty() {
            details.add("MCPINSPECT_REASON", &self.reason);
        }
        details.add("MCPINSPECT_DECISION", self.decision.as_str());
        details.add("MCPINSPECT_DECIDED_BY", self.by);
        if let Some(uid) = self.uid {
            details.add("MCPINSPECT_DECIDED_BY_UID", &uid.to_string());
        }
    }
}
