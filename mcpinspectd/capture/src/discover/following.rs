//! Which streams are followed, and as what: as one direction of a session, or not at all.

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::mcp::sniff::Evidence;
use mcpinspect_core::model::{BlindMechanism, BootTime, Direction, GapReason};

use super::counts::counted;
use super::delivery::{self, Bound};
use super::flow::{Counted, SessionIndex};
use super::pairing::{Pairing, Placement};
use super::programs::Programs;
use super::sampling::Sampling;
use super::step::Step;
use super::stream::{Reason, Skipped, StreamState};

/// Makes a stream one direction of a session, and looks for the other one. `role` is the direction,
/// if the stream's messages tell. If there is no room for a session, the stream waits for the
/// next tick to find some.
pub fn promote(step: &mut Step<'_>, key: EndpointKey, role: Option<Direction>, now: BootTime) {
    let pairing = pairing(step);
    let direction = role.unwrap_or_else(|| pairing.direction_of(key));
    let index = match pairing.place(key, direction) {
        Placement::In(index) => index,
        Placement::Copy => return ignore(step, key, Reason::Over),
        Placement::New => {
            let owner = step.traffic.streams.owner(key);
            match step.traffic.sessions.add(owner, now) {
                Some(index) => index,
                None => return step.quotas.admissions.arrive(key, role),
            }
        }
    };
    // What was kept of both is passed on in the order of arrival, whichever shows first what it is.
    let mut bound: Vec<Bound> = Vec::new();
    bound.extend(delivery::bind(step, index, key, direction));
    bound.extend(bind_missing_half(step, index));
    delivery::catch_up(step, index, &bound, now);
}

/// Adds the direction that a session lacks, if it can be found.
pub fn complete(step: &mut Step<'_>, index: SessionIndex, now: BootTime) {
    if let Some(bound) = bind_missing_half(step, index) {
        delivery::catch_up(step, index, &[bound], now);
    }
}

fn bind_missing_half(step: &mut Step<'_>, index: SessionIndex) -> Option<Bound> {
    let (key, direction) = pairing(step).missing_half(index)?;
    resume_whatever_it_was(step, key);
    delivery::bind(step, index, key, direction)
}

/// Follows a stream that belongs to a session, even if it was ignored until now.
fn resume_whatever_it_was(step: &mut Step<'_>, key: EndpointKey) {
    match step.traffic.streams.get(key).map(|stream| &stream.state) {
        Some(StreamState::Ignored(Reason::NotMcp)) => {
            resume(step, key, GapReason::JudgedNotMcp);
            let reader = step.traffic.streams.last_at(key, End::Reader).unwrap_or(0);
            step.traffic
                .streams
                .suspect(key, BlindMechanism::JudgedNotMcp, reader);
        }
        Some(StreamState::Ignored(_)) => resume(step, key, GapReason::SessionBudget),
        _ => {}
    }
}

/// Follows an ignored stream again, from the next byte on. `reason` says in events why what
/// passed is missing.
pub fn resume(step: &mut Step<'_>, key: EndpointKey, reason: GapReason) {
    let to = step
        .machine
        .counters(key)
        .map_or(0, |counters| counters.counted(End::Reader));
    step.traffic.streams.resume(key, Skipped { to, reason });
}

/// Follows neither a stream nor the other direction of its programs until there is room.
pub fn leave_alone(step: &mut Step<'_>, key: EndpointKey) {
    let others = pairing(step).others(key);
    ignore(step, key, Reason::NoRoom);
    for other in others {
        if step.traffic.streams.is_undecided(other) {
            ignore(step, other, Reason::NoRoom);
        }
    }
}

/// Stops following a stream, and what was only followed because of it.
pub fn ignore(step: &mut Step<'_>, key: EndpointKey, reason: Reason) {
    tracing::trace!(?key, ?reason, "not followed");
    step.traffic.streams.ignore(key, reason);
    // Other streams carry no messages of a session: a server has one stream in and another out.
    if reason == Reason::NotMcp
        && (may_be_read_by_a_server(&step.processes.programs, key)
            || may_be_written_by_a_server(&step.processes.programs, key))
    {
        step.traffic
            .streams
            .sample(key, Sampling::new(positions(step, key)));
    }
    step.ship(key);
    let outputs: Vec<_> = step.processes.programs.outputs_of_readers(key).collect();
    for output in outputs {
        let stream = step.traffic.streams.get(output);
        let is_other =
            stream.is_some_and(|stream| matches!(stream.evidence(), Some(Evidence::NotMcp { .. })));
        if is_other && output != key && !is_output_of_open_input(step, output) {
            ignore(step, output, Reason::NotMcp);
        }
    }
}

/// Whether a program that also has an input writes `key`.
fn may_be_written_by_a_server(programs: &Programs, key: EndpointKey) -> bool {
    let mut writers = programs.writers(key);
    writers.any(|program| program.input.is_some())
}

/// Whether a program that also has an output reads `key`.
pub fn may_be_read_by_a_server(programs: &Programs, key: EndpointKey) -> bool {
    let mut readers = programs.readers(key);
    readers.any(|program| program.output.is_some())
}

/// The positions of a stream's two ends, by [`End`].
pub fn positions(step: &Step<'_>, key: EndpointKey) -> [u64; 2] {
    let Counted { written, read } = counted(&step.traffic.streams, &*step.machine, key);
    [read, written]
}

/// Whether `key` is the output of a program whose input is MCP or may still turn out to be.
pub fn is_output_of_open_input(step: &Step<'_>, key: EndpointKey) -> bool {
    step.processes
        .programs
        .inputs_of_writers(key)
        .filter(|input| *input != key)
        .filter_map(|input| step.traffic.streams.get(input))
        .any(|stream| match &stream.state {
            StreamState::Undecided(buffer) => !matches!(buffer.evidence(), Evidence::NotMcp { .. }),
            StreamState::InSession(_) => true,
            StreamState::Ignored(_) => false,
        })
}

/// What pairing looks at.
pub fn pairing<'a>(step: &'a Step<'_>) -> Pairing<'a> {
    Pairing {
        streams: &step.traffic.streams,
        programs: &step.processes.programs,
        sessions: &step.traffic.sessions,
    }
}
