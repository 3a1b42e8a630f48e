//! Which tools a frame is about, for a caller that can find out whether they were approved.
//!
//! A rule may ask how a tool compares with what was accepted. That is known elsewhere, perhaps in another
//! process that does not answer. So a session first says what it needs to know for a frame, and is told
//! before it judges. What remains unknown is assumed, and a record says so.

use std::collections::HashMap;

use mcpinspect_core::mcp::message::{Message, Parsed};
use mcpinspect_core::mcp::{Outcome, json, view};
use serde_json::value::RawValue;

use super::situation::ToolStatus;

/// How tools compare with what was accepted.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    known: HashMap<String, ToolStatus>,
    /// What to assume about unknown tools.
    unknown: Option<ToolStatus>,
}

impl Statuses {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.unknown = None;
    }

    /// Notes a tool's status. Of several forms of one tool, the least accepted counts.
    pub(super) fn note(&mut self, tool: &str, status: ToolStatus) {
        let before = self.known.get(tool).copied();
        let worst = before.map_or(status, |before| before.max(status));
        self.known.insert(tool.to_owned(), worst);
    }

    /// Says that nothing could be determined, and what to assume.
    pub(super) fn suppose(&mut self, status: ToolStatus) {
        self.unknown = Some(status);
    }

    /// The status of a tool.
    pub(super) fn of(&self, tool: &str) -> Option<ToolStatus> {
        self.known.get(tool).copied().or(self.unknown)
    }

    /// Whether something could not be determined.
    pub(super) fn is_unsure(&self) -> bool {
        self.unknown.is_some()
    }
}

/// Calls `ask` for the tool that a message calls, or for each that it lists, with its definition. For an
/// answer, `asked` is the method and tool of its request.
pub(super) fn tools_in(
    message: &Parsed<'_>,
    asked: Option<(&str, Option<&str>)>,
    ask: &mut dyn FnMut(&str, Option<&RawValue>),
) {
    match &message.message {
        Message::Request(request) if request.method == "tools/call" => {
            let params = request.params.map(view::Params::read);
            if let Some(name) = params.and_then(|params| params.name) {
                ask(&name, None);
            }
        }
        Message::Response(response) => match (asked, response.outcome) {
            (Some(("tools/list", _)), Outcome::Result(result)) => {
                let tools = view::ServerResult::read(result).tools;
                // The text was validated with its message.
                let _ = tools.map(|tools| {
                    json::elements(tools.get(), |tool| {
                        let name = view::Tool::read(tool).name;
                        ask(&name.unwrap_or_default(), Some(tool));
                        true
                    })
                });
            }
            (Some((_, Some(tool))), _) => ask(tool, None),
            _ => {}
        },
        _ => {}
    }
}
