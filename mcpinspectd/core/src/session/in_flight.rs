//! Requests waiting for their answer.
//!
//! An answer may take a day, so nothing expires by time: a request that waits too long is noted as
//! overdue, once, and its answer still finds it. A session may have ten thousand requests in flight, so
//! an entry is small; and a client may keep sending requests without ever getting an answer, so above a
//! maximum the oldest request is forgotten and counted.
//!
//! The most recently answered ids are remembered too, to distinguish a second answer to a request
//! from one to a request that never existed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::id::IdKey;
use crate::mcp::method;
use crate::mcp::method::MethodName;
use crate::model::Timestamp;

/// The default number of requests kept per direction.
pub const DEFAULT_MAX_IN_FLIGHT: usize = 16_384;

/// Average bytes of names and ids per request of one direction, above which the oldest
/// are forgotten too. Ordinary requests have a tenth of that.
const TEXT_EACH: usize = 128;

/// Answered ids to remember per direction: a second answer follows soon or never.
const MAX_ANSWERED: usize = 64;

/// A request in flight.
#[derive(Clone, Debug)]
pub struct PendingRequest {
    /// Its method.
    pub method: MethodName,
    /// The tool that it calls.
    pub tool: Option<Arc<str>>,
    /// When it was sent.
    pub time: Timestamp,
    /// The page of a list that it requests; `None` for the first.
    pub cursor: Option<IdKey>,
    /// How many earlier attempts ended in a result that asked for more input (2026-07-28).
    pub retries: u16,
    /// The number of the message that carried the first of these attempts; for a first attempt, its own.
    pub first: u64,
    /// Whether its sender has cancelled it. An answer may still be on its way.
    pub cancelled: bool,
    /// Whether it was noted as overdue.
    pub overdue: bool,
    /// The token that progress notifications name it by.
    pub progress_token: Option<IdKey>,
    /// Notifications of its progress so far.
    pub progress: u32,
    /// When it was sent, or its progress was last reported.
    pub heard: Timestamp,
    /// Number of the message that it came in; see [`Session::count_message`](super::Session::count_message).
    pub sequence: u64,
}

impl PendingRequest {
    /// A request sent at `time` in the message numbered `sequence`.
    pub fn new(method: MethodName, time: Timestamp, sequence: u64) -> Self {
        Self {
            method,
            tool: None,
            time,
            cursor: None,
            retries: 0,
            first: sequence,
            cancelled: false,
            overdue: false,
            progress_token: None,
            progress: 0,
            heard: time,
            sequence,
        }
    }

    /// Whether a missing answer counts as missing.
    fn expects_answer(&self) -> bool {
        !self.cancelled && !method::stays_open(&self.method)
    }

    /// Whether a late answer counts as late.
    fn expects_answer_soon(&self) -> bool {
        self.expects_answer() && !method::waits_for_people(&self.method)
    }
}

/// The requests of one direction that wait for their answer.
#[derive(Debug)]
pub struct InFlight {
    limit: usize,
    requests: HashMap<IdKey, Entry>,
    /// Oldest first. Entries of answered requests stay until the next clean-up.
    order: VecDeque<(u64, IdKey)>,
    /// Counts insertions, to distinguish a reused id's entries in `order`.
    counter: u64,
    /// Bytes of names and ids.
    text: usize,
    forgotten: u64,
    reused: u64,
    /// Ids of requests whose progress is reported under another token.
    tokens: HashMap<IdKey, IdKey>,
    /// The most recently answered ids, oldest first.
    answered: VecDeque<IdKey>,
    /// No request is overdue before this time.
    earliest: Timestamp,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    pending: PendingRequest,
}

