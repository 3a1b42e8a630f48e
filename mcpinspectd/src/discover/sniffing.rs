//! Decides what a stream is by its beginning, and what follows from that.

use mcpinspect_common::{End, EndpointKey};

use super::delivery;
use super::flow::SessionIndex;
use super::pairing::{Pairing, Placement};
use super::step::Step;
use super::stream::StreamState;
use crate::capture::Origin;
use crate::mcp::sniff::Evidence;
use crate::model::Direction;

/// Takes in bytes that crossed an end of a stream.
pub fn data(
    step: &mut Step<'_>,
    key: EndpointKey,
    end: End,
    position: u64,
    bytes: &[u8],
    origin: Origin,
) {
    let stream = step.streams.ensure(key);
    stream.last_seen[end as usize] = Some(origin.tgid);
    match &stream.state {
        StreamState::Ignored => {}
        StreamState::Undecided(_) => {
            let evidence = step.streams.sniff(key, end, position, bytes, origin.time);
            if let Some(evidence) = evidence {
                decide(step, key, evidence);
            }
            bound_buffers(step);
        }
        StreamState::InSession(_) => delivery::data(step, key, end, position, bytes, origin),
    }
}

/// Acts on what the beginning of a stream shows.
fn decide(step: &mut Step<'_>, key: EndpointKey, evidence: Evidence) {
    match evidence {
        Evidence::Mcp { role } => promote(step, key, role),
        Evidence::NotMcp { .. } => {
            if !is_output_of_open_input(step, key) {
                ignore(step, key);
            }
        }
        Evidence::Undecided {
            json_rpc_like: true,
        } => {
            if step.streams.extend(key) {
                step.ship(key);
            }
        }
        Evidence::Undecided {
            json_rpc_like: false,
        } => {
            let spent = step.streams.sniffed(key) as u64 >= step.settings.sniff_budget;
            if spent && !is_output_of_open_input(step, key) {
                ignore(step, key);
            }
        }
    }
}

/// Makes a stream one direction of a session, and looks for the other one. `role` is the direction,
/// where the stream's messages tell.
pub fn promote(step: &mut Step<'_>, key: EndpointKey, role: Option<Direction>) {
    let pairing = pairing(step);
    let direction = role.unwrap_or_else(|| pairing.direction_of(key));
    let index = match pairing.place(key, direction) {
        Placement::In(index) => index,
        Placement::Copy => return ignore(step, key),
        Placement::New => match step.sessions.add() {
            Some(index) => index,
            None => return leave_alone(step, key),
        },
    };
    delivery::bind(step, index, key, direction);
    complete(step, index);
}

/// Adds the direction that a session lacks, if it can be found.
pub fn complete(step: &mut Step<'_>, index: SessionIndex) {
    if let Some((key, direction)) = pairing(step).missing_half(index) {
        delivery::bind(step, index, key, direction);
    }
}

/// Follows neither a stream nor the other direction of its programs.
fn leave_alone(step: &mut Step<'_>, key: EndpointKey) {
    let others = pairing(step).others(key);
    ignore(step, key);
    for other in others {
        if step.streams.is_undecided(other) {
            ignore(step, other);
        }
    }
}

/// Stops following a stream, and what was only followed because of it.
pub fn ignore(step: &mut Step<'_>, key: EndpointKey) {
    tracing::trace!(?key, "not followed");
    step.streams.ignore(key);
    step.ship(key);
    let outputs: Vec<_> = step.programs.outputs_of_readers(key).collect();
    for output in outputs {
        let is_other = step
            .streams
            .get(output)
            .is_some_and(|stream| matches!(stream.evidence(), Some(Evidence::NotMcp { .. })));
        if is_other && output != key && !is_output_of_open_input(step, output) {
            ignore(step, output);
        }
    }
}

/// Whether `key` is the output of a program whose input is MCP or may still turn out to be.
fn is_output_of_open_input(step: &Step<'_>, key: EndpointKey) -> bool {
    step.programs
        .inputs_of_writers(key)
        .filter(|input| *input != key)
        .filter_map(|input| step.streams.get(input))
        .any(|stream| match &stream.state {
            StreamState::Undecided(buffer) => !matches!(buffer.evidence(), Evidence::NotMcp { .. }),
            StreamState::InSession(_) => true,
            StreamState::Ignored => false,
        })
}

/// Gives up the stream with the largest buffer while the buffers hold too much.
fn bound_buffers(step: &mut Step<'_>) {
    while step.streams.buffered() > step.settings.max_buffered {
        let Some((bytes, key)) = step.streams.largest_buffer() else {
            return;
        };
        tracing::debug!(
            ?key,
            bytes,
            "too much buffered of undecided streams; this one is given up"
        );
        ignore(step, key);
    }
}

fn pairing<'a>(step: &'a Step<'_>) -> Pairing<'a> {
    Pairing {
        streams: step.streams,
        programs: step.programs,
        sessions: step.sessions,
    }
}
