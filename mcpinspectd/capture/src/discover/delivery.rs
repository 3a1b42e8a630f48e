//! Passes a session's bytes on: in order, after announcing the session, with its parties.

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::model::{
    BlindMechanism, BootTime, Content, Direction, EndReason, Segment, StreamEvent,
};
use mcpinspect_core::wire::comparison::Start;

use super::announcing::{self, Parties};
use super::blind_spots;
use super::captured::Captured;
use super::flow::{Flow, SessionIndex};
use super::session::TrackedSession;
use super::step::Step;
use super::stream::{Skipped, StreamState};
use super::streams::RetainedStream;
use crate::capture::Origin;

/// What was retained of a stream that has just become one direction of a session.
pub struct Bound {
    key: EndpointKey,
    direction: Direction,
    retained: RetainedStream,
}

/// Makes an undecided stream one direction of a session. What was retained of it is passed on by
/// [`catch_up`].
pub fn bind(
    step: &mut Step<'_>,
    index: SessionIndex,
    key: EndpointKey,
    direction: Direction,
) -> Option<Bound> {
    tracing::trace!(
        ?key,
        direction = direction.as_str(),
        session = index,
        "part of a session"
    );
    let retained = step.traffic.streams.bind(key, index, direction)?;
    if let Some(session) = step.traffic.sessions.get_mut(index) {
        session.attach(key, direction, retained.joined);
        session.suspicions.extend(retained.suspicion);
    }
    Some(Bound {
        key,
        direction,
        retained,
    })
}

/// Passes on what was retained of the streams of one session, in the order of arrival.
pub fn catch_up(step: &mut Step<'_>, index: SessionIndex, bound: &[Bound], now: BootTime) {
    blind_spots::report_suspicions(step, index, now);
    for Bound { key, retained, .. } in bound {
        if step.settings.compare_ends {
            compare_ends(step, *key, retained.joined);
        }
        step.ship(*key);
        let tgid = retained.reader.unwrap_or(0);
        if let Some(Skipped { to, reason }) = retained.skipped {
            let skipped = Captured {
                key: *key,
                end: End::Reader,
                segment: Segment::lost(0, to, reason),
                origin: Origin { tgid, time: now },
            };
            skip(step, &skipped);
        }
    }
    let mut pieces: Vec<_> = bound
        .iter()
        .flat_map(|bound| {
            bound
                .retained
                .read
                .pieces()
                .map(move |piece| (bound, piece))
        })
        .collect();
    pieces
        .sort_by_key(|(bound, (_, _, time))| (*time, bound.direction == Direction::ServerToClient));
    for (Bound { key, retained, .. }, (position, bytes, time)) in pieces {
        let tgid = retained.reader.unwrap_or(0);
        let captured = Captured {
            key: *key,
            end: End::Reader,
            segment: Segment::new(position, bytes),
            origin: Origin { tgid, time },
        };
        deliver(step, &captured);
    }
    for Bound { key, retained, .. } in bound {
        if let Some(origin) = retained.ended {
            end_of_stream(step, *key, origin);
        }
    }
}

/// Starts to compare the ends of a stream that has just become part of a session.
fn compare_ends(step: &mut Step<'_>, key: EndpointKey, joined: bool) {
    let stream = step.traffic.streams.get(key);
    let counters = stream.and_then(|stream| step.machine.counters(stream.written_at?));
    let unread = counters.map_or(0, |counters| counters.unread);
    let is_exact = counters.is_none_or(|counters| counters.is_exact());
    let start = if joined || !is_exact {
        // A call in progress when the stream became known may have been counted at one end but
        // not at the other.
        Start::Midstream(unread)
    } else if unread > 0 {
        Start::Unread(unread)
    } else {
        Start::Together
    };
    if let Some(flow) = step.traffic.streams.flow_mut(key) {
        flow.compare(start);
    }
}

