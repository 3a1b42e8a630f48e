//! Containment: a server's processes were frozen, thawed or killed.

use mcpinspect_core::model::{ContainmentAction, Pid, Severity};
use serde::Serialize;

use crate::event::vocabulary::{Describe, Details, Sentence, listed};

/// A server's processes were frozen, thawed or killed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contained {
    /// What was done.
    #[serde(rename = "measure")]
    pub action: ContainmentAction,
    /// Control groups that it was done to as a whole.
    pub cgroups: Vec<String>,
    /// All processes that it was done to.
    pub processes: Vec<Pid>,
    /// What could not be reached, and why.
    pub missed: Vec<String>,
    /// Who requested it; `null` where the configuration did.
    pub uid: Option<u32>,
    /// The rule of detection whose finding made the configuration request it, or the rule of the policy
    /// that did; `null` where a person did.
    pub pattern: Option<String>,
}

impl Describe for Contained {
    fn severity(&self) -> Option<Severity> {
        Some(match self.action {
            ContainmentAction::Freeze | ContainmentAction::Kill => Severity::High,
            ContainmentAction::Thaw => Severity::Low,
        })
    }

    fn title(&self, server: &str) -> String {
        let extent = if self.missed.is_empty() {
            ""
        } else {
            " in part"
        };
        format!("{server} was {}{extent}", self.action.done())
    }

    fn particulars(&self, sentence: &mut Sentence) {
        sentence.add(format!("processes {}", listed(&self.processes)));
        if !self.cgroups.is_empty() {
            sentence.add(format!("as a whole: {}", self.cgroups.join(", ")));
        }
        if !self.missed.is_empty() {
            sentence.add(format!("not contained: {}", self.missed.join(", ")));
        }
        match (self.uid, &self.pattern) {
            (Some(uid), _) => sentence.add(format!("by uid {uid}")),
            (None, Some(pattern)) => {
                sentence.add(format!("by policy, because of {pattern}"));
            }
            (None, None) => sentence.add("by policy"),
        }
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_MEASURE", self.action.as_str());
        details.add("MCPINSPECT_PROCESSES", &listed(&self.processes));
        if !self.cgroups.is_empty() {
            details.add("MCPINSPECT_CGROUPS", &self.cgroups.join(" "));
        }
        if let Some(uid) = self.uid {
            details.add("MCPINSPECT_DECIDED_BY_UID", &uid.to_string());
        }
        details.add_some("MCPINSPECT_PATTERN", self.pattern.as_deref());
    }
}
