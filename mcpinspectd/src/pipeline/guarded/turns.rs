//! Which messages wait at the fronts of a guard, found by what they say.
//!
//! A guard that stands between many clients and a server has a front for each client, and a message of the
//! back may be that of any. Looking through all that waits would let a guard that passes on many odd lines slow
//! down every session; a table of hashes finds the message at once.

use std::collections::{HashMap, VecDeque};

use crate::model::{Direction, SessionId};

/// See the module's text.
#[derive(Default)]
pub(super) struct Turns {
    /// The last turn that was given.
    last: u64,
    /// Of equal messages, the one that waits for longest comes first.
    lines: HashMap<(Direction, u64), VecDeque<(u64, SessionId)>>,
}

impl Turns {
    /// The turn of what waits from now on.
    pub(super) fn take(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A message waits at a front. Gives its turn.
    pub(super) fn wait(&mut self, direction: Direction, hash: u64, front: &SessionId) -> u64 {
        let turn = self.take();
        let same = self.lines.entry((direction, hash)).or_default();
        same.push_back((turn, front.clone()));
        turn
    }

    /// The message with this hash that waits for longest, and its front. It waits no longer.
    pub(super) fn find(&mut self, direction: Direction, hash: u64) -> Option<(u64, SessionId)> {
        let same = self.lines.get_mut(&(direction, hash))?;
        let found = same.pop_front();
        if same.is_empty() {
            self.lines.remove(&(direction, hash));
        }
        found
    }

    /// A message waits no longer.
    pub(super) fn end(&mut self, direction: Direction, hash: u64, turn: u64) {
        let Some(same) = self.lines.get_mut(&(direction, hash)) else {
            return;
        };
        if let Ok(at) = same.binary_search_by_key(&turn, |(turn, _)| *turn) {
            same.remove(at);
        }
        if same.is_empty() {
            self.lines.remove(&(direction, hash));
        }
    }
}
