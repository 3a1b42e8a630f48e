//! How much happens in a session, and when that is unusual.

use std::collections::HashMap;

use mcpinspect_core::model::{SessionId, Timestamp};

use super::rate_counter::RateCounter;

/// Most sessions to count.
const SESSIONS: usize = 4096;
/// Most tools of a session whose calls are counted.
const COUNTED_TOOLS: usize = 256;
/// Calls of one tool in a minute that are still usual.
const CALLS: u32 = 600;
/// Errors of one session in a minute that are still usual.
const ERRORS: u32 = 60;
/// Sampling requests of one session in a minute that are still usual.
const SAMPLINGS: u32 = 20;

/// The activity of all sessions.
#[derive(Debug, Default)]
pub(super) struct Activity {
    sessions: HashMap<SessionId, SessionActivity>,
}

#[derive(Debug, Default)]
struct SessionActivity {
    calls: u32,
    tools: HashMap<Box<str>, RateCounter>,
    errors: RateCounter,
    samplings: RateCounter,
}

impl Activity {
    /// How many calls a session has made.
    pub(super) fn calls(&self, session: &SessionId) -> u32 {
        self.sessions
            .get(session)
            .map_or(0, |activity| activity.calls)
    }

    /// Counts a call. Returns the tool's calls in this minute when they become unusual.
    pub(super) fn call(&mut self, session: &SessionId, tool: &str, now: Timestamp) -> Option<u32> {
        let activity = self.session(session)?;
        activity.calls = activity.calls.saturating_add(1);
        let room = activity.tools.len() < COUNTED_TOOLS;
        if room && !activity.tools.contains_key(tool) {
            activity.tools.insert(tool.into(), RateCounter::default());
        }
        activity.tools.get_mut(tool)?.count(now, CALLS)
    }

    /// Counts an error. Returns the errors in this minute when they become unusual.
    pub(super) fn error(&mut self, session: &SessionId, now: Timestamp) -> Option<u32> {
        self.session(session)?.errors.count(now, ERRORS)
    }

    /// Counts a sampling request. Returns the requests in this minute when they become unusual.
    pub(super) fn sampling(&mut self, session: &SessionId, now: Timestamp) -> Option<u32> {
        self.session(session)?.samplings.count(now, SAMPLINGS)
    }

    /// Drops what is kept about a session that has ended.
    pub(super) fn session_ended(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }

    /// A session's activity; `None` if too many sessions are counted.
    fn session(&mut self, session: &SessionId) -> Option<&mut SessionActivity> {
        if !self.sessions.contains_key(session) && self.sessions.len() >= SESSIONS {
            return None;
        }
        Some(self.sessions.entry(session.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_about_a_session_that_has_ended() {
        let mut activity = Activity::default();
        let session = SessionId("s".into());
        assert_eq!(activity.call(&session, "tool", Timestamp(1)), None);
        assert_eq!(activity.calls(&session), 1);
        activity.session_ended(&session);
        assert!(activity.sessions.is_empty());
        assert_eq!(activity.calls(&session), 0);
    }

    #[test]
    fn the_number_of_sessions_and_tools_is_bounded() {
        let mut activity = Activity::default();
        for number in 0..SESSIONS + 10 {
            let session = SessionId(number.to_string().into());
            activity.call(&session, "tool", Timestamp(1));
        }
        assert_eq!(activity.sessions.len(), SESSIONS);
        let session = SessionId("0".into());
        for number in 0..COUNTED_TOOLS + 10 {
            activity.call(&session, &number.to_string(), Timestamp(1));
        }
        assert_eq!(activity.sessions[&session].tools.len(), COUNTED_TOOLS);
    }
}
