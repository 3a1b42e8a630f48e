//! Requests that wait for their answer.
//!
//! An answer may take a day, so nothing expires by time; a session may have ten thousand requests in
//! flight, so an entry is small; and a client may send requests forever without an answer, so above a
//! maximum the oldest request is forgotten and counted.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::id::IdKey;
use crate::mcp::method::{self, MethodName};
use crate::model::Timestamp;

/// The default for the number of requests that are kept per direction.
pub const DEFAULT_MAX_IN_FLIGHT: usize = 16_384;

/// Bytes of names and ids that the requests of one direction may have on average, above which the oldest
/// are forgotten as well. Ordinary ones have a tenth of that.
const TEXT_EACH: usize = 128;

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
    /// Whether its sender has cancelled it. An answer may still be on its way.
    pub cancelled: bool,
    /// Number of the message that it came in; see [`Session::count_message`](super::Session::count_message).
    pub sequence: u64,
}

impl PendingRequest {
    /// Whether a missing answer counts as missing.
    fn expects_answer(&self) -> bool {
        !self.cancelled && !method::stays_open(&self.method)
    }
}

/// The requests of one direction that wait for their answer.
#[derive(Debug)]
pub struct InFlight {
    limit: usize,
    requests: HashMap<IdKey, Entry>,
    /// Oldest first. Entries of answered requests stay until the next clean-up.
    order: VecDeque<(u64, IdKey)>,
    /// Counts insertions, to tell a reused id's entries in `order` apart.
    counter: u64,
    /// Bytes of names and ids.
    text: usize,
    forgotten: u64,
    reused: u64,
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
        if let Some(previous) = self.requests.insert(id.clone(), entry) {
            self.text -= text(&id, &previous);
            self.reused += u64::from(previous.pending.expects_answer());
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
                    self.text -= text(&id, &entry);
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
        self.text -= text(&id, &entry);
        if self.requests.is_empty() {
            self.order.clear();
            // Return the memory of a burst.
            self.requests.shrink_to(64);
            self.order.shrink_to(64);
        }
        Some(entry.pending)
    }

    /// Notes that the sender of this request has cancelled it.
    pub fn cancel(&mut self, id: &IdKey) {
        if let Some(entry) = self.requests.get_mut(id) {
            entry.pending.cancelled = true;
        }
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
        ..
    } = &entry.pending;
    let method = match method {
        MethodName::Known(_) => 0,
        MethodName::Other(name) => name.len(),
    };
    let tool = tool.as_ref().map_or(0, |tool| tool.len());
    // The order has the id, too, but shares its text.
    id.text() + cursor.as_ref().map_or(0, IdKey::text) + method + tool
}

fn is_current(requests: &HashMap<IdKey, Entry>, number: u64, id: &IdKey) -> bool {
    requests.get(id).is_some_and(|entry| entry.number == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(time: u64) -> PendingRequest {
        PendingRequest {
            method: MethodName::new("tools/call"),
            tool: None,
            time: Timestamp(time),
            cursor: None,
            retries: 0,
            cancelled: false,
            sequence: 0,
        }
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
