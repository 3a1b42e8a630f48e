//! What a person is asked before a request passes.
//!
//! An answer takes minutes, and judging must not wait for it: the other direction continues meanwhile. So a
//! session first says what there is to ask about a frame, without changing anything, and is given the
//! answers before it judges.

use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::{Message, Parsed, Payload};
use mcpinspect_core::mcp::{json, view};
use mcpinspect_core::model::{Direction, Timestamp};

use super::Session;
use super::judge::{Judge, Member};
use crate::policy::consent::{Asking, Consent};
use crate::policy::record::shown;
use crate::policy::situation::{Kind, MessageFinding, Situation};

/// Most questions about one frame. Anything beyond is not asked, and does not pass.
const MAX_QUESTIONS: usize = 16;

impl Session {
    /// What to ask a person about a frame. Call this before [`Self::handle`], with the same frame,
    /// time and findings.
    pub fn questions(
        &mut self,
        direction: Direction,
        frame: &[u8],
        time: Timestamp,
        findings: &[MessageFinding],
    ) -> Vec<Asking> {
        let mut questions = Vec::new();
        if !self.policy.asks_a_person() {
            return questions;
        }
        let mut judge = Judge {
            session: self,
            direction,
            time,
            findings,
        };
        let text = std::str::from_utf8(frame).unwrap_or_default();
        match message::parse(frame) {
            Ok(Payload::Single(parsed)) => questions.extend(judge.question(text, parsed)),
            Ok(Payload::Batch(_)) => {
                // The text was parsed as an array.
                let _ = json::elements(text.trim_start_matches('\u{feff}'), |element| {
                    let text = element.get();
                    if let Ok(Payload::Single(parsed)) = message::parse(text.as_bytes()) {
                        questions.extend(judge.question(text, parsed));
                    }
                    questions.len() < MAX_QUESTIONS
                });
            }
            Err(_) => {}
        }
        questions
    }

    /// Sets the answers to the questions about the next frame.
    pub fn note_consents(&mut self, consents: impl IntoIterator<Item = Consent>) {
        self.consents.extend(consents);
    }
}

impl Judge<'_> {
    fn question(&mut self, text: &str, parsed: Parsed<'_>) -> Option<Asking> {
        let member = Member {
            text,
            parsed,
            doubt: None,
        };
        let Message::Request(request) = &member.parsed.message else {
            return None;
        };
        let view = request.params.map(view::Params::read);
        self.meet(Some(&request.method), view.as_ref());
        let tool = view.as_ref().and_then(|view| view.name.as_deref());
        let tool = tool.filter(|_| request.method == "tools/call");
        let doubt = self.doubt(&member, Kind::Request, false);
        let mut memory = self.session.memory.clone();
        let session = &*self.session;
        let seen = Situation {
            time: self.time,
            direction: self.direction,
            kind: Kind::Request,
            method: Some(&request.method),
            tool,
            tool_status: tool.and_then(|tool| session.statuses.of(tool)),
            params: request.params,
            outcome: None,
            findings: self.findings,
            parties: &session.parties,
            doubt,
        };
        let mut asks = None;
        session.policy.decide(&seen, &mut memory, &mut |rule| {
            asks = Some(rule);
            false
        });
        Some(Asking {
            rule: asks?,
            server: session.parties.server.clone(),
            client: session.parties.client.clone(),
            method: request.method.to_string(),
            tool: tool.map(str::to_owned),
            params: request
                .params
                .map(|params| shown(params.get().as_bytes()))
                .unwrap_or_default(),
            text: text.to_owned(),
        })
    }
}
