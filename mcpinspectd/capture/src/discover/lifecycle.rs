//! What has ended, and what is forgotten.
//!
//! Nothing reports that a pipe is gone. A session looks over when a reader saw the end of its stream
//! or one of its parties exited. It is over when no process holds the server's side any more
//! and everything that was sent has been read or can no longer be. Finding out takes a survey of the
//! machine, so that is done only when a session looks over, and at intervals for what went unnoticed.

use std::time::Duration;

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::model::{
    BlindMechanism, BootTime, Direction, EndReason, GapReason, SessionId, StreamEvent, StreamLedger,
};

use super::counts::{correct_double_count, counted};
use super::delivery;
use super::flow::{Counted, SessionIndex};
use super::following;
use super::holding;
use super::session::Closing;
use super::step::Step;
use super::stream::Reason;
use crate::capture::Origin;

/// Time for which a session looks over before it is checked, so that a launcher can hand over.
pub const CLOSING_TIMEOUT: Duration = Duration::from_millis(50);
/// Time that counted bytes may take to arrive before they are given up.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that the reader's record of the end may take to arrive after the reader is gone.
const LAST_RECORD_TIMEOUT: Duration = Duration::from_millis(300);

/// Whether a session's streams continue after this end reason: what is unread may still be read.
fn streams_go_on(reason: EndReason) -> bool {
    matches!(
        reason,
        EndReason::MonitoringStopped | EndReason::SessionBudget
    )
}

/// Ends a session if it is over according to the last survey.
pub fn close_if_over(step: &mut Step<'_>, index: SessionIndex, now: BootTime) {
    let Some(session) = step.traffic.sessions.get(index) else {
        return;
    };
    let (to_server, to_client) = (session.to_server, session.to_client);
    let (since, reason) = session
        .closing
        .map_or((now, EndReason::StreamsClosed), |closing| {
            (closing.since, closing.reason)
        });
    let held = |key: Option<EndpointKey>, end: End| {
        holding::is_end_held(step.machine, &step.traffic.streams, key, end)
    };
    let server_gone = match (to_client, to_server) {
        (Some(_), _) => !held(to_client, End::Writer),
        (None, _) => !held(to_server, End::Reader),
    };
    let client_gone = !held(to_client, End::Reader) && !held(to_server, End::Writer);
    if !server_gone && !client_gone {
        // The descriptors went to another process: the session continues until that one leaves.
        if now.since(since) > ARRIVAL_TIMEOUT
            && let Some(session) = step.traffic.sessions.get_mut(index)
        {
            session.keep_open();
        }
        return;
    }
    // A process that holds the other end can still read what is unread.
    let waited = now.since(since);
    let pending = [to_server, to_client].into_iter().flatten().any(|key| {
        let counted = counted(&step.traffic.streams, step.machine, key);
        let unread = counted.written > counted.read;
        step.traffic.streams.flow(key).is_some_and(|flow| {
            flow.position() < counted.at(flow.source()) && waited < ARRIVAL_TIMEOUT
                || unread && !flow.has_ended() && waited < LAST_RECORD_TIMEOUT
                || unread && held(Some(key), End::Reader)
        })
    });
    if !pending {
        end(step, index, reason, now);
    }
}

/// Ends all sessions because the daemon stops. All records must have been taken in.
pub fn end_all(step: &mut Step<'_>, now: BootTime) {
    for index in step.traffic.sessions.indices(|_| true) {
        end(step, index, EndReason::MonitoringStopped, now);
    }
}

/// Drops a session to make room for another user's: what it carries from now on is not seen until
/// there is room again.
pub fn make_way(step: &mut Step<'_>, index: SessionIndex, now: BootTime) {
    let Some(session) = step.traffic.sessions.get(index) else {
        return;
    };
    let user = session.owner;
    let tgid = session.server.or(session.client).unwrap_or(0);
    let streams: Vec<_> = session.streams().collect();
    step.traffic.sessions.refuse();
    let origin = Origin { tgid, time: now };
    step.quotas.report(
        &mut step.output,
        BlindMechanism::SessionBudget,
        user,
        origin,
    );
    end(step, index, EndReason::SessionBudget, now);
    for (key, _) in &streams {
        following::ignore(step, *key, Reason::NoRoom);
    }
    if let Some((key, direction)) = streams.first() {
        step.quotas.admissions.refuse(*key, Some(*direction));
    }
}