/// Takes in bytes that crossed an end of a session's stream.
pub fn data(step: &mut Step<'_>, captured: &Captured<'_>) {
    let (key, origin) = (captured.key, captured.origin);
    let Some(flow) = step.traffic.streams.flow(key) else {
        return;
    };
    if flow.source() == captured.end {
        deliver(step, captured);
    } else if captured.end == End::Writer {
        let (index, direction) = (flow.session(), flow.direction());
        let is_server = |session: &TrackedSession| session.server == Some(origin.tgid);
        if direction == Direction::ClientToServer
            && step.traffic.sessions.get(index).is_some_and(is_server)
        {
            // What it reads there does not come from its client.
            blind_spots::report(step, index, BlindMechanism::WrittenByReader, origin, false);
        }
        step.traffic
            .pass_on(&mut step.output, key, origin.time, |flow, emit| {
                flow.written(&captured.segment, origin.time, emit);
            });
    }
}

/// Notes that bytes that crossed an end of a stream could not be copied.
pub fn lost(step: &mut Step<'_>, captured: &Captured<'_>) {
    let (key, time) = (captured.key, captured.origin.time);
    let Some(flow) = step.traffic.streams.flow(key) else {
        return;
    };
    let is_source = flow.source() == captured.end;
    announce_pending(step, flow.session(), time);
    if is_source {
        step.traffic
            .pass_on(&mut step.output, key, time, |flow, emit| {
                flow.push(&captured.segment, time, emit);
            });
    }
}

/// Notes that a reader has seen the end of a stream.
pub fn end_of_stream(step: &mut Step<'_>, key: EndpointKey, origin: Origin) {
    step.traffic
        .pass_on(&mut step.output, key, origin.time, |flow, emit| {
            flow.finish_comparison(origin.time, emit);
        });
    let Some(stream) = step.traffic.streams.get_mut(key) else {
        return;
    };
    let flow = match &mut stream.state {
        StreamState::InSession(flow) => flow,
        // A client may have said everything before its server was recognised.
        StreamState::Undecided(_) => {
            stream.ended = Some(origin);
            return;
        }
        StreamState::Ignored(_) => return,
    };
    let (index, direction) = (flow.session(), flow.direction());
    let is_first = flow.end();
    let Some(session) = step.traffic.sessions.get_mut(index) else {
        return;
    };
    let reason = match direction {
        Direction::ClientToServer => EndReason::ClientClosed,
        Direction::ServerToClient => EndReason::ServerClosed,
    };
    session.close(origin.time, reason);
    if session.announced && is_first {
        session
            .reordering
            .push(direction, origin.time, StreamEvent::End);
        step.traffic
            .release_ready(&mut step.output, index, origin.time);
    }
}

/// Makes the writer's end the source of a stream whose reader cannot be seen, and passes on what was
/// retained of it. Returns whether that changed anything.
pub fn use_writer(step: &mut Step<'_>, key: EndpointKey, now: BootTime) -> bool {
    let mut retained = None;
    step.traffic
        .pass_on_alone(&mut step.output, key, |flow, emit| {
            retained = flow.switch_to_writer(now, emit);
        });
    let (Some(retained), Some(flow)) = (retained, step.traffic.streams.flow(key)) else {
        return false;
    };
    let (index, direction) = (flow.session(), flow.direction());
    step.ship(key);
    let tgid = step.traffic.streams.last_at(key, End::Writer).unwrap_or(0);
    let last = retained.pieces().last().map_or(now, |(_, _, time)| time);
    if is_announced(step, index, last) {
        note_party(step, index, direction, End::Writer, tgid);
        // What came later in the other stream waits for all of it.
        step.traffic
            .pass_on_alone(&mut step.output, key, |flow, emit| {
                for (position, bytes, time) in retained.pieces() {
                    flow.push(&Segment::new(position, bytes), time, emit);
                }
            });
        step.traffic.release_ready(&mut step.output, index, now);
    } else {
        for (position, bytes, time) in retained.pieces() {
            let captured = Captured {
                key,
                end: End::Writer,
                segment: Segment::new(position, bytes),
                origin: Origin { tgid, time },
            };
            deliver(step, &captured);
        }
    }
    true
}

