//! Requests waiting for an answer: rules about an answer ask for the method that it answers.

use std::borrow::Cow;
use std::collections::HashMap;

use mcpinspect_core::mcp::method::MethodName;

/// Most requests of a direction that wait for an answer; there are two generations of these.
const MAX_PENDING: usize = 8192;
/// The same if one process has many sessions.
const MAX_PENDING_MANY: usize = 512;
/// Most answered requests to remember; there are two generations of these.
const MAX_ANSWERED: usize = 128;
/// The longest id to match answers by, in bytes.
const MAX_ID: usize = 1024;

/// What a request asks for.
#[derive(Clone, Debug)]
pub(super) struct RequestTarget {
    pub(super) method: MethodName,
    pub(super) tool: Option<Box<str>>,
}

/// The requests of one direction.
#[derive(Debug)]
pub(super) struct PendingRequests {
    open: TwoGenerations,
    /// What was answered and may be answered again: an interrupted stream is resumed from an event that
    /// arrived, and what did not is sent again.
    answered: Option<TwoGenerations>,
}

impl Default for PendingRequests {
    fn default() -> Self {
        Self {
            open: TwoGenerations::new(MAX_PENDING),
            answered: None,
        }
    }
}

impl PendingRequests {
    /// For a transport that may repeat answers.
    pub(super) fn repeating() -> Self {
        Self {
            open: TwoGenerations::new(MAX_PENDING_MANY),
            answered: Some(TwoGenerations::new(MAX_ANSWERED)),
        }
    }

    /// For one of many sessions that are only observed.
    pub(super) fn of_many() -> Self {
        Self {
            open: TwoGenerations::new(MAX_PENDING_MANY),
            answered: None,
        }
    }

    /// How many requests wait.
    pub(super) fn count(&self) -> usize {
        self.open.recent.len() + self.open.older.len()
    }

    /// The only request that waits.
    pub(super) fn only(&self) -> Option<&RequestTarget> {
        let mut all = self.open.recent.values().chain(self.open.older.values());
        all.next().filter(|_| self.count() == 1)
    }

    /// Remembers a request of this exchange.
    pub(super) fn add(&mut self, exchange: u64, id: &str, target: RequestTarget) {
        if id.len() <= MAX_ID {
            self.open.add(&key(exchange, id), target);
        }
    }

    /// The request that an answer of this exchange belongs to, which keeps waiting.
    pub(super) fn peek(&self, exchange: u64, id: &str) -> Option<&RequestTarget> {
        let key = key(exchange, id);
        let answered = || self.answered.as_ref()?.get(&key);
        self.open.get(&key).or_else(answered)
    }

    /// The request that an answer of this exchange belongs to.
    pub(super) fn take(&mut self, exchange: u64, id: &str) -> Option<RequestTarget> {
        let key = key(exchange, id);
        let open = self.open.take(&key);
        let Some(answered) = &mut self.answered else {
            return open;
        };
        match open {
            Some(target) => {
                answered.add(&key, target.clone());
                Some(target)
            }
            None => answered.get(&key).cloned(),
        }
    }
}

/// An id within an exchange; exchange 0 is the session itself. No id begins like the others' keys.
fn key(exchange: u64, id: &str) -> Cow<'_, str> {
    match exchange {
        0 => Cow::Borrowed(id),
        exchange => Cow::Owned(format!("#{exchange} {id}")),
    }
}

/// A table that forgets its older half when it becomes too full.
#[derive(Debug)]
struct TwoGenerations {
    room: usize,
    recent: HashMap<Box<str>, RequestTarget>,
    older: HashMap<Box<str>, RequestTarget>,
}

impl TwoGenerations {
    fn new(room: usize) -> Self {
        Self {
            room,
            recent: HashMap::new(),
            older: HashMap::new(),
        }
    }

    fn add(&mut self, key: &str, target: RequestTarget) {
        if self.recent.len() >= self.room {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(key.into(), target);
    }

    fn get(&self, key: &str) -> Option<&RequestTarget> {
        self.recent.get(key).or_else(|| self.older.get(key))
    }

    fn take(&mut self, key: &str) -> Option<RequestTarget> {
        let older = self.older.remove(key);
        self.recent.remove(key).or(older)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: &str) -> RequestTarget {
        RequestTarget {
            method: MethodName::new(method),
            tool: None,
        }
    }

    fn method(target: Option<RequestTarget>) -> Option<String> {
        target.map(|target| target.method.to_string())
    }

    #[test]
    fn an_answer_belongs_to_its_exchange() {
        let mut pending = PendingRequests::default();
        pending.add(7, "1", target("a"));
        pending.add(8, "1", target("b"));
        assert_eq!(method(pending.take(0, "1")), None);
        assert_eq!(method(pending.take(8, "1")), Some("b".into()));
        assert_eq!(method(pending.take(7, "1")), Some("a".into()));
        assert_eq!(method(pending.take(7, "1")), None);
    }

    #[test]
    fn an_answer_comes_again_where_that_happens() {
        let mut pending = PendingRequests::repeating();
        pending.add(0, "1", target("a"));
        assert_eq!(method(pending.take(0, "1")), Some("a".into()));
        assert_eq!(method(pending.take(0, "1")), Some("a".into()));
        pending.add(0, "1", target("b"));
        assert_eq!(method(pending.take(0, "1")), Some("b".into()));
        assert_eq!(method(pending.take(0, "1")), Some("b".into()));
        for id in 2..10_000 {
            pending.add(0, &id.to_string(), target("c"));
        }
        assert!(pending.open.recent.len() <= MAX_PENDING_MANY);
        assert!(pending.open.older.len() <= MAX_PENDING_MANY);
    }
}
