//! Which messages wait at a guard's fronts, found by their content.
//!
//! A guard between many clients and a server has a front for each client, and a message of the back may
//! belong to any of them. Searching everything that waits would let a guard that passes on many odd lines slow
//! down every session; a hash table finds the message at once.

use std::collections::{HashMap, VecDeque};

use mcpinspect_core::model::{Direction, SessionId};

/// See the module documentation.
#[derive(Default)]
pub(super) struct PendingIndex {
    /// The last sequence number given out.
    last: u64,
    /// Of equal messages, the oldest comes first.
    lines: HashMap<(Direction, u64), VecDeque<(u64, SessionId)>>,
}

impl PendingIndex {
    /// The sequence number for whatever starts waiting now.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Adds a message that waits at a front. Returns its sequence number.
    pub(super) fn insert(&mut self, direction: Direction, hash: u64, front: &SessionId) -> u64 {
        let sequence = self.next_sequence();
        let same = self.lines.entry((direction, hash)).or_default();
        same.push_back((sequence, front.clone()));
        sequence
    }

    /// Removes and returns the oldest message with this hash, and its front.
    pub(super) fn take_oldest(
        &mut self,
        direction: Direction,
        hash: u64,
    ) -> Option<(u64, SessionId)> {
        let same = self.lines.get_mut(&(direction, hash))?;
        let found = same.pop_front();
        if same.is_empty() {
            self.lines.remove(&(direction, hash));
        }
        found
    }

    /// Removes a message.
    pub(super) fn remove(&mut self, direction: Direction, hash: u64, sequence: u64) {
        let Some(same) = self.lines.get_mut(&(direction, hash)) else {
            return;
        };
        if let Ok(at) = same.binary_search_by_key(&sequence, |(sequence, _)| *sequence) {
            same.remove(at);
        }
        if same.is_empty() {
            self.lines.remove(&(direction, hash));
        }
    }
}
