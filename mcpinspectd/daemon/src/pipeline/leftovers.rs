//! Servers that keep running after their client is gone.
//!
//! A server is meant to exit when its standard input ends. Some do not, and stay for days with all the access
//! they have; their client has forgotten them, so only something that watches the machine can tell. A
//! server gets time to shut down and is then looked up by pid and start time, since pids are reused.

use std::collections::{HashSet, VecDeque};

use mcpinspect_core::model::{
    EndReason, Input, Pid, Process, SessionId, SessionStart, Timestamp, Transport,
};
use mcpinspect_engine::event::body::ServerOrphaned;
use mcpinspect_engine::event::{Event, Subject};
use mcpinspect_process::ProcessSnapshot;

use super::host::Host;
use super::sessions::SessionTable;
use super::step::Step;
use crate::control::SessionParties;

/// Nanoseconds that a server has to shut down.
const PATIENCE: u64 = 10_000_000_000;

/// Most servers to wait for at one time; any beyond that are not looked up.
const MAX_WAITING: usize = 1024;

/// Servers that should exit soon.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Sessions over standard input and output. A server with an address outlives its clients.
    stdio: HashSet<SessionId>,
    /// Ordered by time.
    waiting: VecDeque<Ended>,
}

#[derive(Debug)]
struct Ended {
    parties: SessionParties,
    server: Process,
    reason: EndReason,
    time: Timestamp,
}

impl Leftovers {
    /// Notes sessions that start and end. As time passes, returns an event for each server that still runs although
    /// its time is up.
    pub(super) fn look(
        &mut self,
        step: &Step<'_>,
        sessions: &SessionTable,
        host: &impl Host,
    ) -> Vec<Event> {
        match step {
            Step::Input(Input::SessionStarted(start)) => self.started(start),
            Step::Input(Input::SessionEnded {
                session,
                reason,
                time,
            }) => {
                if let Some(parties) = sessions.parties(session) {
                    self.ended(parties, *reason, *time);
                }
            }
            Step::Input(_) => {}
            Step::Time(now) => {
                return self.due(
                    *now,
                    |process| sessions.serves(process),
                    |pid| host.process(pid),
                );
            }
        }
        Vec::new()
    }

    fn started(&mut self, start: &SessionStart) {
        if start.endpoint.transport() == Transport::Stdio {
            self.stdio.insert(start.id.clone());
        }
    }

    /// Notes that the session of `parties` ended.
    fn ended(&mut self, parties: &SessionParties, reason: EndReason, time: Timestamp) {
        if !self.stdio.remove(&parties.session)
            || !matches!(reason, EndReason::ClientExited | EndReason::ClientClosed)
            || self.waiting.len() == MAX_WAITING
        {
            return;
        }
        if let Some(server) = parties.server {
            self.waiting.push_back(Ended {
                parties: parties.clone(),
                server,
                reason,
                time,
            });
        }
    }

    /// Returns an event for each server that still runs although its time is up. `serves` says whether a
    /// process serves another session, and `look` finds a process.
    fn due(
        &mut self,
        now: Timestamp,
        serves: impl Fn(Process) -> bool,
        look: impl Fn(Pid) -> Option<ProcessSnapshot>,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(ended) = self
            .waiting
            .pop_front_if(|ended| now.nanos_since(ended.time) >= PATIENCE)
        {
            let Some(found) = look(ended.server.pid) else {
                continue;
            };
            // A zombie has no executable any more.
            let is_gone = found.start_time != ended.server.start_time || found.exe.is_empty();
            if is_gone || serves(ended.server) {
                continue;
            }
            let subject = Subject {
                session_id: ended.parties.session,
                server_pid: Some(ended.server.pid),
                ..Subject::server(ended.parties.server_id).of_user(Some(found.uid))
            };
            let body = ServerOrphaned {
                reason: ended.reason,
                exe: found.exe,
                uid: found.uid,
                seconds: now.nanos_since(ended.time) / 1_000_000_000,
            };
            events.push(Event::new(now, subject, body));
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::{ServerId, ServerSide};
    use mcpinspect_core::source::script::Script;

    use super::*;

    const SERVER: Process = Process {
        pid: Pid(7),
        start_time: 100,
    };

    fn leftovers(reason: EndReason) -> Leftovers {
        let mut leftovers = Leftovers::default();
        let Input::SessionStarted(start) = Script::new("files").start() else {
            unreachable!("a script starts with its session")
        };
        leftovers.started(&start);
        let parties = SessionParties {
            session: start.id,
            server_id: ServerId("files".into()),
            server: Some(SERVER),
            client: None,
            server_side: ServerSide::default(),
        };
        leftovers.ended(&parties, reason, Timestamp(5));
        leftovers
    }

    fn snapshot(start_time: u64, exe: &str) -> ProcessSnapshot {
        ProcessSnapshot {
            pid: SERVER.pid,
            start_time,
            parent: Pid(1),
            name: "node".to_owned(),
            exe: exe.to_owned(),
            exe_deleted: false,
            argv: Vec::new(),
            cwd: None,
            uid: 1000,
            cgroup: String::new(),
        }
    }

    #[test]
    fn a_server_that_runs_on_is_reported_once_in_its_time() {
        let mut leftovers = leftovers(EndReason::ClientExited);
        let mut due = |now| leftovers.due(Timestamp(now), |_| false, |_| Some(snapshot(100, "/n")));
        assert!(due(PATIENCE).is_empty());
        let events = due(PATIENCE + 5);
        let event = serde_json::to_value(&events[0]).unwrap();
        assert_eq!(event["type"], "mcp_server_orphaned");
        assert_eq!(event["seconds"], 10);
        assert_eq!(events[0].subject.as_ref().unwrap().server_uid, Some(1000));
        assert!(due(2 * PATIENCE).is_empty());
    }

    #[test]
    fn others_are_not() {
        let later = Timestamp(2 * PATIENCE);
        let runs = |_| Some(snapshot(100, "/n"));
        let none = |events: Vec<Event>| assert!(events.is_empty());
        none(leftovers(EndReason::ServerExited).due(later, |_| false, runs));
        let left = || leftovers(EndReason::ClientClosed);
        none(left().due(later, |_| true, runs));
        none(left().due(later, |_| false, |_| None));
        none(left().due(later, |_| false, |_| Some(snapshot(101, "/n"))));
        none(left().due(later, |_| false, |_| Some(snapshot(100, ""))));
        assert_eq!(left().due(later, |_| false, runs).len(), 1);
    }
}
