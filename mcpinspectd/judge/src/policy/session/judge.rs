//! The messages of one frame, judged one by one: passed on, changed, answered in place, or kept back.

use std::borrow::Cow;
use std::sync::Arc;

use mcpinspect_core::mcp::ambiguity;
use mcpinspect_core::mcp::ambiguity::MessagePart;
use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::{Irregularity, Message, Parsed, Payload};
use mcpinspect_core::mcp::method::MethodName;
use mcpinspect_core::mcp::{Outcome, json, view};
use mcpinspect_core::model::{Direction, Timestamp};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Answering, Forward, Handled, Session};
use crate::policy::action::{Action, Answer, Measure};
use crate::policy::consent;
use crate::policy::consent::Reply;
use crate::policy::decide::{Decision, Policy, Verdict};
use crate::policy::edit::{edited, offset, put, without};
use crate::policy::pending_requests::{PendingRequests, RequestTarget};
use crate::policy::record::{Record, Subject, shown};
use crate::policy::situation::{Doubt, Kind, MessageFinding, Situation};

/// Most members of a batch to judge one by one.
const MAX_MEMBERS: usize = 4096;
/// The longest tool name to remember, in bytes.
const MAX_TOOL: usize = 1024;
/// The code for what is refused because it can be read in two ways: JSON-RPC's "invalid request".
const REFUSED: i64 = -32600;

/// A message that is being judged.
pub(super) struct Member<'a> {
    /// Its text, verbatim from the frame.
    pub(super) text: &'a str,
    pub(super) parsed: Parsed<'a>,
    /// What is doubtful about the frame.
    pub(super) doubt: Option<Doubt>,
}

/// One frame on its way through the policy.
pub(super) struct Judge<'s> {
    pub(super) session: &'s mut Session,
    pub(super) direction: Direction,
    pub(super) time: Timestamp,
    pub(super) findings: &'s [MessageFinding],
}