/// Counts what passed before a stream was followed as lost.
fn skip(step: &mut Step<'_>, skipped: &Captured<'_>) {
    let (key, time) = (skipped.key, skipped.origin.time);
    let Some(index) = step.traffic.streams.flow(key).map(Flow::session) else {
        return;
    };
    if skipped.segment.content.length() == 0 {
        return;
    }
    if is_announced(step, index, time) {
        step.traffic
            .pass_on(&mut step.output, key, time, |flow, emit| {
                flow.push(&skipped.segment, time, emit);
            });
    } else if let Some(session) = step.traffic.sessions.get_mut(index) {
        session.pending.push(skipped.clone().into_owned());
    }
}

/// Puts bytes of a stream's source in order, and passes on what is now in order.
fn deliver(step: &mut Step<'_>, captured: &Captured<'_>) {
    let (key, Origin { tgid, time }) = (captured.key, captured.origin);
    let Some(flow) = step.traffic.streams.flow(key) else {
        return;
    };
    let index = flow.session();
    let starts = !flow.has_started();
    note_party(step, index, flow.direction(), flow.source(), tgid);
    if !is_announced(step, index, time) {
        if let Some(session) = step.traffic.sessions.get_mut(index) {
            session.pending.push(captured.clone().into_owned());
        }
        step.traffic.count_backlog(index);
        return;
    }
    if let Some(session) = step.traffic.sessions.get_mut(index) {
        session.last_active = time;
    }
    step.traffic
        .pass_on(&mut step.output, key, time, |flow, emit| {
            flow.push(&captured.segment, time, emit);
        });
    if starts
        && let Some(flow) = step.traffic.streams.flow_mut(key)
        && flow.has_started()
    {
        // The source is seen: the other end is no longer shipped, except for comparison.
        flow.drop_fallback();
        step.traffic.count_backlog(index);
        step.ship(key);
    }
}

/// Learns from a segment who is at an end of a stream, and reports that if it is new.
fn note_party(step: &mut Step<'_>, index: SessionIndex, direction: Direction, end: End, pid: u32) {
    let Some(session) = step.traffic.sessions.get_mut(index) else {
        return;
    };
    if session.note_party(direction, end, pid) && session.announced {
        // A process that takes over keeps the session from ending with the previous one.
        session.keep_open();
        announcing::report_parties(step, index);
    }
}

/// Whether a session is announced. Announces it first if that is due.
fn is_announced(step: &mut Step<'_>, index: SessionIndex, now: BootTime) -> bool {
    let Some(session) = step.traffic.sessions.get(index) else {
        return false;
    };
    if session.announced {
        return true;
    }
    let Some(parties) = announcing::ready(step, index, now) else {
        return false;
    };
    announce(step, index, parties, now);
    true
}

/// Announces the sessions that have waited long enough for their clients.
pub fn announce_waiting(step: &mut Step<'_>, now: BootTime) {
    let sessions = &step.traffic.sessions;
    for index in sessions.indices(|session| !session.pending.is_empty()) {
        is_announced(step, index, now);
    }
}

/// Announces a session without its client, if anything waits for that.
pub fn announce_pending(step: &mut Step<'_>, index: SessionIndex, now: BootTime) {
    let session = step.traffic.sessions.get(index);
    if session.is_some_and(|session| !session.pending.is_empty()) {
        let parties = announcing::parties(step, index);
        announce(step, index, parties, now);
    }
}

/// Announces a session, and passes on what waited for that.
fn announce(step: &mut Step<'_>, index: SessionIndex, parties: Parties, now: BootTime) {
    let (pending, time) = announcing::announce(step, index, parties, now);
    for captured in pending {
        match captured.segment.content {
            Content::Bytes(_) => deliver(step, &captured),
            Content::Lost { .. } => skip(step, &captured),
        }
    }
    let Some(session) = step.traffic.sessions.get_mut(index) else {
        return;
    };
    for (key, direction) in session.streams() {
        if !step.traffic.streams.flow(key).is_some_and(Flow::has_ended) {
            continue;
        }
        if session.reordering.is_empty() {
            step.output
                .event(&session.id, direction, StreamEvent::End, time);
        } else {
            session.reordering.push(direction, now, StreamEvent::End);
        }
    }
}
