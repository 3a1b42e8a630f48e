//! Requests that wait for their answer.
//!
//! An answer may come after a day, so nothing here expires by time; a session may have ten thousand
//! requests under way, so an entry is small; and a client may ask forever without being answered, so
//! there is a maximum, above which the oldest request is forgotten and counted.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::id::IdKey;
use crate::mcp::method::{self, Kept};
use crate::model::Timestamp;

/// The default for how many requests of one direction are kept.
pub const DEFAULT_MAX_IN_FLIGHT: usize = 65_536;

/// A request under way.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Its method.
    pub method: Kept,
    /// The tool that it calls.
    pub tool: Option<Arc<str>>,
    /// When it was sent.
    pub time: Timestamp,
    /// The page of a list that it asks for; `None` for the first.
    pub cursor: Option<IdKey>,
    /// How often it was sent before, with the input that its results asked for (2026-07-28).
    pub retries: u16,
    /// Whether its sender has called it off. An answer may still be on its way.
    pub cancelled: bool,
}

impl Pending {
    /// Whether a missing answer means that something is missing.
    fn expects_answer(&self) -> bool {
        !self.cancelled && !method::stays_open(&self.method)
    }
}

/// The requests of one direction that wait for their answer.
#[derive(Debug)]
pub struct InFlight {
    limit: usize,
    requests: HashMap<IdKey, Entry>,
    /// Oldest first. Entries of answered requests stay until they are cleared out.
    order: VecDeque<(u64, IdKey)>,
    /// Counts insertions, to tell a reused id's entries in `order` apart.
    counter: u64,
    forgotten: u64,
    reused: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    pending: Pending,
}

impl InFlight {
    /// For at most `limit` requests.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            requests: HashMap::new(),
            order: VecDeque::new(),
            counter: 0,
            forgotten: 0,
            reused: 0,
        }
    }

    /// Notes a request. Where one of the same id is still under way, the newer one takes its place:
    /// a client that uses an id again has given up on the older request.
    pub fn insert(&mut self, id: IdKey, pending: Pending) {
        self.counter += 1;
        let entry = Entry {
            number: self.counter,
            pending,
        };
        if let Some(previous) = self.requests.insert(id.clone(), entry) {
            self.reused += u64::from(previous.pending.expects_answer());
        }
        self.order.push_back((self.counter, id));
        if self.requests.len() > self.limit {
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
                    self.forgotten += u64::from(entry.pending.expects_answer());
                }
                return;
            }
        }
    }

    /// Takes out the request that an answer with this id answers.
    pub fn take(&mut self, id: &IdKey) -> Option<Pending> {
        let entry = self
            .requests
            .remove(id)
            .or_else(|| self.requests.remove(&id.lookalike()?))?;
        if self.requests.is_empty() {
            self.order.clear();
            // A burst's memory is given back.
            self.requests.shrink_to(64);
            self.order.shrink_to(64);
        }
        Some(entry.pending)
    }

    /// Notes that the sender of this request has called it off.
    pub fn cancel(&mut self, id: &IdKey) {
        if let Some(entry) = self.requests.get_mut(id) {
            entry.pending.cancelled = true;
        }
    }

    /// How many requests are under way.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether requests were forgotten above the maximum, so that an answer may find none.
    pub fn has_forgotten(&self) -> bool {
        self.forgotten > 0
    }

    /// How many requests have not been answered: under way, forgotten, or replaced under their id.
    /// Called off and open-ended ones do not count.
    pub fn unanswered(&self) -> u64 {
        let waiting = self
            .requests
            .values()
            .filter(|entry| entry.pending.expects_answer())
            .count();
        waiting as u64 + self.forgotten + self.reused
    }
}

fn is_current(requests: &HashMap<IdKey, Entry>, number: u64, id: &IdKey) -> bool {
    requests.get(id).is_some_and(|entry| entry.number == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(time: u64) -> Pending {
        Pending {
            method: method::keep("tools/call"),
            tool: None,
            time: Timestamp(time),
            cursor: None,
            retries: 0,
            cancelled: false,
        }
    }

    fn time(pending: Option<Pending>) -> Option<u64> {
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
    fn a_reused_id_is_the_newer_request_and_is_not_forgotten_for_the_older_one() {
        let mut table = InFlight::new(2);
        table.insert(IdKey::Number(1), pending(1));
        table.insert(IdKey::Number(1), pending(2));
        table.insert(IdKey::Number(2), pending(3));
        assert_eq!(table.len(), 2);
        assert_eq!(time(table.take(&IdKey::Number(1))), Some(2));
        assert_eq!(table.unanswered(), 2);
    }

    #[test]
    fn called_off_and_open_ended_requests_are_not_missed() {
        let mut table = InFlight::new(10);
        table.insert(IdKey::Number(1), pending(1));
        table.cancel(&IdKey::Number(1));
        let listen = Pending {
            method: method::keep("subscriptions/listen"),
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
