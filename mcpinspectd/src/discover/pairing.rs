//! Which two streams make a session.
//!
//! A stream that shows MCP is half of a session. The other half is found by the programs that were
//! started between streams, or by the parties that were seen at both.

use std::sync::Arc;

use mcpinspect_common::{End, EndpointKey};

use super::environment::Environment;
use super::session::Session;
use super::stream::{Fate, SessionIndex};
use super::tracker::Tracker;
use crate::mcp::sniff::Evidence;
use crate::model::InputSink;
use crate::model::{Direction, SessionId};

impl<E: Environment> Tracker<E> {
    /// Makes a stream one direction of a session.
    pub(super) fn promote(
        &mut self,
        key: EndpointKey,
        role: Option<Direction>,
        feed: &mut impl InputSink,
    ) {
        let direction = role.unwrap_or_else(|| {
            // Somebody's standard input is the server's side of a wire; else somebody's output.
            let is_input = self.programs.readers(key).next().is_some();
            let is_output = self.programs.writers(key).next().is_some();
            if is_output && !is_input {
                Direction::ServerToClient
            } else {
                Direction::ClientToServer
            }
        });
        let place = match direction {
            Direction::ClientToServer => self.session_of_input(key),
            Direction::ServerToClient => self.session_of_output(key),
        };
        let index = match place {
            Place::In(index) => index,
            Place::Copy => return self.ignore(key),
            Place::New => match self.new_session() {
                Some(index) => index,
                None => return self.leave_alone(key),
            },
        };
        self.carry(index, key, direction, feed);
        self.complete(index, feed);
    }

    /// A session more; `None` where there are as many as may be.
    fn new_session(&mut self) -> Option<SessionIndex> {
        if self.sessions.len() >= self.settings.max_sessions {
            self.refused += 1;
            if !std::mem::replace(&mut self.refusal_told, true) {
                tracing::warn!(
                    sessions = self.sessions.len(),
                    refused = self.refused,
                    "as many sessions as `limits.sessions` allows; new ones are not followed until one ends"
                );
            }
            return None;
        }
        self.refusal_told = false;
        let index = self.next_session;
        self.next_session += 1;
        let id = SessionId(Arc::from(format!("{}-{index}", self.run)));
        self.sessions.insert(index, Session::new(id));
        Some(index)
    }

    /// Follows neither a stream nor the other direction of its programs.
    fn leave_alone(&mut self, key: EndpointKey) {
        let outputs = self.programs.readers(key).filter_map(|p| p.output);
        let inputs = self.programs.writers(key).filter_map(|p| p.input);
        let others: Vec<_> = outputs.chain(inputs).collect();
        self.ignore(key);
        for other in others {
            if self.is_free(other) {
                self.ignore(other);
            }
        }
    }

    /// The session whose server reads `key`: one whose output is known already.
    fn session_of_input(&self, key: EndpointKey) -> Place {
        let outputs: Vec<_> = self
            .programs
            .readers(key)
            .filter_map(|program| program.output)
            .collect();
        let actors = self
            .streams
            .get(&key)
            .map_or([None; 2], |stream| stream.actors);
        let known = self.sessions.iter().find_map(|(index, session)| {
            let open = session.to_server.is_none();
            let by_program = session
                .to_client
                .is_some_and(|output| outputs.contains(&output));
            let by_parties =
                session.server.is_some() && session.server == actors[End::Reader as usize];
            (open && (by_program || by_parties)).then_some(*index)
        });
        known.map_or(Place::New, Place::In)
    }

    /// The session whose server writes `key`.
    fn session_of_output(&self, key: EndpointKey) -> Place {
        let inputs: Vec<_> = self
            .programs
            .writers(key)
            .filter_map(|program| program.input)
            .filter(|input| {
                // A program that reads what a server writes is a filter, and no server.
                self.streams
                    .get(input)
                    .is_none_or(|stream| match &stream.fate {
                        Fate::Carried(flow) => flow.direction == Direction::ClientToServer,
                        Fate::Sniffed(beginning) => {
                            beginning.evidence
                                != Evidence::Mcp {
                                    role: Some(Direction::ServerToClient),
                                }
                        }
                        Fate::Ignored => false,
                    })
            })
            .collect();
        let actors = self
            .streams
            .get(&key)
            .map_or([None; 2], |stream| stream.actors);
        let by_input = self.sessions.iter().find(|(_, session)| {
            session
                .to_server
                .is_some_and(|input| inputs.contains(&input))
        });
        if let Some((index, session)) = by_input {
            return match session.to_client {
                None => Place::In(*index),
                Some(_) => Place::Copy,
            };
        }
        let by_parties = self.sessions.iter().find(|(_, session)| {
            let writer = actors[End::Writer as usize];
            let reader = actors[End::Reader as usize];
            session.to_client.is_none()
                && ((session.server.is_some() && session.server == writer)
                    || (session.client.is_some() && session.client == reader))
        });
        by_parties.map_or(Place::New, |(index, _)| Place::In(*index))
    }

    /// Finds the other direction of a session by the programs between its streams.
    pub(super) fn complete(&mut self, index: SessionIndex, feed: &mut impl InputSink) {
        let Some(session) = self.sessions.get(&index) else {
            return;
        };
        match (session.to_server, session.to_client) {
            (Some(input), None) => {
                let mut outputs: Vec<_> = self
                    .programs
                    .readers(input)
                    .filter_map(|program| program.output)
                    .filter(|output| self.is_free(*output) && *output != input)
                    .collect();
                outputs.dedup();
                // The client reads what belongs to the session; others read what a filter passes on.
                let client = self
                    .streams
                    .get(&input)
                    .and_then(|s| s.actors[End::Writer as usize]);
                let read_by_client = outputs.iter().copied().find(|output| {
                    client.is_some()
                        && self
                            .streams
                            .get(output)
                            .and_then(|s| s.actors[End::Reader as usize])
                            == client
                });
                let output = match outputs.as_slice() {
                    [only] => Some(*only),
                    _ => read_by_client,
                };
                if let Some(output) = output {
                    self.carry(index, output, Direction::ServerToClient, feed);
                }
            }
            (None, Some(output)) => {
                let input = self
                    .programs
                    .writers(output)
                    .filter_map(|program| program.input)
                    .find(|input| self.is_free(*input) && *input != output);
                if let Some(input) = input {
                    self.carry(index, input, Direction::ClientToServer, feed);
                }
            }
            _ => {}
        }
    }

    /// Whether a stream may become part of a session.
    fn is_free(&self, key: EndpointKey) -> bool {
        self.streams
            .get(&key)
            .is_some_and(|stream| matches!(stream.fate, Fate::Sniffed(_)))
    }
}

/// Where a stream belongs.
enum Place {
    /// To a session under way, whose other direction is known.
    In(SessionIndex),
    /// To a session that is not known yet.
    New,
    /// Nowhere: it repeats a session's other stream, as a program in a pipeline passes it on.
    Copy,
}
