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
use super::refusals::{self, Refusals};
use super::room::Room;
use super::sessions::{Full, Key, Party, Table};
use super::upstream::Upstream;
use crate::judge::{Bench, Judge};

/// What all servers share.
#[derive(Clone)]
pub struct Shared {
    pub room: Arc<Room>,
    /// Most sessions with a server.
    pub sessions: usize,
    pub bench: Arc<Bench>,
    /// Becomes true at the end.
    pub ending: watch::Receiver<bool>,
}

/// What all connections to a server share.
pub struct Hub {
    pub upstream: Upstream,
    pub gate: Gate,
    pub table: Table,
    pub room: Arc<Room>,
    /// Becomes true at the end.
    pub ending: watch::Receiver<bool>,
    bench: Arc<Bench>,
    parties: Parties,
    refusals: Refusals,
    exchanges: AtomicU64,
    hasher: RandomState,
}

/// A session, and its exchange that ids belong to; 0 is the session.
pub type Place = (Arc<Party>, u64);

impl Hub {
    pub fn new(upstream: Upstream, gate: Gate, shared: &Shared, parties: Parties) -> Self {
        Self {
            upstream,
            gate,
            table: Table::new(shared.sessions),
            room: Arc::clone(&shared.room),
            ending: shared.ending.clone(),
            bench: Arc::clone(&shared.bench),
            parties,
            refusals: Refusals::default(),
            exchanges: AtomicU64::new(1),
            hasher: RandomState::new(),
        }
    }

    /// A new session.
    pub fn party(&self) -> Arc<Party> {
        Party::new(Judge::over_http(
            Arc::clone(&self.bench),
            self.parties.clone(),
        ))
    }

    /// Records that a request was not admitted.
    pub fn refused(&self, request: &refusals::Request, reason: &'static str) {
        let record = self.refusals.record(&self.parties.server, request, reason);
        self.bench.effects.tell(record.as_slice());
    }

    /// The key for clients that name no session.
    pub fn nobody(&self, peer: IpAddr, headers: &HeaderMap) -> Key {
        let credentials = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        Key::Nobody(self.hasher.hash_one((peer, credentials)))
    }

    /// The session that a request belongs to. `begins` tells that it belongs to none yet.
    pub fn place(
        &self,
        peer: IpAddr,
        path: &str,
        headers: &HeaderMap,
        begins: bool,
    ) -> Result<Place, Full> {
        if let Some(session) = headers.get(SESSION) {
            let key = Key::Session(session.as_bytes().into());
            return Ok((self.table.find_or(key, || self.party())?, 0));
        }
        if let Some(party) = self.table.find(&Key::Endpoint(path.into())) {
            return Ok((party, 0));
        }
        if begins {
            return Ok((self.party(), 0));
        }
        let party = self
            .table
            .find_or(self.nobody(peer, headers), || self.party())?;
        Ok((party, self.exchanges.fetch_add(1, Ordering::Relaxed)))
    }
}
