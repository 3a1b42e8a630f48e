//! All followed sessions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mcpinspect_core::model::{BootTime, SessionId};

use super::backlog::Backlog;
use super::flow::SessionIndex;
use super::session::TrackedSession;
use super::shares::Uid;

/// The sessions by their index, oldest first. There are never more than the limit allows.
///
/// The room is shared: when it is full, a user with fewer sessions than another gets a place from
/// the one with the most.
#[derive(Debug)]
pub struct TrackedSessions {
    by_index: BTreeMap<SessionIndex, TrackedSession>,
    next: SessionIndex,
    /// Distinguishes the sessions of this run from those of others.
    run: String,
    max: usize,
    refused: u64,
    backlog: Backlog,
}

/// Whether there is room for one more session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is.
    Free,
    /// If this one ends: the longest-quiet session of the user with the most.
    InPlaceOf(SessionIndex),
    /// There is none for this user.
    None,
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
            backlog: Backlog::default(),
        }
    }

    /// Whether there is room for a session of `user`.
    pub fn room_for(&self, user: Uid) -> Room {
        if self.has_room() {
            return Room::Free;
        }
        let mut counts: HashMap<Uid, usize> = HashMap::new();
        for session in self.by_index.values() {
            *counts.entry(session.owner).or_default() += 1;
        }
        let own = counts.get(&user).copied().unwrap_or(0);
        let most = counts
            .into_iter()
            .max_by_key(|(user, count)| (*count, *user));
        let Some((most, _)) = most.filter(|(_, count)| *count > own + 1) else {
            return Room::None;
        };
        self.by_index
            .iter()
            .filter(|(_, session)| session.owner == most)
            .min_by_key(|(_, session)| session.last_active)
            .map_or(Room::None, |(index, _)| Room::InPlaceOf(*index))
    }

    /// Whether there is room for a session of any user.
    pub fn has_room(&self) -> bool {
        self.by_index.len() < self.max
    }

    /// Adds a session of `owner`. Returns `None` if there is no room for it.
    pub fn add(&mut self, owner: Uid, now: BootTime) -> Option<SessionIndex> {
        if !self.has_room() {
            return None;
        }
        let index = self.next;
        self.next += 1;
        let id = SessionId(Arc::from(format!("{}-{index}", self.run)));
        self.by_index
            .insert(index, TrackedSession::new(id, owner, now));
        Some(index)
    }

    /// Counts a session for which there was no room.
    pub fn refuse(&mut self) {
        self.refused += 1;
    }

    /// A session.
    pub fn get(&self, index: SessionIndex) -> Option<&TrackedSession> {
        self.by_index.get(&index)
    }

    /// A session, to change it.
    pub fn get_mut(&mut self, index: SessionIndex) -> Option<&mut TrackedSession> {
        self.by_index.get_mut(&index)
    }

    /// Whether a session was announced.
    pub fn is_announced(&self, index: SessionIndex) -> bool {
        self.get(index).is_some_and(|session| session.announced)
    }

    /// Forgets a session.
    pub fn remove(&mut self, index: SessionIndex) {
        self.by_index.remove(&index);
        self.backlog.set(index, 0);
    }

    /// What waits in sessions.
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Notes how much waits in a session now, in bytes of memory.
    pub fn set_backlog(&mut self, index: SessionIndex, bytes: usize) {
        if self.by_index.contains_key(&index) {
            self.backlog.set(index, bytes);
        }
    }

    /// The session that releases what waits in it if there is too much in all of them: the one with most,
    /// of the user with most.
    pub fn with_most_backlog(&self) -> Option<(Uid, SessionIndex)> {
        let mut users: HashMap<Uid, (usize, SessionIndex, usize)> = HashMap::new();
        for (index, bytes) in self.backlog.iter() {
            let Some(owner) = self.get(index).map(|session| session.owner) else {
                continue;
            };
            let (sum, most, of_most) = users.entry(owner).or_insert((0, index, 0));
            *sum += bytes;
            if bytes > *of_most {
                (*most, *of_most) = (index, bytes);
            }
        }
        users
            .into_iter()
            .max_by_key(|(user, (sum, ..))| (*sum, *user))
            .map(|(user, (_, index, _))| (user, index))
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

    /// How many were not followed, at least for a time, because there was no room for them.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::EndReason;

    use super::*;

    #[test]
    fn names_are_not_reused_and_there_are_never_too_many() {
        let mut sessions = TrackedSessions::new("run".to_owned(), 2);
        assert_eq!(
            (sessions.add(1, BootTime(0)), sessions.add(1, BootTime(0))),
            (Some(0), Some(1))
        );
        assert_eq!((sessions.add(1, BootTime(0)), sessions.len()), (None, 2));
        sessions.remove(0);
        assert_eq!(sessions.add(1, BootTime(0)), Some(2));
        let names: Vec<_> = sessions
            .iter()
            .map(|(_, session)| session.id.to_string())
            .collect();
        assert_eq!(names, ["run-1", "run-2"]);
    }

    #[test]
    fn a_user_who_has_fewer_takes_the_quietest_place_of_the_one_who_has_most() {
        let mut sessions = TrackedSessions::new("run".to_owned(), 4);
        for (owner, now) in [(1, 30), (1, 10), (1, 20), (2, 0)] {
            sessions.add(owner, BootTime(now));
        }
        assert_eq!(sessions.room_for(1), Room::None, "has most");
        assert_eq!(sessions.room_for(2), Room::InPlaceOf(1));
        assert_eq!(sessions.room_for(3), Room::InPlaceOf(1));
        sessions.remove(1);
        assert_eq!(sessions.room_for(1), Room::Free);
        sessions.add(2, BootTime(40));
        assert_eq!(sessions.room_for(2), Room::None, "as many as the other");
        assert_eq!(sessions.room_for(1), Room::None);
        assert_eq!(sessions.room_for(3), Room::InPlaceOf(3), "two against none");
    }

    #[test]
    fn the_largest_backlog_of_the_user_with_most_goes_first() {
        let mut sessions = TrackedSessions::new("run".to_owned(), 4);
        for (owner, backlog) in [(1, 30), (1, 50), (2, 60), (1, 0)] {
            let index = sessions.add(owner, BootTime(0)).expect("room");
            sessions.set_backlog(index, backlog);
        }
        assert_eq!(sessions.backlog().bytes(), 140);
        assert_eq!(sessions.with_most_backlog(), Some((1, 1)));
        sessions.remove(1);
        assert_eq!(sessions.backlog().bytes(), 90);
        assert_eq!(sessions.with_most_backlog(), Some((2, 2)));
        sessions.set_backlog(1, 7);
        assert_eq!(sessions.backlog().bytes(), 90, "it has ended");
    }

    #[test]
    fn sessions_are_selected_oldest_first() {
        let mut sessions = TrackedSessions::new("run".to_owned(), 4);
        for _ in 0..4 {
            sessions.add(1, BootTime(0));
        }
        for index in [3, 1] {
            sessions
                .get_mut(index)
                .expect("there")
                .close(BootTime(5), EndReason::ServerExited);
        }
        let closing = sessions.indices(|session| session.closing.is_some());
        assert_eq!(closing, [1, 3]);
    }
}
