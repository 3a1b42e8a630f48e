//! The open sessions, and which servers are paused.
//!
//! Pausing must be honest in both directions: the content is not examined, yet the record says how
//! much there was. So a paused server's bytes are counted; when it is resumed, or the session
//! ends, they are reported as lost, and the stream resynchronises there.

use std::collections::{BTreeSet, HashMap};

use mcpinspect_core::model::{
    Direction, GapReason, Input, Pid, Process, ServerId, ServerSide, SessionId, Timestamp,
};

use super::step::Step;
use crate::control::SessionParties;

/// Most servers that can be paused by name; pausing all of them at once always works.
const PAUSED_MAX: usize = 1024;

/// What crossed in one direction during a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    position: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Entry {
    parties: SessionParties,
    /// The user that the server runs as.
    uid: Option<u32>,
    skipped: [Option<Skipped>; 2],
}

/// See the module documentation.
#[derive(Debug, Default)]
pub struct SessionTable {
    sessions: HashMap<SessionId, Entry>,
    everyone: bool,
    servers: BTreeSet<ServerId>,
}

impl SessionTable {
    /// Whether all servers are paused.
    pub fn is_everyone_paused(&self) -> bool {
        self.everyone
    }

    /// The paused servers.
    pub fn paused(&self) -> impl Iterator<Item = &ServerId> {
        self.servers.iter()
    }

    /// Whether a session of this server is open, or it is paused.
    pub fn knows(&self, server: &str) -> bool {
        self.servers.contains(&ServerId(server.into()))
            || self
                .sessions
                .values()
                .any(|entry| &*entry.parties.server_id.0 == server)
    }

    /// Resumes or pauses a server (all of them for `None`). Returns whether that changed anything;
    /// `None` if too many are paused already.
    pub fn set_monitoring(&mut self, server: Option<&ServerId>, enabled: bool) -> Option<bool> {
        match (server, enabled) {
            (None, _) => {
                let was = std::mem::replace(&mut self.everyone, !enabled);
                Some(was == enabled)
            }
            (Some(server), true) => Some(self.servers.remove(server)),
            (Some(_), false) if self.servers.len() >= PAUSED_MAX => None,
            (Some(server), false) => Some(self.servers.insert(server.clone())),
        }
    }

    /// The parties of the sessions with a server.
    pub fn parties_of(&self, server: &str) -> Vec<SessionParties> {
        let mut parties_of: Vec<_> = self
            .sessions
            .values()
            .filter(|entry| &*entry.parties.server_id.0 == server)
            .map(|entry| entry.parties.clone())
            .collect();
        parties_of.sort_by(|a, b| a.session.cmp(&b.session));
        parties_of
    }

    /// The clients of all sessions.
    pub fn clients(&self) -> Vec<Process> {
        let clients: BTreeSet<_> = self
            .sessions
            .values()
            .filter_map(|entry| entry.parties.client)
            .collect();
        clients.into_iter().collect()
    }

    /// Whether a process is the server of an open session.
    pub fn serves(&self, process: Process) -> bool {
        let mut entries = self.sessions.values();
        entries.any(|entry| entry.parties.server == Some(process))
    }

    /// The parties of one session.
    pub fn parties(&self, session: &SessionId) -> Option<&SessionParties> {
        Some(&self.sessions.get(session)?.parties)
    }

    /// The user that a session's server runs as.
    pub fn uid(&self, session: &SessionId) -> Option<u32> {
        self.sessions.get(session)?.uid
    }

