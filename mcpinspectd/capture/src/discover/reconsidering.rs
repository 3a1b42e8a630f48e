//! A stream is never judged by what its reader's side wrote, and never permanently.
//!
//! A server can write to its own standard input (`/proc/self/fd/0`) and read that back before its
//! client has written anything. So what the reader's side wrote at first is left out when a stream is
//! judged, and a stream judged to be something else is judged again by what it carries later. Both
//! are reported once the stream shows a client's message, which is also where its session begins.

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::mcp::sniff::{Evidence, evidence};
use mcpinspect_core::model::{BlindMechanism, BootTime, Direction, GapReason};

use super::backlog_limit;
use super::captured::Captured;
use super::delivery;
use super::following;
use super::roles;
use super::sniffing;
use super::step::Step;
use super::stream::{Reason, Skipped, StreamState};

/// Most writers of one stream to look up.
const WRITERS_MAX: u8 = 8;

/// Takes in bytes that crossed an end of a stream, whatever it is.
pub fn data(step: &mut Step<'_>, captured: &Captured<'_>) {
    let Captured {
        key, end, origin, ..
    } = *captured;
    let streams = &mut step.traffic.streams;
    let is_new_writer =
        end == End::Writer && streams.last_at(key, End::Writer) != Some(origin.tgid);
    let stream = streams.ensure(key);
    stream.last_seen[end as usize] = Some(origin.tgid);
    match &stream.state {
        StreamState::Ignored(Reason::NotMcp) => look_again(step, captured),
        StreamState::Ignored(_) => {}
        StreamState::Undecided(_) => {
            if end == End::Writer && is_from_reader(step, key, is_new_writer, origin.tgid) {
                let to = captured.segment.end();
                let reason = GapReason::WrittenByReader;
                step.traffic.streams.skip(key, Skipped { to, reason });
                let suspicion = BlindMechanism::WrittenByReader;
                step.traffic.streams.suspect(key, suspicion, origin.tgid);
                step.ship(key);
            } else {
                sniffing::data(step, captured);
            }
        }
        StreamState::InSession(_) => {
            delivery::data(step, captured);
            backlog_limit::enforce(step, origin.time);
        }
    }
}

/// Whether the first bytes of an undecided stream were written by a process on its reader's side.
fn is_from_reader(step: &mut Step<'_>, key: EndpointKey, is_new: bool, tgid: u32) -> bool {
    // Looking up a process takes a while, and most streams are not a server's input.
    if step.traffic.streams.sniffed(key) > 0
        || !following::may_be_read_by_a_server(&step.processes.programs, key)
    {
        return false;
    }
    let Some(stream) = step.traffic.streams.get_mut(key) else {
        return false;
    };
    if !is_new && stream.checked_writers > 0 {
        return stream.suspicion.is_some_and(|(_, suspect)| suspect == tgid);
    }
    if stream.checked_writers == WRITERS_MAX {
        return false;
    }
    stream.checked_writers += 1;
    let is_reader = |pid: u32| {
        step.processes
            .programs
            .readers(key)
            .any(|program| program.pid == pid)
    };
    if is_reader(tgid) {
        return true;
    }
    step.processes
        .describe(step.machine, tgid)
        .is_some_and(|writer| {
            writer
                .ancestors()
                .iter()
                .any(|ancestor| is_reader(ancestor.pid.0))
        })
}

/// Judges a stream that is something else again, by bytes from somewhere within it.
fn look_again(step: &mut Step<'_>, captured: &Captured<'_>) {
    let Captured {
        key,
        ref segment,
        origin,
        ..
    } = *captured;
    // Answers of other protocols may look like a server's; requests name their method.
    let role = Some(Direction::ClientToServer);
    if segment.as_bytes().map(evidence) != Some(Evidence::Mcp { role }) {
        return;
    }
    let skipped = Skipped {
        to: segment.position,
        reason: GapReason::JudgedNotMcp,
    };
    step.traffic.streams.resume(key, skipped);
    step.traffic
        .streams
        .suspect(key, BlindMechanism::JudgedNotMcp, origin.tgid);
    step.traffic.streams.sniff(captured);
    roles::settle(step, key, role, origin.time);
}

/// Samples the streams again that have used up their last sample. Call this about once a second.
pub fn renew_samples(step: &mut Step<'_>, now: BootTime) {
    for key in step.traffic.streams.samples_due(now) {
        let positions = following::positions(step, key);
        let stream = step.traffic.streams.get_mut(key);
        let renewed = stream
            .and_then(|stream| stream.sampling.as_mut())
            .is_some_and(|sampling| sampling.renew(positions, now));
        if renewed {
            step.ship(key);
        }
    }
}
