//! All sessions that are followed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::flow::SessionIndex;
use super::session::TrackedSession;
use crate::model::SessionId;

/// The sessions by their index, oldest first. There are never more than the limit allows; what
/// comes above it is counted.
#[derive(Debug)]
pub struct TrackedSessions {
    by_index: BTreeMap<SessionIndex, TrackedSession>,
    next: SessionIndex,
    /// Distinguishes the sessions of this run from those of others.
    run: String,
    max: usize,
    refused: u64,
    /// Whether a refusal was logged since there was room last.
    refusal_logged: bool,
}

impl TrackedSessions {
    /// An empty table for up to `max` sessions, whose names begin with `run`.
    pub fn new(run: String, max: usize) -> Self {
        Self {
            by_index: BTreeMap::new(),
            next: 0,
            run,
            max,
            refused: 0,
            refusal_logged: false,
        }
    }

    /// Adds a session. Returns `None`, and counts that, where there is no room for it.
    pub fn add(&mut self) -> Option<SessionIndex> {
        if self.by_index.len() >= self.max {
            self.refused += 1;
            if !std::mem::replace(&mut self.refusal_logged, true) {
                tracing::warn!(
                    sessions = self.by_index.len(),
                    refused = self.refused,
                    "as many sessions as `limits.sessions` allows; new ones are not followed until one ends"
                );
            }
            return None;
        }
        self.refusal_logged = false;
        let index = self.next;
        self.next += 1;
        let id = SessionId(Arc::from(format!("{}-{index}", self.run)));
        self.by_index.insert(index, TrackedSession::new(id));
        Some(index)
    }

    /// A session.
    pub fn get(&self, index: SessionIndex) -> Option<&TrackedSession> {
        self.by_index.get(&index)
    }

    /// A session, to change it.
    pub fn get_mut(&mut self, index: SessionIndex) -> Option<&mut TrackedSession> {
        self.by_index.get_mut(&index)
    }

    /// Forgets a session.
    pub fn remove(&mut self, index: SessionIndex) {
        self.by_index.remove(&index);
    }

    /// All sessions, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (SessionIndex, &TrackedSession)> {
        self.by_index
            .iter()
            .map(|(index, session)| (*index, session))
    }

    /// All sessions, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut TrackedSession> {
        self.by_index.values_mut()
    }

    /// The sessions for which `wanted` holds.
    pub fn indices(&self, wanted: impl Fn(&TrackedSession) -> bool) -> Vec<SessionIndex> {
        self.iter()
            .filter(|(_, session)| wanted(session))
            .map(|(index, _)| index)
            .collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_index.len()
    }

    /// How many there was no room for.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a failing test may panic")]
mod tests {
    use super::*;
    use crate::model::EndReason;

    #[test]
    fn names_are_not_reused_and_there_are_never_too_many() {
        let mut sessions = TrackedSessions::new("run".to_owned(), 2);
        assert_eq!((sessions.add(), sessions.add()), (Some(0), Some(1)));
        assert_eq!((sessions.add(), sessions.add()), (None, None));
        assert_eq!((sessions.len(), sessions.refused()), (2, 2));
        sessions.remove(0);
        assert_eq!(sessions.add(), Some(2));
        assert_eq!((sessions.len(), sessions.refused()), (2, 2));
        let names: Vec<_> = sessions
            .iter()
            .map(|(_, session)| session.id.to_string())
            .collect();
        assert_eq!(names, ["run-1", "run-2"]);
    }

    #[test]
    fn sessions_are_selected_oldest_first() {
        let mut sessions = TrackedSessions::new("run".to_owned(), 4);
        for _ in 0..4 {
            sessions.add();
        }
        for index in [3, 1] {
            sessions
                .get_mut(index)
                .expect("there")
                .close(5, EndReason::ServerExited);
        }
        let closing = sessions.indices(|session| session.closing.is_some());
        assert_eq!(closing, [1, 3]);
    }
}
