//! How much waits in sessions: for bytes that have not arrived, for the other end, for its turn, or for the
//! client to show itself.

use std::collections::HashMap;

use super::flow::SessionIndex;

/// The memory taken by what waits, by session. `bytes` is always the sum.
#[derive(Debug, Default)]
pub struct Backlog {
    by_session: HashMap<SessionIndex, usize>,
    bytes: usize,
}

impl Backlog {
    /// How much waits in all sessions.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The sessions in which anything waits.
    pub fn iter(&self) -> impl Iterator<Item = (SessionIndex, usize)> {
        self.by_session
            .iter()
            .map(|(index, bytes)| (*index, *bytes))
    }

    pub(super) fn set(&mut self, session: SessionIndex, bytes: usize) {
        let before = match bytes {
            0 => self.by_session.remove(&session),
            _ => self.by_session.insert(session, bytes),
        };
        self.bytes = self.bytes - before.unwrap_or(0) + bytes;
    }
}