impl InFlight {
    /// Keeps at most `limit` requests.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            requests: HashMap::new(),
            order: VecDeque::new(),
            counter: 0,
            text: 0,
            forgotten: 0,
            reused: 0,
            tokens: HashMap::new(),
            answered: VecDeque::new(),
            earliest: Timestamp(u64::MAX),
        }
    }

    /// Adds a request. It replaces one with the same id that is still in flight: a client that reuses an
    /// id has given up on the older request.
    pub fn insert(&mut self, id: IdKey, pending: PendingRequest) {
        self.counter += 1;
        let entry = Entry {
            number: self.counter,
            pending,
        };
        self.text += text(&id, &entry);
        // The caller chooses the patience: what was just sent is checked whenever it asks next.
        self.earliest = self.earliest.min(entry.pending.heard);
        let token = entry.pending.progress_token.clone();
        if let Some(previous) = self.requests.insert(id.clone(), entry) {
            self.reused += u64::from(previous.pending.expects_answer());
            self.removed(&id, &previous);
        }
        if let Some(token) = token.filter(|token| *token != id) {
            self.tokens.insert(token, id.clone());
        }
        self.order.push_back((self.counter, id));
        while self.requests.len() > self.limit
            || (self.text > self.limit.saturating_mul(TEXT_EACH) && self.requests.len() > 1)
        {
            self.forget_oldest();
        }
        if self.order.len() > 2 * self.requests.len() + 64 {
            self.order
                .retain(|(number, id)| is_current(&self.requests, *number, id));
        }
    }

    fn forget_oldest(&mut self) {
        while let Some((number, id)) = self.order.pop_front() {
            if is_current(&self.requests, number, &id) {
                if let Some(entry) = self.requests.remove(&id) {
                    self.removed(&id, &entry);
                    self.forgotten += u64::from(entry.pending.expects_answer());
                }
                return;
            }
        }
    }

    /// Removes and returns the request that an answer with this id answers.
    pub fn take(&mut self, id: &IdKey) -> Option<PendingRequest> {
        let (id, entry) = self
            .requests
            .remove_entry(id)
            .or_else(|| self.requests.remove_entry(&id.lookalike()?))?;
        self.removed(&id, &entry);
        if self.requests.is_empty() {
            self.order.clear();
            self.tokens.clear();
            self.earliest = Timestamp(u64::MAX);
            // Return the memory of a burst.
            self.requests.shrink_to(64);
            self.order.shrink_to(64);
            self.tokens.shrink_to(64);
        }
        if self.answered.len() == MAX_ANSWERED {
            self.answered.pop_front();
        }
        self.answered.push_back(id);
        Some(entry.pending)
    }

    /// Whether a request with this id was answered recently.
    pub fn was_answered(&self, id: &IdKey) -> bool {
        let lookalike = id.lookalike();
        let mut answered = self.answered.iter();
        answered.any(|answered| answered == id || Some(answered) == lookalike.as_ref())
    }

    /// Updates the counts for a removed request.
    fn removed(&mut self, id: &IdKey, entry: &Entry) {
        self.text -= text(id, entry);
        if let Some(token) = &entry.pending.progress_token
            && self.tokens.get(token) == Some(id)
        {
            self.tokens.remove(token);
        }
    }

    /// Notes that the sender of this request has cancelled it. Returns the request, if it is in flight.
    pub fn cancel(&mut self, id: &IdKey) -> Option<&PendingRequest> {
        let entry = self.requests.get_mut(id)?;
        entry.pending.cancelled = true;
        Some(&entry.pending)
    }

    /// Notes progress of the request with this token, which is then no longer overdue. Returns the
    /// request, if it is in flight.
    pub fn progress(&mut self, token: &IdKey, now: Timestamp) -> Option<&PendingRequest> {
        let id = match self.requests.get(token) {
            Some(entry) if entry.pending.progress_token.as_ref() == Some(token) => token,
            _ => self.tokens.get(token)?,
        };
        let pending = &mut self.requests.get_mut(id)?.pending;
        pending.progress = pending.progress.saturating_add(1);
        pending.heard = pending.heard.max(now);
        Some(pending)
    }

    /// Marks requests about which nothing was heard for `patience` nanoseconds until `now`, and hands
    /// each to `note`, once. Costs nothing while there can be none.
    pub fn overdue(
        &mut self,
        now: Timestamp,
        patience: u64,
        mut note: impl FnMut(&IdKey, &PendingRequest),
    ) {
        if now.nanos_since(self.earliest) < patience {
            return;
        }
        let mut earliest = Timestamp(u64::MAX);
        for (id, Entry { pending, .. }) in &mut self.requests {
            if pending.overdue || !pending.expects_answer_soon() {
                continue;
            }
            if now.nanos_since(pending.heard) >= patience {
                pending.overdue = true;
                note(id, pending);
            } else {
                earliest = earliest.min(pending.heard);
            }
        }
        self.earliest = earliest;
    }

    /// Treats all of these requests as heard of now: the other side is waiting for an answer itself.
    pub fn hear_all(&mut self, now: Timestamp) {
        for entry in self.requests.values_mut() {
            entry.pending.heard = entry.pending.heard.max(now);
        }
    }

    /// The requests in flight, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &PendingRequest> {
        self.requests.values().map(|entry| &entry.pending)
    }

    /// Whether any of them expects an answer, soon or not.
    pub fn expects_answers(&self) -> bool {
        self.iter().any(PendingRequest::expects_answer)
    }

    /// The number of requests in flight.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether no request is in flight.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether requests above the maximum were forgotten, so that an answer may have no request.
    pub fn has_forgotten(&self) -> bool {
        self.forgotten > 0
    }

    /// The number of requests without an answer: in flight, forgotten, or replaced by another with the same
    /// id. Cancelled and open-ended requests do not count.
    pub fn unanswered(&self) -> u64 {
        let waiting = self
            .requests
            .values()
            .filter(|entry| entry.pending.expects_answer())
            .count();
        waiting as u64 + self.forgotten + self.reused
    }
}

