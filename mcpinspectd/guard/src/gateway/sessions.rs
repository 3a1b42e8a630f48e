//! The policy's memory of each session, found by what a request says about its session.
//!
//! Streamable HTTP names a session in a field, and the older transport in the URL that messages are posted to.
//! Clients with neither share the memory of all that come from the same address with the same credentials.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use tokio::sync::mpsc::Sender;

use crate::judge::Judge;

/// How long to remember an inactive session.
const IDLE: Duration = Duration::from_secs(3600);

/// A session.
pub struct Party {
    pub judge: Judge,
    /// The older transport's stream of events.
    pub beside: OnceLock<Sender<Bytes>>,
}

impl Party {
    pub fn new(judge: Judge) -> Arc<Self> {
        Arc::new(Self {
            judge,
            beside: OnceLock::new(),
        })
    }
}

/// What a request says about its session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// `Mcp-Session-Id`.
    Session(Box<[u8]>),
    /// The path and query that messages are posted to.
    Endpoint(Box<str>),
    /// Nothing: a hash of who asks.
    Nobody(u64),
}

/// All sessions.
pub struct Table {
    known: Mutex<HashMap<Key, Known>>,
    max: usize,
}

struct Known {
    party: Arc<Party>,
    used: Instant,
}

/// All sessions that there is room for are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Table {
    /// At most `max` sessions.
    pub fn new(max: usize) -> Self {
        Self {
            known: Mutex::default(),
            max,
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no session is remembered.
    pub fn is_empty(&self) -> bool {
        self.known().is_empty()
    }

    /// The session with this name, if it is known.
    pub fn find(&self, key: &Key) -> Option<Arc<Party>> {
        let mut known = self.known();
        let found = known.get_mut(key)?;
        found.used = Instant::now();
        Some(Arc::clone(&found.party))
    }

    /// The session with this name, or a new one.
    pub fn find_or(&self, key: Key, new: impl FnOnce() -> Arc<Party>) -> Result<Arc<Party>, Full> {
        match self.find(&key) {
            Some(party) => Ok(party),
            None => self.add(key, new()),
        }
    }

    /// Names a session. The first name stays.
    pub fn add(&self, key: Key, party: Arc<Party>) -> Result<Arc<Party>, Full> {
        let mut known = self.known();
        let now = Instant::now();
        if !known.contains_key(&key) && known.len() >= self.max {
            let idle = |known: &Known| Arc::strong_count(&known.party) == 1;
            known.retain(|_, known| !idle(known) || now.duration_since(known.used) < IDLE);
            if known.len() >= self.max {
                let unused = known.iter().filter(|(_, known)| idle(known));
                let oldest = unused.min_by_key(|(_, known)| known.used);
                let oldest = oldest.map(|(key, _)| key.clone()).ok_or(Full)?;
                known.remove(&oldest);
            }
        }
        let entry = known.entry(key).or_insert(Known { party, used: now });
        Ok(Arc::clone(&entry.party))
    }

    /// Forgets a session.
    pub fn remove(&self, key: &Key) {
        self.known().remove(key);
    }

    /// Forgets those that have long been inactive.
    pub fn forget_idle(&self) {
        let now = Instant::now();
        self.known().retain(|_, known| {
            Arc::strong_count(&known.party) > 1 || now.duration_since(known.used) < IDLE
        });
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_judge::policy::Policy;
    use mcpinspect_judge::policy::situation::Parties;

    use super::*;
    use crate::judge::Bench;
    use crate::log::Log;
    use crate::on_failure::OnFailure;

    fn party() -> Arc<Party> {
        let log = Log::open(None).unwrap();
        let bench = Bench::start(Policy::default(), OnFailure::Closed, log, "s");
        Party::new(Judge::over_http(Arc::new(bench.unwrap()), Parties::of("s")))
    }

    #[test]
    fn what_is_longest_unused_makes_way_and_what_is_in_use_stays() {
        let table = Table::new(3);
        let key = |number: u8| Key::Session([number].into());
        let used = table.find_or(key(0), party).unwrap();
        for number in 1..10 {
            table.find_or(key(number), party).unwrap();
        }
        assert_eq!(table.known().len(), 3);
        assert!(Arc::ptr_eq(&used, &table.find(&key(0)).unwrap()));
        assert!(table.find(&key(9)).is_some() && table.find(&key(7)).is_none());
        let others = [8, 9].map(|number| table.find(&key(number)).unwrap());
        assert_eq!(table.find_or(key(99), party).err(), Some(Full));
        drop(others);
        assert!(table.find_or(key(99), party).is_ok());
        table.remove(&key(99));
        assert!(table.find(&key(99)).is_none());
    }
}
