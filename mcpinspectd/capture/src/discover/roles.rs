//! Which of two parties is the server.
//!
//! A message shows which side sent it: a client asks to `initialize`, a server answers. But a
//! server can say what only clients say before its client says anything. It cannot fake how
//! programs were started: a server was started between the two streams, reads one as its standard
//! input and writes the other as its standard output. So where the two disagree, neither is believed
//! until the other stream has spoken too. If both streams speak like a client, the one that a
//! program reads as its standard input is the client's. If each speaks against how the program was
//! started, a server started its client, and the messages are right.

use mcpinspect_common::EndpointKey;
use mcpinspect_core::mcp::sniff::Evidence;
use mcpinspect_core::model::{BootTime, Direction};

use super::following;
use super::pairing::Pairing;
use super::step::Step;
use super::stream::StreamState;

/// Makes a stream that shows MCP one direction of a session as soon as it is clear which. `said` is the
/// direction that its messages show.
pub fn settle(step: &mut Step<'_>, key: EndpointKey, said: Option<Direction>, now: BootTime) {
    let pairing = following::pairing(step);
    let started = pairing.direction_by_programs(key);
    let (Some(said), Some(started)) = (said, started) else {
        return following::promote(step, key, said, now);
    };
    if said == started {
        return following::promote(step, key, Some(said), now);
    }
    let others = pairing.beside(key);
    let speaking = others
        .into_iter()
        .find_map(|other| Some((other, speaks_as(pairing, other)?)));
    match speaking {
        Some((other, direction)) if direction == started => {
            let mut both = [(key, said), (other, direction)];
            // A session is known by its client's stream first: that one names the parties.
            both.sort_by_key(|(_, direction)| *direction != Direction::ClientToServer);
            for (stream, direction) in both {
                if step.traffic.streams.is_undecided(stream) {
                    following::promote(step, stream, Some(direction), now);
                }
            }
        }
        Some(_) => following::promote(step, key, Some(started), now),
        None if step.traffic.streams.sniffed(key) as u64 >= step.settings.sniff_budget => {
            following::promote(step, key, Some(started), now);
        }
        None => {
            if step.traffic.streams.extend(key) {
                step.ship(key);
            }
        }
    }
}

/// The direction that a stream has in a session, or that its messages show so far.
fn speaks_as(pairing: Pairing<'_>, key: EndpointKey) -> Option<Direction> {
    match &pairing.streams.get(key)?.state {
        StreamState::InSession(flow) => Some(flow.direction()),
        StreamState::Undecided(buffer) => match buffer.evidence() {
            Evidence::Mcp { role } => role,
            Evidence::NotMcp { .. } | Evidence::Undecided { .. } => None,
        },
        StreamState::Ignored(_) => None,
    }
}