/// Bytes of names and ids of a request.
fn text(id: &IdKey, entry: &Entry) -> usize {
    let PendingRequest {
        method,
        tool,
        cursor,
        progress_token,
        ..
    } = &entry.pending;
    let method = match method {
        MethodName::Known(_) => 0,
        MethodName::Other(name) => name.len(),
    };
    let tool = tool.as_ref().map_or(0, |tool| tool.len());
    let tokens = [cursor, progress_token].into_iter().flatten();
    // The order has the id, too, but shares its text.
    id.text() + tokens.map(IdKey::text).sum::<usize>() + method + tool
}

fn is_current(requests: &HashMap<IdKey, Entry>, number: u64, id: &IdKey) -> bool {
    requests.get(id).is_some_and(|entry| entry.number == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(time: u64) -> PendingRequest {
        PendingRequest::new(MethodName::new("tools/call"), Timestamp(time), 0)
    }

    fn time(pending: Option<PendingRequest>) -> Option<u64> {
        pending.map(|pending| pending.time.0)
    }

    #[test]
    fn answers_find_their_request_once() {
        let mut table = InFlight::new(10);
        table.insert(IdKey::Number(1), pending(1));
        table.insert(IdKey::Number(2), pending(2));
        assert_eq!(time(table.take(&IdKey::Number(2))), Some(2));
        assert_eq!(time(table.take(&IdKey::Number(2))), None);
        assert_eq!(time(table.take(&IdKey::Text("1".into()))), Some(1));
        assert!(table.is_empty());
        assert_eq!(table.unanswered(), 0);
    }

    #[test]
    fn above_the_maximum_the_oldest_is_forgotten() {
        let mut table = InFlight::new(3);
        for number in 0..3 {
            table.insert(IdKey::Number(number), pending(0));
        }
        assert!(!table.has_forgotten());
        table.insert(IdKey::Number(3), pending(0));
        assert_eq!((table.len(), table.unanswered()), (3, 4));
        assert!(table.take(&IdKey::Number(0)).is_none());
        assert!(table.take(&IdKey::Number(1)).is_some());
    }

    #[test]
    fn requests_with_long_names_are_fewer() {
        let mut table = InFlight::new(100);
        for number in 0..1000 {
            let tool = Some("t".repeat(256).into());
            table.insert(IdKey::Number(number), PendingRequest { tool, ..pending(0) });
        }
        assert_eq!((table.len(), table.unanswered()), (50, 1000));
        for number in 0..1000 {
            table.take(&IdKey::Number(number));
        }
        assert_eq!(table.text, 0);
    }

    #[test]
    fn a_reused_id_is_the_newer_request_with_an_age_of_its_own() {
        let mut table = InFlight::new(2);
        table.insert(IdKey::Number(1), pending(1));
        table.insert(IdKey::Number(1), pending(2));
        table.insert(IdKey::Number(2), pending(3));
        assert_eq!(table.len(), 2);
        assert_eq!(time(table.take(&IdKey::Number(1))), Some(2));
        assert_eq!(table.unanswered(), 2);
    }

    #[test]
    fn cancelled_and_open_ended_requests_do_not_count_as_unanswered() {
        let mut table = InFlight::new(10);
        table.insert(IdKey::Number(1), pending(1));
        table.cancel(&IdKey::Number(1));
        let listen = PendingRequest {
            method: MethodName::new("subscriptions/listen"),
            ..pending(2)
        };
        table.insert(IdKey::Number(2), listen);
        assert_eq!(table.unanswered(), 0);
        assert!(
            table
                .take(&IdKey::Number(1))
                .is_some_and(|pending| pending.cancelled)
        );
    }

    #[test]
    fn what_waits_too_long_is_noted_once_and_still_found() {
        let mut table = InFlight::new(10);
        let noted = |table: &mut InFlight, now| {
            let mut noted = Vec::new();
            table.overdue(Timestamp(now), 100, |id, _| noted.push(id.clone()));
            noted
        };
        table.insert(IdKey::Number(1), pending(0));
        table.insert(IdKey::Number(2), pending(50));
        assert!(noted(&mut table, 99).is_empty());
        assert_eq!(noted(&mut table, 100), [IdKey::Number(1)]);
        assert!(noted(&mut table, 149).is_empty());
        assert_eq!(noted(&mut table, 1000), [IdKey::Number(2)]);
        assert!(noted(&mut table, 2000).is_empty());
        assert!(
            table
                .take(&IdKey::Number(1))
                .is_some_and(|pending| pending.overdue)
        );
        for method in ["subscriptions/listen", "elicitation/create", "tasks/result"] {
            let method = MethodName::new(method);
            let request = PendingRequest::new(method, Timestamp(0), 0);
            table.insert(IdKey::Number(3), request);
            assert!(noted(&mut table, 5000).is_empty());
        }
    }

    #[test]
    fn progress_is_a_sign_of_life_by_any_token() {
        let mut table = InFlight::new(10);
        for (id, token) in [(1, IdKey::Number(1)), (2, IdKey::of_text("t"))] {
            let progress_token = Some(token);
            let request = PendingRequest {
                progress_token,
                ..pending(0)
            };
            table.insert(IdKey::Number(id), request);
        }
        table.insert(IdKey::Number(3), pending(0));
        let progress = |table: &mut InFlight, token, now| {
            let request = table.progress(&token, Timestamp(now));
            request.map(|request| request.progress)
        };
        assert_eq!(progress(&mut table, IdKey::Number(1), 90), Some(1));
        assert_eq!(progress(&mut table, IdKey::of_text("t"), 95), Some(1));
        assert_eq!(progress(&mut table, IdKey::of_text("t"), 96), Some(2));
        // The third never gave a token.
        assert_eq!(progress(&mut table, IdKey::Number(3), 90), None);
        let mut noted = Vec::new();
        table.overdue(Timestamp(100), 100, |id, _| noted.push(id.clone()));
        assert_eq!(noted, [IdKey::Number(3)]);
        table.take(&IdKey::Number(2));
        assert_eq!(progress(&mut table, IdKey::of_text("t"), 99), None);
        assert!(table.tokens.is_empty());
    }

    #[test]
    fn answered_ids_are_remembered_for_a_while() {
        let mut table = InFlight::new(10);
        for number in 0..=64 {
            table.insert(IdKey::Number(number), pending(0));
            table.take(&IdKey::Number(number));
        }
        assert!(!table.was_answered(&IdKey::Number(0)));
        assert!(table.was_answered(&IdKey::Number(1)));
        assert!(table.was_answered(&IdKey::of_text("64")));
        assert!(!table.was_answered(&IdKey::Number(65)));
    }

    #[test]
    fn the_order_does_not_outgrow_the_requests() {
        let mut table = InFlight::new(1000);
        table.insert(IdKey::Number(-1), pending(0));
        for number in 0..100_000 {
            table.insert(IdKey::Number(number), pending(0));
            table.take(&IdKey::Number(number));
        }
        assert!(table.order.len() < 100);
    }
}