impl Judge<'_> {
    /// Judges the members of a batch one by one.
    pub(super) fn batch<'f>(
        &mut self,
        frame: &'f [u8],
        text: &'f str,
        doubt: Option<Doubt>,
    ) -> Handled<'f> {
        let inner = text.trim_start_matches('\u{feff}');
        let mut members = 0;
        // The text was parsed as an array before.
        let _ = json::elements(inner, |_| {
            members += 1;
            members <= MAX_MEMBERS
        });
        if members > MAX_MEMBERS {
            let session = &mut self.session;
            return session.unreadable(self.direction, frame, self.time, "too_many_messages");
        }
        let mut whole = Handled::passing();
        let mut kept: Vec<Cow<'f, str>> = Vec::new();
        let mut is_same = true;
        let _ = json::elements(inner, |element| {
            let handled = self.element(element, doubt);
            match handled.forward {
                Forward::AsIs => {
                    kept.push(Cow::Borrowed(if kept.is_empty() { "[" } else { "," }));
                    kept.push(Cow::Borrowed(element.get()));
                }
                Forward::Nothing => is_same = false,
                Forward::Parts(parts) => {
                    is_same = false;
                    kept.push(Cow::Borrowed(if kept.is_empty() { "[" } else { "," }));
                    kept.extend(parts);
                }
            }
            whole.replies.extend(handled.replies);
            whole.records.extend(handled.records);
            whole.copies.extend(handled.copies);
            whole.delay = whole.delay.max(handled.delay);
            true
        });
        whole.forward = match (is_same, kept.is_empty()) {
            (true, _) => Forward::AsIs,
            (false, true) => Forward::Nothing,
            (false, false) => {
                kept.push(Cow::Borrowed("]"));
                Forward::Parts(kept)
            }
        };
        whole
    }

    fn element<'f>(&mut self, element: &'f RawValue, doubt: Option<Doubt>) -> Handled<'f> {
        let text = element.get();
        match message::parse(text.as_bytes()) {
            Ok(Payload::Single(parsed)) => self.message(&Member {
                text,
                parsed,
                doubt,
            }),
            Ok(Payload::Batch(_)) => self.unread(text, "nested_batch"),
            Err(malformed) if self.session.is_nothing(text.as_bytes(), malformed) => {
                Handled::passing()
            }
            Err(malformed) => self.unread(text, malformed.as_str()),
        }
    }

    fn unread<'f>(&mut self, text: &'f str, reason: &'static str) -> Handled<'f> {
        let session = &mut self.session;
        session.unreadable(self.direction, text.as_bytes(), self.time, reason)
    }

    /// Judges a message.
    pub(super) fn message<'f>(&mut self, member: &Member<'f>) -> Handled<'f> {
        let message = &member.parsed.message;
        let (kind, params, outcome) = match message {
            Message::Request(request) => (Kind::Request, request.params, None),
            Message::Notification(notification) => (Kind::Notification, notification.params, None),
            Message::Response(response) => (Kind::Response, None, Some(response.outcome)),
        };
        let id = message.id().map(|id| id.0);
        let (target, is_related) = match (kind, id) {
            (Kind::Response, Some(id)) => {
                let exchange = self.session.exchange;
                let target = self.pending(self.direction.reverse()).take(exchange, id);
                let is_related = target.is_some();
                (target, is_related)
            }
            (Kind::Response, None) if matches!(outcome, Some(Outcome::Error(_))) => {
                self.without_id()
            }
            _ => (None, false),
        };
        let view = params.map(view::Params::read);
        let own_tool = view.as_ref().and_then(|view| view.name.as_deref());
        let own_tool = own_tool.filter(|_| message.method() == Some("tools/call"));
        self.meet(message.method(), view.as_ref());
        let method = message
            .method()
            .or(target.as_ref().map(|target| &*target.method));
        let tool = own_tool.or(target.as_ref().and_then(|target| target.tool.as_deref()));
        let doubt = self.doubt(member, kind, is_related);
        let policy = Arc::clone(&self.session.policy);
        let seen = Situation {
            time: self.time,
            direction: self.direction,
            kind,
            method,
            tool,
            tool_status: tool.and_then(|tool| self.session.statuses.of(tool)),
            params,
            outcome,
            findings: self.findings,
            parties: &self.session.parties,
            doubt,
        };
        let mut reply = None;
        let consents = &mut self.session.consents;
        let decision = policy.decide(&seen, &mut self.session.memory, &mut |rule| {
            let consent = consent::take(consents, rule, member.text);
            reply = consent.map(|(reply, _)| reply);
            consent.is_some_and(|(_, passes)| passes)
        });
        let is_blocked = decision.verdict != Verdict::Pass;
        let is_answered = !is_blocked || self.session.is_recorded;
        if let (Message::Request(request), true) = (message, is_answered) {
            let target = RequestTarget {
                method: MethodName::new(&request.method),
                tool: tool.map(|tool| json::cut(tool, MAX_TOOL).into()),
            };
            let exchange = self.session.exchange;
            self.session.pending[self.direction as usize].add(exchange, request.id.0, target);
        }
        let mut handled = match is_blocked {
            true => self.blocked(&policy, &decision, &seen, member.text, id),
            false => self.passed(&policy, &decision, &seen, member.text, id),
        };
        for record in &mut handled.records {
            record.asked = reply.map(Reply::as_str);
        }
        let forks = decision.matched.iter().filter(|rule| {
            let rule = policy.rules().get(**rule);
            rule.is_some_and(|rule| matches!(rule.action, Action::Fork(_)))
        });
        handled.copies = forks.map(|rule| (*rule, member.text.to_owned())).collect();
        handled
    }

    /// What an error without an id answers, and whether that is known.
    fn without_id(&self) -> (Option<RequestTarget>, bool) {
        let session = &self.session;
        let pending = &session.pending[self.direction.reverse() as usize];
        let target = match &session.answering {
            Answering::Nothing => return (None, true),
            Answering::Request(id) => pending.peek(session.exchange, id),
            Answering::Unknown if pending.count() == 0 => return (None, true),
            Answering::Unknown => pending.only(),
        };
        (target.cloned(), target.is_some())
    }

    fn pending(&mut self, direction: Direction) -> &mut PendingRequests {
        &mut self.session.pending[direction as usize]
    }

    /// Notes who the client says it is.
    pub(super) fn meet(&mut self, method: Option<&str>, params: Option<&view::Params<'_>>) {
        let Some(params) = params.filter(|_| self.direction == Direction::ClientToServer) else {
            return;
        };
        let info = match method {
            Some("initialize") => params.client_info,
            _ if self.session.parties.client.is_none() => {
                params.meta.as_ref().and_then(|meta| meta.client_info)
            }
            _ => None,
        };
        if let Some(name) = info.and_then(|info| view::Tool::read(info).name) {
            self.session.parties.client = Some(json::cut(&name, MAX_TOOL).to_owned());
        }
    }

    /// Whether the receiver may read something other than what was read here. Costs another pass over the text,
    /// so this is only called if a rule could keep something back.
    pub(super) fn doubt(&self, member: &Member<'_>, kind: Kind, is_related: bool) -> Option<Doubt> {
        if !self.session.policy.restrains(self.direction) {
            return None;
        }
        let irregular = member.parsed.irregular;
        // A missing version is no second reading.
        let irregular = irregular.filter(|what| *what != Irregularity::ForeignVersion);
        if let Some(doubt) = member.doubt {
            return Some(doubt);
        }
        if let Some(irregular) = irregular {
            return Some(Doubt::total(irregular.as_str()));
        }
        let names = &self.session.policy.names;
        let text = member.text.trim_start_matches('\u{feff}');
        // Answers are cut in the middle of an emoji every day, and no call depends on their texts.
        let mends = kind == Kind::Response;
        // An answer to nothing could be an answer to anything.
        let is_certain = kind != Kind::Response || is_related;
        let found = ambiguity::find(text, mends, |part, key| names.is_odd(part, key));
        let found = found.filter(|(part, _)| is_certain || *part == MessagePart::Envelope);
        let is_stray = !is_certain && !self.session.is_watched;
        let unrelated = is_stray.then(Doubt::unrelated);
        let found = found.map(|(part, what)| Doubt {
            // The parameters of an answer are not its result.
            part: if kind == Kind::Response && part == MessagePart::Params {
                MessagePart::Inside
            } else {
                part
            },
            is_kind_sure: part != MessagePart::Envelope,
            reason: what.as_str(),
        });
        found.or(unrelated)
    }

    fn subject<'a>(
        &'a self,
        seen: &Situation<'a>,
        text: &'a str,
        id: Option<&'a str>,
    ) -> Subject<'a> {
        Subject {
            time: self.time,
            direction: self.direction,
            parties: &self.session.parties,
            kind: Some(seen.kind),
            method: seen.method,
            tool: seen.tool,
            id,
            text: text.as_bytes(),
        }
    }

    /// Answers a request in the receiver's place, or replaces an answer.
    fn blocked<'f>(
        &self,
        policy: &Policy,
        decision: &Decision,
        seen: &Situation<'_>,
        text: &str,
        id: Option<&str>,
    ) -> Handled<'f> {
        let mut rules = decision.matched.clone();
        let (answer, action, reason) = match decision.verdict {
            Verdict::Refuse(doubt, rule) => {
                rules.push(rule);
                let message = format!(
                    "Refused by policy: the message can be read in more than one way ({})",
                    doubt.reason
                );
                let answer = Answer {
                    message,
                    code: REFUSED,
                    as_result: false,
                    is_injected: false,
                };
                (Cow::Owned(answer), "refuse", Some(doubt.reason))
            }
            _ => {
                let rule = rules.last().copied().unwrap_or_default();
                let Some(answer) = policy.answer(rule) else {
                    return Handled::passing();
                };
                let action = match &policy.rules()[rule].action {
                    Action::Ask(_) if !self.session.is_recorded => "block",
                    action => action.as_str(),
                };
                (Cow::Borrowed(answer), action, None)
            }
        };
        let mut record = Record::new(&self.subject(seen, text, id), action, policy, &rules);
        record.reason = reason.or(self.unsure(policy, &rules));
        let mut handled = Handled::passing();
        handled.forward = Forward::Nothing;
        handled.delay = decision.delay;
        if let Some(id) = id {
            let line = in_place(id, seen.method, &answer);
            match seen.kind {
                Kind::Request => handled.replies.push(line),
                // A caller waits for it, unless it answers nothing.
                Kind::Response if seen.method.is_some() => {
                    record.after = Some(shown(line.as_bytes()));
                    handled.forward = Forward::Parts(vec![Cow::Owned(line)]);
                }
                _ => {}
            }
        }
        handled.records.push(record);
        handled
    }

    /// Passes a message on, possibly with changes.
    fn passed<'f>(
        &self,
        policy: &Policy,
        decision: &Decision,
        seen: &Situation<'_>,
        text: &'f str,
        id: Option<&str>,
    ) -> Handled<'f> {
        let mut handled = Handled::passing();
        handled.delay = decision.delay;
        let target = match (seen.params, seen.outcome) {
            (Some(params), _) => Some(params),
            (None, Some(Outcome::Result(result))) => Some(result),
            _ => None,
        };
        let mut rules = decision.matched.clone();
        let (mut hidden, mut changed) = (Vec::new(), None);
        if let Some(target) = target {
            let listing = self.listing(policy, decision, seen, &mut rules, &mut hidden);
            let value = listing.as_deref().unwrap_or(target);
            changed = edited(value, policy.edits(decision)).or(listing);
        }
        if rules.is_empty() {
            return handled;
        }
        let weighs = |rule: &usize| weight(&policy.rules()[*rule].action);
        let action = rules.iter().copied().max_by_key(weighs);
        let action = action.map_or("log", |rule| match &policy.rules()[rule].action {
            Action::Ask(_) => "allow",
            action => action.as_str(),
        });
        let mut record = Record::new(&self.subject(seen, text, id), action, policy, &rules);
        record.hidden = hidden;
        record.reason = self.unsure(policy, &rules);
        if let (Some(target), Some(changed)) = (target, changed) {
            let start = offset(text, target.get());
            let (before, after) = (&text[..start], &text[start + target.get().len()..]);
            record.after = Some(shown(changed.get().as_bytes()));
            handled.forward = Forward::Parts(vec![
                Cow::Borrowed(before),
                Cow::Owned(Box::<str>::from(changed).into()),
                Cow::Borrowed(after),
            ]);
        }
        handled.records.push(record);
        handled
    }

    /// Why the rules that matched may be wrong.
    fn unsure(&self, policy: &Policy, rules: &[usize]) -> Option<&'static str> {
        let asks = |at: &usize| policy.rules()[*at].asks_for_tool_status();
        let is_unsure = self.session.statuses.is_unsure() && rules.iter().any(asks);
        is_unsure.then_some("status_unknown")
    }

    /// A listing without the tools that rules hide, if there are any.
    fn listing(
        &self,
        policy: &Policy,
        decision: &Decision,
        seen: &Situation<'_>,
        rules: &mut Vec<usize>,
        hidden: &mut Vec<String>,
    ) -> Option<Box<RawValue>> {
        let Some(Outcome::Result(result)) = seen.outcome else {
            return None;
        };
        if seen.method != Some("tools/list") || !policy.hides_tools() {
            return None;
        }
        // What a rule allowed is not hidden by those after it.
        let last = decision.matched.last().copied();
        let allowed = last.filter(|rule| policy.rules()[*rule].action.is_final());
        let tools = view::ServerResult::read(result).tools?;
        let kept = without(tools, |tool| {
            let name = view::Tool::read(tool).name;
            let name = name.as_deref().unwrap_or_default();
            let of_tool = Situation {
                tool: Some(name),
                tool_status: self.session.statuses.of(name),
                ..*seen
            };
            let by = policy.hides(&of_tool);
            let Some(rule) = by.filter(|rule| allowed.is_none_or(|allowed| *rule < allowed)) else {
                return false;
            };
            if !rules.contains(&rule) {
                rules.push(rule);
            }
            hidden.push(json::cut(name, MAX_TOOL).to_owned());
            true
        })?;
        put(result, tools, &kept)
    }
}

/// Which of several actions names a record.
fn weight(action: &Action) -> u8 {
    match action {
        Action::Log => 0,
        Action::Fork(_) => 1,
        Action::Webhook(_) => 2,
        Action::Alert => 3,
        Action::Allow | Action::Ask(_) => 4,
        Action::Delay(_) => 5,
        Action::Hide => 6,
        Action::Modify(_) => 7,
        Action::Block(_) => 8,
        Action::Contain(Measure::Freeze) => 9,
        Action::Contain(Measure::Kill) => 10,
    }
}

/// The answer to a request with this id and method, as a line.
fn in_place(id: &str, method: Option<&str>, answer: &Answer) -> String {
    let text = Value::from(answer.message.as_str());
    match answer.as_result && method == Some("tools/call") {
        true => format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"isError\":true}}}}"
        ),
        false => format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{},\"message\":{text}}}}}",
            answer.code
        ),
    }
}