/// Ends a session: bytes that have not arrived are lost, its accounts are closed, and its streams
/// are ignored from now on.
fn end(step: &mut Step<'_>, index: SessionIndex, reason: EndReason, now: BootTime) {
    delivery::announce_pending(step, index, now);
    let Some(session) = step.traffic.sessions.get(index) else {
        return;
    };
    let id = session.id.clone();
    tracing::trace!(session = %id, announced = session.announced, %reason, "ended");
    let streams: Vec<_> = session.streams().collect();
    let finished: Vec<_> = streams
        .into_iter()
        .map(|(key, direction)| (key, direction, finish_stream(step, key, reason, now)))
        .collect();
    step.traffic.flush(&mut step.output, index);
    for (key, direction, counts) in finished {
        if step.traffic.sessions.is_announced(index) {
            close_account(step, &id, key, direction, counts, reason, now);
        }
        following::ignore(step, key, Reason::Over);
    }
    if step.traffic.sessions.is_announced(index) {
        step.output.session_ended(&id, reason, now);
    }
    step.traffic.sessions.remove(index);
}

/// Gives up what has not arrived of a stream. Returns what was counted.
fn finish_stream(
    step: &mut Step<'_>,
    key: EndpointKey,
    reason: EndReason,
    now: BootTime,
) -> Counted {
    let mut counts = counted(&step.traffic.streams, step.machine, key);
    let flow = step.traffic.streams.flow(key);
    let drained = flow.is_some_and(|flow| flow.has_ended() && flow.source() == End::Reader);
    if drained
        && counts.written > counts.read
        && correct_double_count(
            &mut step.traffic.streams,
            step.machine,
            key,
            counts.written - counts.read,
        )
    {
        counts.written = counts.read;
    }
    let mut reason_missing = GapReason::RingFull;
    if counts.read == 0 && counts.written > 0 {
        // No process was seen reading it, and none will be. What was not copied of it is lost for that reason.
        delivery::use_writer(step, key, now);
        if !streams_go_on(reason) {
            reason_missing = GapReason::NeverRead;
        }
    }
    step.traffic
        .pass_on(&mut step.output, key, now, |flow, emit| {
            let end = counts.at(flow.source());
            flow.finish(end, reason_missing, now, emit);
        });
    if !streams_go_on(reason) {
        step.traffic
            .pass_on(&mut step.output, key, now, |flow, emit| {
                flow.finish(counts.written, GapReason::NeverRead, now, emit);
            });
    }
    step.traffic
        .pass_on(&mut step.output, key, now, |flow, emit| {
            flow.finish_comparison(now, emit);
        });
    counts
}

/// Closes a stream's account, and reports its end if its reader did not see it.
fn close_account(
    step: &mut Step<'_>,
    id: &SessionId,
    key: EndpointKey,
    direction: Direction,
    counts: Counted,
    reason: EndReason,
    now: BootTime,
) {
    let Some(flow) = step.traffic.streams.flow(key) else {
        return;
    };
    step.traffic.accounts.add(StreamLedger {
        session_id: id.clone(),
        direction,
        bytes_written: counts.written,
        bytes_read: counts.read,
        bytes_captured: flow.captured(),
        bytes_lost: flow.lost(),
    });
    if !streams_go_on(reason) && !flow.has_ended() {
        step.output.event(id, direction, StreamEvent::End, now);
    }
}

/// Checks everything known against the last survey: ends sessions whose end went unnoticed, and
/// forgets streams that are gone.
pub fn sweep(step: &mut Step<'_>, now: BootTime) {
    let machine = &*step.machine;
    let is_held = |key| holding::is_held(machine, key);
    for session in step.traffic.sessions.values_mut() {
        if session.streams().any(|(key, _)| !is_held(key)) {
            session.close(now, EndReason::StreamsClosed);
        }
    }
    let sessions = &step.traffic.sessions;
    let is_closing = |closing: Closing| closing.since != now;
    for index in sessions.indices(|session| session.closing.is_some_and(is_closing)) {
        close_if_over(step, index, now);
    }
    let machine = &*step.machine;
    let streams = &mut step.traffic.streams;
    for key in streams.unheld_twice(|key| holding::is_held(machine, key)) {
        tracing::trace!(?key, "forgotten");
        forget(step, key);
    }
    step.traffic.streams.shrink();
    step.processes.programs.shrink();
    step.processes.interner.drop_unused();
}

/// Forgets a stream here and in the kernel, with the socket at its other end unless a stream is read
/// there too.
pub fn forget(step: &mut Step<'_>, key: EndpointKey) {
    following::ignore(step, key, Reason::Over);
    let peer = step.traffic.streams.peers().of(key);
    step.traffic.streams.forget(key);
    step.processes.programs.forget(key);
    step.quotas.admissions.forget(key);
    step.machine.forget(key);
    if let Some(peer) = peer.filter(|peer| step.traffic.streams.get(*peer).is_none()) {
        step.traffic.streams.peers_mut().forget(peer);
        step.machine.forget(peer);
    }
}
