//! Decisions about pins: those that the configuration makes, and all of them as events.
//!
//! A policy accepts a change where a person would have nothing to look at. It needs a complete
//! verdict: nothing is known about what was too large to be read to its end, or was not examined. A
//! pin that a policy moved is what the next change is compared with, so a server can drift away from
//! its first definition in steps that are each free of findings; to rule that out, leave
//! the policy off, as it is by default.

use std::sync::Arc;

use globset::GlobMatcher;
use mcpinspect_core::model::{ItemKind, ServerId};
use mcpinspect_judge::registry::ItemDecision;

use super::sanitise;
use crate::event::body::{Policy, PolicyDecision, PolicyItem};
use crate::event::{Event, Subject};

/// Which changes are accepted without a person: those that one of the rules accepts.
#[derive(Clone, Debug, Default)]
pub struct AutoApproval {
    /// The rules. By default there are none.
    pub rules: Vec<ApprovalRule>,
}

/// Accepts changes of some servers, while they are free of findings.
#[derive(Clone, Debug)]
pub struct ApprovalRule {
    /// The servers.
    pub servers: GlobMatcher,
    /// The user that they run as; any user if `None`.
    pub user: Option<u32>,
    /// Whose program may offer the change.
    pub vendor: Vendor,
}

/// Whose program may offer a change that is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// The vendor of the package or file behind the pinned program, in any version. While that is
    /// unknown, nothing is accepted.
    #[default]
    Same,
    /// Any vendor.
    Any,
}

impl AutoApproval {
    /// The reason recorded with a decision of the policy.
    pub(super) const REASON: &str = "free of findings";

    /// Whether a change of `server`, which runs as `user`, is accepted if it is free of findings. `same_vendor` says
    /// whether the program that offers it is from the accepted vendor.
    pub(super) fn accepts(&self, server: &ServerId, user: Option<u32>, same_vendor: bool) -> bool {
        self.rules.iter().any(|rule| {
            (same_vendor || rule.vendor == Vendor::Any)
                && (rule.user.is_none() || rule.user == user)
                && rule.servers.is_match(&*server.0)
        })
    }
}

/// The event of a decision.
pub(super) fn event(decided: ItemDecision) -> Event {
    let ItemDecision {
        owner,
        server,
        key,
        decision,
    } = decided;
    let subject = Subject::server(ServerId(Arc::from(server))).of_user(owner.uid());
    let body = Policy {
        item: PolicyItem::Definition(key.kind),
        tool_name: (key.kind == ItemKind::Tool).then(|| sanitise::name(&key.name)),
        hash: decision.hash,
        decision: PolicyDecision::Pin(decision.kind),
        by: decision.by.as_str(),
        uid: decision.by.uid(),
        server_uid: owner.uid(),
        reason: sanitise::description(&decision.reason),
    };
    Event::new(decision.time, subject, body)
}
