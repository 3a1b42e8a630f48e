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
pub struct ClientSession {
    pub judge: Judge,
    /// The older transport's stream of events.
    pub beside: OnceLock<Sender<Bytes>>,
}

impl ClientSession {
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
pub struct ClientSessions {
    entries: Mutex<HashMap<Key, SessionEntry>>,
    max: usize,
}

struct SessionEntry {
    client_session: Arc<ClientSession>,
    used: Instant,
}

/// All sessions that there is room for are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl ClientSessions {
    /// At most `max` sessions.
    pub fn new(max: usize) -> Self {
        Self {
            entries: Mutex::default(),
            max,
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, SessionEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no session is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// The session with this name, if it is known.
    pub fn find(&self, key: &Key) -> Option<Arc<ClientSession>> {
        let mut entries = self.entries();
        let entry = entries.get_mut(key)?;
        entry.used = Instant::now();
        Some(Arc::clone(&entry.client_session))
    }

    /// The session with this name, or a new one.
    pub fn find_or(
        &self,
        key: Key,
        new: impl FnOnce() -> Arc<ClientSession>,
    ) -> Result<Arc<ClientSession>, Full> {
        match self.find(&key) {
            Some(client_session) => Ok(client_session),
            None => self.add(key, new()),
        }
    }

    /// Names a session. The first name stays.
    pub fn add(
        &self,
        key: Key,
        client_session: Arc<ClientSession>,
    ) -> Result<Arc<ClientSession>, Full> {
        let mut entries = self.entries();
        let now = Instant::now();
        if !entries.contains_key(&key) && entries.len() >= self.max {
            let idle = |entry: &SessionEntry| Arc::strong_count(&entry.client_session) == 1;
            entries.retain(|_, entry| !idle(entry) || now.duration_since(entry.used) < IDLE);
            if entries.len() >= self.max {
                let unused = entries.iter().filter(|(_, entry)| idle(entry));
                let oldest = unused.min_by_key(|(_, entry)| entry.used);
                let oldest = oldest.map(|(key, _)| key.clone()).ok_or(Full)?;
                entries.remove(&oldest);
            }
        }
        let entry = entries.entry(key).or_insert(SessionEntry {
            client_session,
            used: now,
        });
        Ok(Arc::clone(&entry.client_session))
    }

    /// Forgets a session.
    pub fn remove(&self, key: &Key) {
        self.entries().remove(key);
    }

    /// Forgets those that have long been inactive.
    pub fn forget_idle(&self) {
        let now = Instant::now();
        self.entries().retain(|_, entry| {
            Arc::strong_count(&entry.client_session) > 1 || now.duration_since(entry.used) < IDLE
        });
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_judge::policy::Policy;
    use mcpinspect_judge::policy::situation::Parties;

    use super::*;
    use crate::judge::SharedPolicy;
    use crate::log::Log;
    use crate::on_failure::OnFailure;

    fn client_session() -> Arc<ClientSession> {
        let log = Log::open(None).unwrap();
        let shared_policy = SharedPolicy::start(Policy::default(), OnFailure::Closed, log, "s");
        ClientSession::new(Judge::over_http(
            Arc::new(shared_policy.unwrap()),
            Parties::of("s"),
        ))
    }

    #[test]
    fn what_is_longest_unused_makes_way_and_what_is_in_use_stays() {
        let table = ClientSessions::new(3);
        let key = |number: u8| Key::Session([number].into());
        let used = table.find_or(key(0), client_session).unwrap();
        for number in 1..10 {
            table.find_or(key(number), client_session).unwrap();
        }
        assert_eq!(table.entries().len(), 3);
        assert!(Arc::ptr_eq(&used, &table.find(&key(0)).unwrap()));
        assert!(table.find(&key(9)).is_some() && table.find(&key(7)).is_none());
        let others = [8, 9].map(|number| table.find(&key(number)).unwrap());
        assert_eq!(table.find_or(key(99), client_session).err(), Some(Full));
        drop(others);
        assert!(table.find_or(key(99), client_session).is_ok());
        table.remove(&key(99));
        assert!(table.find(&key(99)).is_none());
    }
}
