//! What all connections share.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::header::{AUTHORIZATION, HeaderMap};
use mcpinspect_judge::policy::situation::Parties;
use tokio::sync::watch;

use super::gate::Gate;
use super::heads::SESSION;
use super::memory::MemoryPool;
use super::refusals::{self, Refusals};
use super::sessions::{ClientSession, ClientSessions, Full, Key};
use super::upstream::Upstream;
use crate::judge::{Judge, SharedPolicy};

/// What all servers share.
#[derive(Clone)]
pub struct Shared {
    pub memory: Arc<MemoryPool>,
    /// Most sessions with a server.
    pub sessions: usize,
    pub shared_policy: Arc<SharedPolicy>,
    /// Becomes true at the end.
    pub ending: watch::Receiver<bool>,
}

/// What all connections to a server share.
pub struct Hub {
    pub upstream: Upstream,
    pub gate: Gate,
    pub table: ClientSessions,
    pub memory: Arc<MemoryPool>,
    /// Becomes true at the end.
    pub ending: watch::Receiver<bool>,
    shared_policy: Arc<SharedPolicy>,
    parties: Parties,
    refusals: Refusals,
    exchanges: AtomicU64,
    hasher: RandomState,
}

/// A session, and its exchange that ids belong to; 0 is the session.
pub type SessionExchange = (Arc<ClientSession>, u64);

impl Hub {
    pub fn new(upstream: Upstream, gate: Gate, shared: &Shared, parties: Parties) -> Self {
        Self {
            upstream,
            gate,
            table: ClientSessions::new(shared.sessions),
            memory: Arc::clone(&shared.memory),
            ending: shared.ending.clone(),
            shared_policy: Arc::clone(&shared.shared_policy),
            parties,
            refusals: Refusals::default(),
            exchanges: AtomicU64::new(1),
            hasher: RandomState::new(),
        }
    }

    /// A new session.
    pub fn client_session(&self) -> Arc<ClientSession> {
        ClientSession::new(Judge::over_http(
            Arc::clone(&self.shared_policy),
            self.parties.clone(),
        ))
    }

    /// Records that a request was not admitted.
    pub fn refused(&self, request: &refusals::RefusedRequest, reason: &'static str) {
        let record = self.refusals.record(&self.parties.server, request, reason);
        self.shared_policy.effects.tell(record.as_slice());
    }

    /// The key for clients that name no session.
    pub fn nobody(&self, peer: IpAddr, headers: &HeaderMap) -> Key {
        let credentials = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        Key::Nobody(self.hasher.hash_one((peer, credentials)))
    }

    /// The session that a request belongs to. `begins` tells that it belongs to none yet.
    pub fn session_exchange(
        &self,
        peer: IpAddr,
        path: &str,
        headers: &HeaderMap,
        begins: bool,
    ) -> Result<SessionExchange, Full> {
        if let Some(session) = headers.get(SESSION) {
            let key = Key::Session(session.as_bytes().into());
            return Ok((self.table.find_or(key, || self.client_session())?, 0));
        }
        if let Some(client_session) = self.table.find(&Key::Endpoint(path.into())) {
            return Ok((client_session, 0));
        }
        if begins {
            return Ok((self.client_session(), 0));
        }
        let client_session = self
            .table
            .find_or(self.nobody(peer, headers), || self.client_session())?;
        Ok((
            client_session,
            self.exchanges.fetch_add(1, Ordering::Relaxed),
        ))
    }
}
