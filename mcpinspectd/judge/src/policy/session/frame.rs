//! A frame on its way through the policy.

use mcpinspect_core::mcp::Malformed;
use mcpinspect_core::mcp::ambiguity;
use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::Payload;
use mcpinspect_core::model::{Direction, Timestamp};

use super::judge::{Judge, Member};
use super::{Forward, Handled, Session};
use crate::policy::decide::Verdict;
use crate::policy::record::{Record, Subject};
use crate::policy::situation::{Doubt, Kind, MessageFinding, Situation};

impl Session {
    /// Judges a frame: what is between two newlines, with a carriage return at its end if there is one.
    pub fn handle<'f>(
        &mut self,
        direction: Direction,
        frame: &'f [u8],
        time: Timestamp,
        findings: &[MessageFinding],
    ) -> Handled<'f> {
        if self.policy.rules().is_empty() || frame.trim_ascii().is_empty() {
            return Handled::passing();
        }
        let returns = self.ends_at_returns && ambiguity::has_inner_carriage_return(frame);
        let doubt = returns.then(|| Doubt::total("carriage_return"));
        let whole = match message::parse(frame) {
            Ok(payload) => std::str::from_utf8(frame).map(|text| (text, payload)).ok(),
            Err(malformed) if !returns && self.is_nothing(frame, malformed) => {
                return Handled::passing();
            }
            Err(malformed) => {
                return self.unreadable(direction, frame, time, malformed.as_str());
            }
        };
        let mut judge = Judge {
            session: self,
            direction,
            time,
            findings,
        };
        let handled = match whole {
            Some((text, Payload::Single(parsed))) => judge.message(&Member {
                text,
                parsed,
                doubt,
            }),
            Some((text, Payload::Batch(_))) => judge.batch(frame, text, doubt),
            None => Handled::passing(),
        };
        // A yes applies to one frame.
        self.consents.clear();
        handled
    }

    /// Whether `frame` is an object that all readers read alike, and a message to none of them.
    pub(super) fn is_nothing(&self, frame: &[u8], malformed: Malformed) -> bool {
        let names = &self.policy.names;
        let text = std::str::from_utf8(frame).ok();
        let text = text.filter(|_| malformed == Malformed::NotAMessage);
        text.is_some_and(|text| {
            let text = text.trim_start_matches('\u{feff}');
            ambiguity::find(text, false, |place, key| names.is_odd(place, key)).is_none()
        })
    }

    /// Judges what is not a message here, but might be one to another reader.
    pub(super) fn unreadable<'f>(
        &mut self,
        direction: Direction,
        frame: &'f [u8],
        time: Timestamp,
        reason: &'static str,
    ) -> Handled<'f> {
        let mut handled = Handled::passing();
        if !may_be_message(frame) {
            return handled;
        }
        if let Some(record) = self.refusal(direction, frame, time, reason) {
            handled.forward = Forward::Nothing;
            handled.records.push(record);
        }
        handled
    }

    /// Judges a frame that is not read because it is longer than `limit` bytes; `beginning` is the known part
    /// of it. Returns a record if a rule might have concerned it.
    pub fn too_long(
        &mut self,
        direction: Direction,
        beginning: &[u8],
        time: Timestamp,
    ) -> Option<Record> {
        self.refusal(direction, beginning, time, "too_long")
    }

    /// A record that this is refused because it cannot be read with certainty, if a rule might concern it.
    pub fn refusal(
        &mut self,
        direction: Direction,
        text: &[u8],
        time: Timestamp,
        reason: &'static str,
    ) -> Option<Record> {
        let seen = Situation {
            time,
            direction,
            kind: Kind::Request,
            method: None,
            tool: None,
            tool_status: None,
            params: None,
            outcome: None,
            findings: &[],
            parties: &self.parties,
            doubt: Some(Doubt::total(reason)),
        };
        let decision = self.policy.decide(&seen, &mut self.memory, &mut |_| false);
        let (action, mut rules) = match decision.verdict {
            Verdict::Pass => return None,
            Verdict::Block => ("block", decision.matched),
            Verdict::Refuse(_, rule) => {
                let mut rules = decision.matched;
                rules.push(rule);
                ("refuse", rules)
            }
        };
        rules.dedup();
        let subject = Subject {
            time,
            direction,
            parties: &self.parties,
            kind: None,
            method: None,
            tool: None,
            id: None,
            text,
        };
        let mut record = Record::new(&subject, action, &self.policy, &rules);
        record.reason = Some(reason);
        Some(record)
    }
}

/// Whether a reader that is more lenient, or ends lines at carriage returns, might take a part of `frame`
/// for a message: an object, or a list of them.
fn may_be_message(frame: &[u8]) -> bool {
    frame.split(|byte| *byte == b'\r').any(|line| {
        let mut graphic = line.iter().filter(|byte| byte.is_ascii_graphic());
        match graphic.next() {
            Some(b'{') => true,
            Some(b'[') => graphic.next() == Some(&b'{'),
            _ => false,
        }
    })
}