    /// Records an input, and passes it on unless its server is paused. `start_time` returns when a process
    /// started, for parties known only by number. `on` is shown the table, in which a session remains until its
    /// end was passed on.
    pub(super) fn pass(
        &mut self,
        step: Step<'_>,
        start_time: &dyn Fn(Pid) -> Option<u64>,
        on: &mut dyn FnMut(&Self, Step<'_>),
    ) {
        let Step::Input(input) = step else {
            return on(self, step);
        };
        let mut ended = None;
        match &input {
            Input::SessionStarted(start) => {
                let process = |party: &Option<mcpinspect_core::model::Party>| {
                    party.as_ref().map(|party| Process {
                        pid: party.pid,
                        start_time: party.start_time,
                    })
                };
                let parties = SessionParties {
                    session: start.id.clone(),
                    server_id: start.server.server_id.clone(),
                    server: process(&start.server_party),
                    client: process(&start.client_party),
                    server_side: ServerSide::default(),
                };
                let party = start.server_party.as_ref().or(start.client_party.as_ref());
                let entry = Entry {
                    parties,
                    uid: party.map(|party| party.uid),
                    skipped: [None; 2],
                };
                self.sessions.insert(start.id.clone(), entry);
            }
            Input::PartiesChanged {
                session,
                server_pid,
                client_pid,
                server_side,
            } => {
                self.parties_changed(session, *server_pid, *client_pid, start_time);
                if let Some(entry) = self.sessions.get_mut(session.as_ref()) {
                    entry.parties.server_side.clone_from(server_side);
                }
            }
            Input::Bytes {
                session,
                direction,
                position,
                time,
                bytes,
            }
            | Input::Message {
                session,
                direction,
                position,
                time,
                bytes,
            } => {
                if self.skip(session, *direction, *position, bytes.len() as u64) {
                    return;
                }
                self.tell_skipped(session, Some(*direction), *time, on);
            }
            Input::Gap {
                session,
                direction,
                position,
                bytes_lost,
                time,
                ..
            } => {
                if self.skip(session, *direction, *position, *bytes_lost) {
                    return;
                }
                self.tell_skipped(session, Some(*direction), *time, on);
            }
            Input::EndOfStream {
                session,
                direction,
                time,
            } => self.tell_skipped(session, Some(*direction), *time, on),
            Input::SessionEnded { session, time, .. } => {
                self.tell_skipped(session, None, *time, on);
                ended = Some(session.clone().into_owned());
            }
            Input::EndsDisagree { .. } | Input::BlindSpot { .. } | Input::Program { .. } => {}
        }
        on(self, Step::Input(input));
        if let Some(session) = ended {
            self.sessions.remove(&session);
        }
    }

    fn parties_changed(
        &mut self,
        session: &SessionId,
        server: Option<Pid>,
        client: Option<Pid>,
        start_time: &dyn Fn(Pid) -> Option<u64>,
    ) {
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        for (process, pid) in [
            (&mut entry.parties.server, server),
            (&mut entry.parties.client, client),
        ] {
            let known = process.map(|process| process.pid);
            if let Some(pid) = pid.filter(|pid| known != Some(*pid)) {
                // A party that is already gone cannot be the one meant.
                *process = start_time(pid).map(|start_time| Process { pid, start_time });
            }
        }
    }

    /// Returns whether this session is paused; its bytes are then only counted.
    fn skip(
        &mut self,
        session: &SessionId,
        direction: Direction,
        position: u64,
        bytes: u64,
    ) -> bool {
        let Some(entry) = self.sessions.get_mut(session) else {
            return false;
        };
        if !self.everyone && !self.servers.contains(&entry.parties.server_id) {
            return false;
        }
        entry.skipped[index(direction)]
            .get_or_insert(Skipped { position, bytes: 0 })
            .bytes += bytes;
        true
    }

    /// Reports what crossed during a pause, in one direction or both.
    fn tell_skipped(
        &mut self,
        session: &SessionId,
        direction: Option<Direction>,
        time: Timestamp,
        on: &mut dyn FnMut(&Self, Step<'_>),
    ) {
        for each in [Direction::ClientToServer, Direction::ServerToClient] {
            if direction.is_none_or(|wanted| wanted == each)
                && let Some(entry) = self.sessions.get_mut(session)
                && let Some(Skipped { position, bytes }) = entry.skipped[index(each)].take()
            {
                let gap = Input::Gap {
                    session: session.into(),
                    direction: each,
                    position,
                    bytes_lost: bytes,
                    reason: GapReason::MonitoringPaused,
                    time,
                };
                on(self, Step::Input(gap));
            }
        }
    }
}

fn index(direction: Direction) -> usize {
    match direction {
        Direction::ClientToServer => 0,
        Direction::ServerToClient => 1,
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::EndReason;
    use mcpinspect_core::source::script::Script;
    use mcpinspect_engine::event::testing::party;

    use super::*;

    fn pass(table: &mut SessionTable, input: Input<'_>, on: &mut dyn FnMut(Input<'_>)) {
        let start_time = |pid: Pid| (pid.0 < 1000).then_some(u64::from(pid.0) * 10);
        table.pass(Step::Input(input), &start_time, &mut |_, step| {
            let Step::Input(input) = step else {
                unreachable!("only inputs went in")
            };
            on(input);
        });
    }

    fn start(table: &mut SessionTable, session: &str, server: &str) -> Script {
        let script = Script::new(server)
            .session(session)
            .processes(Some(party(7, 0)), None);
        pass(table, script.start(), &mut |_| {});
        script
    }

    /// What is passed on of the server's next four bytes, abbreviated.
    fn said(table: &mut SessionTable, script: &mut Script) -> Vec<String> {
        let mut passed = Vec::new();
        let input = script.bytes(Direction::ServerToClient, b"abcd");
        pass(table, input, &mut |input| {
            passed.push(match input {
                Input::Bytes { position, .. } => format!("bytes {position}"),
                Input::Gap {
                    position,
                    bytes_lost,
                    reason,
                    ..
                } => format!("gap {position}+{bytes_lost} {reason}"),
                other => format!("{other:?}"),
            });
        });
        passed
    }

    #[test]
    fn nobody_listens_to_a_paused_server_and_the_record_says_so() {
        let mut table = SessionTable::default();
        let mut one = start(&mut table, "1", "files");
        let mut other = start(&mut table, "2", "mail");
        let files = ServerId("files".into());
        assert_eq!(said(&mut table, &mut one), ["bytes 0"]);
        assert_eq!(table.set_monitoring(Some(&files), false), Some(true));
        assert_eq!(table.set_monitoring(Some(&files), false), Some(false));
        assert!(said(&mut table, &mut one).is_empty());
        assert!(said(&mut table, &mut one).is_empty());
        assert_eq!(said(&mut table, &mut other), ["bytes 0"]);
        assert_eq!(table.set_monitoring(Some(&files), true), Some(true));
        assert_eq!(
            said(&mut table, &mut one),
            ["gap 4+8 monitoring_paused", "bytes 12"]
        );
        assert_eq!(said(&mut table, &mut one), ["bytes 16"]);
    }

    #[test]
    fn everyone_can_be_paused_and_an_end_tells_what_was_skipped() {
        let mut table = SessionTable::default();
        let mut script = start(&mut table, "1", "files");
        assert_eq!(table.set_monitoring(None, false), Some(true));
        assert!(said(&mut table, &mut script).is_empty());
        let mut passed = 0;
        pass(
            &mut table,
            script.end(EndReason::ServerExited),
            &mut |input| {
                passed += 1;
                assert_eq!(
                    matches!(input, Input::Gap { bytes_lost: 4, .. }),
                    passed == 1
                );
            },
        );
        assert_eq!(passed, 2);
        assert!(table.parties(script.id()).is_none() && !table.knows("files"));
    }

    #[test]
    fn parties_are_known_with_their_start_or_not_at_all() {
        let mut table = SessionTable::default();
        let script = start(&mut table, "1", "files");
        let parties = |table: &SessionTable| table.parties_of("files").pop().unwrap();
        assert_eq!(parties(&table).server.unwrap().start_time, 100);
        pass(
            &mut table,
            script.parties(Some(Pid(7)), Some(Pid(8))),
            &mut |_| {},
        );
        assert_eq!(parties(&table).server.unwrap().start_time, 100, "as it was");
        assert_eq!(parties(&table).client.unwrap().start_time, 80);
        pass(
            &mut table,
            script.parties(Some(Pid(2000)), None),
            &mut |_| {},
        );
        assert_eq!(parties(&table).server, None, "gone already");
        assert!(parties(&table).client.is_some());
    }

    #[test]
    fn pauses_are_bounded() {
        let mut table = SessionTable::default();
        for number in 0..PAUSED_MAX {
            let server = ServerId(number.to_string().into());
            assert_eq!(table.set_monitoring(Some(&server), false), Some(true));
        }
        let one_more = ServerId("more".into());
        assert_eq!(table.set_monitoring(Some(&one_more), false), None);
        assert_eq!(table.set_monitoring(Some(&one_more), true), Some(false));
    }
}
