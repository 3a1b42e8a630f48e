//! What moves on the machine: streams, the sessions that they form, and the accounts of those that ended.
//!
//! A session's bytes leave through here. Each of its streams is put in order and compared (`flow`), and the
//! events that come out of both are merged in the order of the kernel's (`reorder_buffer`).

use mcpinspect_common::EndpointKey;
use mcpinspect_core::model::{Account, BootTime};

use super::accounts::ClosedAccounts;
use super::arrivals::Emit;
use super::counts::counted;
use super::environment::Environment;
use super::flow::{Flow, SessionIndex};
use super::output::Output;
use super::reorder_buffer::Watermarks;
use super::sessions::TrackedSessions;
use super::settings::Settings;
use super::streams::StreamTable;

/// The tables of streams and sessions.
#[derive(Debug)]
pub struct Traffic {
    pub streams: StreamTable,
    pub sessions: TrackedSessions,
    pub accounts: ClosedAccounts,
}

impl Traffic {
    /// Nothing yet. The names of sessions begin with `run`.
    pub fn new(run: String, settings: &Settings) -> Self {
        Self {
            streams: StreamTable::new(settings.max_streams_per_user, settings.max_streams),
            sessions: TrackedSessions::new(run, settings.max_sessions),
            accounts: ClosedAccounts::new(settings.max_accounts),
        }
    }

    /// What the streams of all sessions carried since the start, including open ones.
    pub fn account(&self, machine: &dyn Environment) -> Account {
        let mut sum = self.accounts.sum();
        for (key, flow) in self.streams.flows() {
            sum.written += counted(&self.streams, machine, key).written;
            sum.captured += flow.captured();
            sum.lost += flow.lost();
        }
        sum
    }

    /// Lets a flow act, and passes on what comes out of it, and then the events that need no longer wait.
    pub fn pass_on(
        &mut self,
        output: &mut Output<'_>,
        key: EndpointKey,
        now: BootTime,
        act: impl FnOnce(&mut Flow, &mut Emit<'_>),
    ) {
        if let Some(index) = self.pass_on_alone(output, key, act) {
            self.release_ready(output, index, now);
        }
    }

    /// Lets a flow act. What comes out of it is passed on if its session was announced, and is
    /// buffered while the other direction holds back something earlier. Returns the session if something
    /// waits there.
    pub fn pass_on_alone(
        &mut self,
        output: &mut Output<'_>,
        key: EndpointKey,
        act: impl FnOnce(&mut Flow, &mut Emit<'_>),
    ) -> Option<SessionIndex> {
        let index = self.streams.flow(key)?.session();
        let watermarks = self.watermarks(index);
        let flow = self.streams.flow_mut(key)?;
        let session = self.sessions.get_mut(index)?;
        let direction = flow.direction();
        act(flow, &mut |event, time| {
            if !session.announced {
                return;
            }
            if session.reordering.is_empty() && watermarks.allow(direction, time) {
                output.event(&session.id, direction, event, time);
            } else {
                session.reordering.push(direction, time, event.into_owned());
            }
        });
        let twice = flow.counted_twice();
        let waits = !session.reordering.is_empty();
        if twice > 0 {
            self.streams.correct_count(key, twice);
        }
        self.count_backlog(index);
        waits.then_some(index)
    }

    /// Passes on the events of a session that need no longer wait.
    pub fn release_ready(&mut self, output: &mut Output<'_>, index: SessionIndex, now: BootTime) {
        let watermarks = self.watermarks(index);
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        while let Some(first) = session.reordering.pop_ready(watermarks, now) {
            output.event(&session.id, first.direction, first.event, first.time);
        }
        self.count_backlog(index);
    }

    /// Passes on the events that have waited too long. Call this regularly.
    pub fn release_overdue(&mut self, output: &mut Output<'_>, now: BootTime) {
        let waiting = self
            .sessions
            .indices(|session| !session.reordering.is_empty());
        for index in waiting {
            self.release_ready(output, index, now);
        }
    }

    /// Passes on all events of a session that wait: nothing more will arrive.
    pub fn flush(&mut self, output: &mut Output<'_>, index: SessionIndex) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        while let Some(first) = session.reordering.pop() {
            output.event(&session.id, first.direction, first.event, first.time);
        }
        self.count_backlog(index);
    }

    /// Notes how much waits in a session. Call this after each change.
    pub fn count_backlog(&mut self, index: SessionIndex) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let flows = session
            .streams()
            .filter_map(|(key, _)| self.streams.flow(key));
        let in_flows: usize = flows.map(Flow::memory).sum();
        let bytes = in_flows + session.reordering.memory() + session.pending.memory();
        self.sessions.set_backlog(index, bytes);
    }

    /// Up to when the streams of a session are complete.
    fn watermarks(&self, index: SessionIndex) -> Watermarks {
        let Some(session) = self.sessions.get(index) else {
            return Watermarks::default();
        };
        let of = |key: Option<EndpointKey>| self.streams.flow(key?)?.watermark();
        Watermarks {
            to_server: of(session.to_server),
            to_client: of(session.to_client),
        }
    }
}
