//! Which two streams make a session.
//!
//! A stream that shows MCP is one half of a session. The other half is found through the programs that
//! were started between streams, or the processes that were seen at both.

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::mcp::sniff::Evidence;
use mcpinspect_core::model::Direction;

use super::flow::SessionIndex;
use super::programs::Programs;
use super::session::TrackedSession;
use super::sessions::TrackedSessions;
use super::stream::{Stream, StreamState};
use super::streams::StreamTable;

/// Where a stream belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To a session whose other direction is known.
    In(SessionIndex),
    /// To a session that is not known yet.
    New,
    /// Nowhere: it repeats a session's other stream, as when a program in a pipeline passes it on.
    Copy,
}

/// What pairing looks at.
#[derive(Clone, Copy)]
pub struct Pairing<'a> {
    /// All streams.
    pub streams: &'a StreamTable,
    /// All programs.
    pub programs: &'a Programs,
    /// All sessions.
    pub sessions: &'a TrackedSessions,
}

impl Pairing<'_> {
    /// The direction of a stream whose messages do not tell: a stream that programs write and none
    /// reads as its standard input goes to the client.
    pub fn direction_of(self, key: EndpointKey) -> Direction {
        let is_input = self.programs.readers(key).next().is_some();
        let is_output = self.programs.writers(key).next().is_some();
        if is_output && !is_input {
            Direction::ServerToClient
        } else {
            Direction::ClientToServer
        }
    }

    /// The direction of a stream as implied by how programs were started: a server has an
    /// input and an output. `None` if programs were started at neither end, or at both, as in a shell's
    /// pipeline.
    pub fn direction_by_programs(self, key: EndpointKey) -> Option<Direction> {
        let is_input = self
            .programs
            .outputs_of_readers(key)
            .any(|output| output != key);
        let is_output = self
            .programs
            .inputs_of_writers(key)
            .any(|input| input != key);
        match (is_input, is_output) {
            (true, false) => Some(Direction::ClientToServer),
            (false, true) => Some(Direction::ServerToClient),
            (true, true) | (false, false) => None,
        }
    }

    /// The other streams of the programs that were started at `key`.
    pub fn beside(self, key: EndpointKey) -> Vec<EndpointKey> {
        let outputs = self.programs.outputs_of_readers(key);
        let inputs = self.programs.inputs_of_writers(key);
        let mut others: Vec<EndpointKey> = outputs.chain(inputs).collect();
        others.retain(|other| *other != key);
        others
    }

    /// Where a stream belongs.
    pub fn place(self, key: EndpointKey, direction: Direction) -> Placement {
        match direction {
            Direction::ClientToServer => self.place_input(key),
            Direction::ServerToClient => self.place_output(key),
        }
    }

    /// The session whose server reads `key`: one whose output is known already.
    fn place_input(self, key: EndpointKey) -> Placement {
        let outputs: Vec<_> = self.programs.outputs_of_readers(key).collect();
        let reader = self.streams.last_at(key, End::Reader);
        self.find(|session| {
            let by_program = session
                .to_client
                .is_some_and(|output| outputs.contains(&output));
            let by_parties = session.server.is_some() && session.server == reader;
            session.to_server.is_none() && (by_program || by_parties)
        })
        .map_or(Placement::New, |(index, _)| Placement::In(index))
    }

    /// The session whose server writes `key`.
    fn place_output(self, key: EndpointKey) -> Placement {
        let inputs: Vec<_> = self
            .programs
            .inputs_of_writers(key)
            .filter(|input| self.streams.get(*input).is_none_or(may_be_input))
            .collect();
        let by_input = self.find(|session| {
            session
                .to_server
                .is_some_and(|input| inputs.contains(&input))
        });
        if let Some((index, session)) = by_input {
            return match session.to_client {
                None => Placement::In(index),
                Some(_) => Placement::Copy,
            };
        }
        let writer = self.streams.last_at(key, End::Writer);
        let reader = self.streams.last_at(key, End::Reader);
        self.find(|session| {
            session.to_client.is_none()
                && ((session.server.is_some() && session.server == writer)
                    || (session.client.is_some() && session.client == reader))
        })
        .map_or(Placement::New, |(index, _)| Placement::In(index))
    }

    /// The stream that a session lacks, found by the programs between the two.
    pub fn missing_half(self, index: SessionIndex) -> Option<(EndpointKey, Direction)> {
        let session = self.sessions.get(index)?;
        match (session.to_server, session.to_client) {
            (Some(input), None) => {
                let output = self.output_for(input)?;
                Some((output, Direction::ServerToClient))
            }
            (None, Some(output)) => {
                let input = self
                    .programs
                    .inputs_of_writers(output)
                    .find(|input| self.streams.may_join(*input) && *input != output)?;
                Some((input, Direction::ClientToServer))
            }
            _ => None,
        }
    }

    /// The output that belongs to a session's input.
    fn output_for(self, input: EndpointKey) -> Option<EndpointKey> {
        let mut outputs: Vec<_> = self
            .programs
            .outputs_of_readers(input)
            .filter(|output| self.streams.may_join(*output) && *output != input)
            .collect();
        outputs.dedup();
        if let [only] = outputs.as_slice() {
            return Some(*only);
        }
        // The client reads what belongs to the session; other processes read what a filter writes.
        let client = self.streams.last_at(input, End::Writer)?;
        outputs
            .into_iter()
            .find(|output| self.streams.last_at(*output, End::Reader) == Some(client))
    }

    /// The undecided streams that the programs at `key` also read or write.
    pub fn others(self, key: EndpointKey) -> Vec<EndpointKey> {
        let mut others = self.beside(key);
        others.retain(|other| self.streams.is_undecided(*other));
        others
    }

    fn find(
        &self,
        wanted: impl Fn(&TrackedSession) -> bool,
    ) -> Option<(SessionIndex, &TrackedSession)> {
        self.sessions.iter().find(|(_, session)| wanted(session))
    }
}

