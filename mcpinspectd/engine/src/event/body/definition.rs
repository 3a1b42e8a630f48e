//! Definitions: what a server offers, and what of it is not as pinned.

use mcpinspect_core::model::{
    DefinitionHash, Detection, FieldChange, ServerPart, Severity, ToolStatus,
};
use serde::Serialize;

use crate::event::vocabulary::{Describe, Details, Sentence, changed_fields, findings, name};

/// A tool was listed: new, or as pinned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolSeen {
    /// The tool's name.
    pub tool_name: String,
    /// SHA-256 of the canonical definition.
    pub tool_hash: DefinitionHash,
    /// Its description, redacted and bounded.
    pub description: String,
    /// `new` or `unchanged`.
    pub status: ToolStatus,
    /// `false` where there was no room to pin it: it will be `new` again. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// What detection found in it.
    pub detections: Vec<Detection>,
    /// The worst of them.
    pub max_severity: Option<Severity>,
}

impl Describe for ToolSeen {
    fn severity(&self) -> Option<Severity> {
        self.max_severity
    }

    fn title(&self, server: &str) -> String {
        let tool = name(&self.tool_name);
        match (self.status, self.max_severity) {
            (_, Some(severity)) => {
                format!(
                    "Tool {tool} of {server} has findings ({})",
                    severity.as_str()
                )
            }
            (ToolStatus::New, None) if self.pinned == Some(false) => {
                format!("New tool {tool} on {server}, not pinned for lack of room")
            }
            (ToolStatus::New, None) => format!("New tool {tool} on {server}"),
            (_, None) => format!("Tool {tool} of {server} is as pinned"),
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        sentence.add(
            findings(&self.detections)
                .unwrap_or_else(|| format!("sha256 {}", self.tool_hash.short())),
        );
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_TOOL", &self.tool_name);
        details.add("MCPINSPECT_HASH", &self.tool_hash.to_string());
        details.add("MCPINSPECT_STATUS", self.status.as_str());
        details.category(&self.detections);
    }
}

/// A tool is not what was pinned, or a pinned tool is gone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolChanged {
    /// The tool's name.
    pub tool_name: String,
    /// `changed` or `removed`.
    pub status: ToolStatus,
    /// The pinned hash.
    pub previous_hash: DefinitionHash,
    /// The current hash; `null` for a removed tool.
    pub new_hash: Option<DefinitionHash>,
    /// Field by field.
    pub changes: Vec<FieldChange>,
    /// What detection found in the new definition.
    pub detections: Vec<Detection>,
    /// The worst of them.
    pub max_severity: Option<Severity>,
}

impl Describe for ToolChanged {
    fn severity(&self) -> Option<Severity> {
        // A definition that is not what a person agreed to is worth a look without any finding.
        Some(at_least(self.max_severity, Severity::Medium))
    }

    fn title(&self, server: &str) -> String {
        let tool = name(&self.tool_name);
        match self.status {
            ToolStatus::Removed => format!("Tool {tool} is gone from {server}"),
            _ => format!("Tool {tool} of {server} has changed"),
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        let pinned = self.previous_hash.short();
        if let Some(new) = self.new_hash {
            sentence.add(changed_fields(&self.changes));
            sentence.add(format!("pinned {pinned}, now {}", new.short()));
        } else {
            sentence.add(format!("pinned {pinned}"));
        }
        if let Some(found) = findings(&self.detections) {
            sentence.add(found);
        }
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_TOOL", &self.tool_name);
        details.add("MCPINSPECT_STATUS", self.status.as_str());
        details.add("MCPINSPECT_PREVIOUS_HASH", &self.previous_hash.to_string());
        if let Some(hash) = self.new_hash {
            details.add("MCPINSPECT_HASH", &hash.to_string());
        }
        details.category(&self.detections);
    }
}

/// What a server says of itself, the program behind it, or the server behind a name is not what was pinned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerChanged {
    /// What changed: `instructions`, `server_info`, the `program` behind the server, or its `identity`.
    pub item: ServerPart,
    /// The pinned hash; of an identity, the hash of the fingerprint.
    pub previous_hash: DefinitionHash,
    /// The current hash.
    pub new_hash: DefinitionHash,
    /// Field by field.
    pub changes: Vec<FieldChange>,
    /// What detection found in it.
    pub detections: Vec<Detection>,
    /// The worst of them.
    pub max_severity: Option<Severity>,
}

impl Describe for ServerChanged {
    fn severity(&self) -> Option<Severity> {
        // New instructions reach the model like a tool's description, and what was decided of a server does
        // not hold for another; a new version is an update.
        let least = match self.item {
            ServerPart::Instructions | ServerPart::Identity => Severity::Medium,
            ServerPart::ServerInfo | ServerPart::Program => Severity::Low,
        };
        Some(at_least(self.max_severity, least))
    }

    fn title(&self, server: &str) -> String {
        match self.item {
            ServerPart::Instructions => format!("Instructions of {server} have changed"),
            ServerPart::Identity => format!("{server} is another server under a known name"),
            ServerPart::ServerInfo | ServerPart::Program => {
                format!("{server} calls itself something else")
            }
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        sentence.add(changed_fields(&self.changes));
        let (pinned, new) = (self.previous_hash.short(), self.new_hash.short());
        sentence.add(format!("pinned {pinned}, now {new}"));
        if let Some(found) = findings(&self.detections) {
            sentence.add(found);
        }
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_ITEM", self.item.as_str());
        details.add("MCPINSPECT_PREVIOUS_HASH", &self.previous_hash.to_string());
        details.add("MCPINSPECT_HASH", &self.new_hash.to_string());
        details.category(&self.detections);
    }
}

fn at_least(found: Option<Severity>, least: Severity) -> Severity {
    found.map_or(least, |found| found.max(least))
}
