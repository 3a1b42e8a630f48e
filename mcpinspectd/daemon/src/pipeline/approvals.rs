//! Signed lists of approved definitions: when they change, updates the registry and reports what became
//! of each file.

use mcpinspect_core::model::{EVERY_SERVER, ServerId, Timestamp};
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::body::{Policy, PolicyDecision, PolicyItem};
use mcpinspect_engine::event::{Event, Subject};
use mcpinspect_engine::{Output, OutputSink};
use mcpinspect_judge::registry::DecidedBy;
use mcpinspect_settings::approvals::folder::Notice;

use super::{Host, Pipeline};

/// Longest text about a file, in characters.
const REASON_MAX: usize = 512;

impl<O: OutputSink, H: Host> Pipeline<O, H> {
    /// Applies the lists as they are now. Most calls find nothing to do.
    pub fn look_at_approvals(&mut self, now: Timestamp) {
        let Some(news) = self.host.approvals(now) else {
            return;
        };
        let registry = self.engine.registry_mut();
        registry.set_listed(news.listed, now);
        registry.save(now);
        for notice in news.notices {
            self.output.output(Output::Event(&event(&notice, now)));
        }
    }
}

fn event(notice: &Notice, now: Timestamp) -> Event {
    let (decision, reason) = match notice {
        Notice::Taken { file, list, key } => {
            tracing::info!(file, list, key, "loaded an approval list");
            let reason = format!("{file}: {list}; signed by {key}");
            (PolicyDecision::Accept, reason)
        }
        Notice::Refused { file, why } => {
            tracing::error!(file, %why, "rejected an approval list");
            (PolicyDecision::Refuse, format!("{file}: {why}"))
        }
        Notice::Withdrawn { file, list } => {
            tracing::info!(file, list, "an approval list was removed");
            (PolicyDecision::Withdraw, format!("{file}: list {list}"))
        }
    };
    let body = Policy {
        item: PolicyItem::ApprovalList,
        tool_name: None,
        hash: None,
        decision,
        by: DecidedBy::List.as_str(),
        uid: None,
        server_uid: None,
        reason: printable(&reason, REASON_MAX),
    };
    Event::new(now, Subject::server(ServerId(EVERY_SERVER.into())), body)
}