/// Whether a stream may be a server's input. A program that reads what a server writes is a filter.
fn may_be_input(stream: &Stream) -> bool {
    match &stream.state {
        StreamState::InSession(flow) => flow.direction() == Direction::ClientToServer,
        StreamState::Undecided(buffer) => {
            buffer.evidence()
                != Evidence::Mcp {
                    role: Some(Direction::ServerToClient),
                }
        }
        StreamState::Ignored(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_common::EndpointKind;
    use mcpinspect_core::model::BootTime;

    use super::super::programs::StartedProgram;
    use super::super::stream::Reason;
    use super::*;

    const UP: Direction = Direction::ClientToServer;
    const DOWN: Direction = Direction::ServerToClient;
    const CLIENT: u32 = 100;
    const SERVER: u32 = 200;

    fn pipe(ino: u64) -> EndpointKey {
        EndpointKey {
            ino,
            dev: 15,
            kind: EndpointKind::Pipe as u32,
        }
    }

    struct Tables {
        streams: StreamTable,
        programs: Programs,
        sessions: TrackedSessions,
    }

    impl Tables {
        fn new() -> Self {
            Self {
                streams: StreamTable::default(),
                programs: Programs::default(),
                sessions: TrackedSessions::new("run".to_owned(), 10),
            }
        }

        fn pairing(&self) -> Pairing<'_> {
            Pairing {
                streams: &self.streams,
                programs: &self.programs,
                sessions: &self.sessions,
            }
        }

        /// A program between two pipes.
        fn start(&mut self, pid: u32, input: u64, output: u64) {
            for ino in [input, output] {
                self.streams.ensure(pipe(ino));
            }
            self.programs.add(&StartedProgram {
                pid,
                input: Some(pipe(input)),
                output: Some(pipe(output)),
                info: None,
            });
        }

        /// A session that has one stream.
        fn session(&mut self, ino: u64, direction: Direction) -> SessionIndex {
            let index = self.sessions.add(1, BootTime(0)).expect("room");
            self.streams.bind(pipe(ino), index, direction);
            let session = self.sessions.get_mut(index).expect("added");
            session.attach(pipe(ino), direction, false);
            index
        }

        fn seen(&mut self, ino: u64, reader: Option<u32>, writer: Option<u32>) {
            self.streams.ensure(pipe(ino)).last_seen = [reader, writer];
        }
    }

    #[test]
    fn a_stream_that_programs_only_write_goes_to_the_client() {
        let mut tables = Tables::new();
        tables.start(SERVER, 1, 2);
        assert_eq!(tables.pairing().direction_of(pipe(1)), UP);
        assert_eq!(tables.pairing().direction_of(pipe(2)), DOWN);
        assert_eq!(tables.pairing().direction_of(pipe(9)), UP, "not known");
        tables.start(300, 2, 3);
        assert_eq!(tables.pairing().direction_of(pipe(2)), UP, "in a pipeline");
    }

    #[test]
    fn two_streams_of_one_program_make_a_session() {
        let mut tables = Tables::new();
        tables.start(SERVER, 1, 2);
        assert_eq!(tables.pairing().place(pipe(1), UP), Placement::New);
        let index = tables.session(1, UP);
        assert_eq!(tables.pairing().place(pipe(2), DOWN), Placement::In(index));
        assert_eq!(tables.pairing().missing_half(index), Some((pipe(2), DOWN)));
        let mut tables = Tables::new();
        tables.start(SERVER, 1, 2);
        let index = tables.session(2, DOWN);
        assert_eq!(tables.pairing().place(pipe(1), UP), Placement::In(index));
        assert_eq!(tables.pairing().missing_half(index), Some((pipe(1), UP)));
    }

    #[test]
    fn streams_of_no_program_are_paired_by_who_was_seen_at_them() {
        let mut tables = Tables::new();
        let index = tables.session(1, UP);
        let session = tables.sessions.get_mut(index).expect("there");
        (session.server, session.client) = (Some(SERVER), Some(CLIENT));
        assert_eq!(tables.pairing().place(pipe(2), DOWN), Placement::New);
        for (reader, writer) in [(None, Some(SERVER)), (Some(CLIENT), None)] {
            tables.seen(2, reader, writer);
            assert_eq!(tables.pairing().place(pipe(2), DOWN), Placement::In(index));
        }
    }

    #[test]
    fn what_a_filter_writes_is_a_copy() {
        let mut tables = Tables::new();
        // sh -c 'server | filter': the shell's output is the filter's.
        tables.start(150, 1, 3);
        tables.start(SERVER, 1, 2);
        tables.start(300, 2, 3);
        let index = tables.session(1, UP);
        tables.streams.bind(pipe(2), index, DOWN);
        let session = tables.sessions.get_mut(index).expect("there");
        session.attach(pipe(2), DOWN, false);
        assert_eq!(tables.pairing().place(pipe(3), DOWN), Placement::Copy);
    }

    #[test]
    fn of_several_outputs_the_clients_is_the_servers() {
        let mut tables = Tables::new();
        tables.start(150, 1, 3);
        tables.start(SERVER, 1, 2);
        let index = tables.session(1, UP);
        assert_eq!(tables.pairing().missing_half(index), None, "may be either");
        tables.seen(1, None, Some(CLIENT));
        assert_eq!(tables.pairing().missing_half(index), None, "not read yet");
        tables.seen(3, Some(CLIENT), None);
        assert_eq!(tables.pairing().missing_half(index), Some((pipe(3), DOWN)));
    }

    #[test]
    fn a_session_that_is_left_alone_has_another_direction() {
        let mut tables = Tables::new();
        tables.start(SERVER, 1, 2);
        assert_eq!(tables.pairing().others(pipe(1)), [pipe(2)]);
        assert_eq!(tables.pairing().others(pipe(2)), [pipe(1)]);
        tables.streams.ignore(pipe(2), Reason::NotMcp);
        assert_eq!(tables.pairing().others(pipe(1)), []);
    }
}
