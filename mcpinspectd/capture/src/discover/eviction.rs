//! Evicts streams of users who hold too many, so that there is room for everyone's.
//!
//! The kernel's tables hold the standard input and output of every program that was started on a pipe
//! or socket, for as long as any process holds it. A user can hold many thousands. A stream that is evicted is
//! forgotten here and in the kernel: a program that is started on it later makes it known again.

use mcpinspect_common::EndpointKey;
use mcpinspect_core::model::BlindMechanism;

use super::lifecycle;
use super::shares::Uid;
use super::step::Step;
use super::streams::StreamTable;
use crate::capture::Origin;

/// Streams to evict before looking what that freed, which takes a walk over all that is known of the user.
const EVICTED_AT_ONCE: usize = 64;

/// Makes room after `user` got a stream.
pub fn make_room(step: &mut Step<'_>, user: Uid, origin: Origin) {
    while let Some((over, key)) = step.traffic.streams.to_evict(user) {
        evict(step, over, key, origin);
    }
}

/// Makes room after `user` started a program on a stream: what is known about programs has a share per user,
/// too. Returns whether the program at `own` streams fits. If not, all other streams of the user are in
/// sessions, and it will be known by what `/proc` says.
pub fn make_room_for_programs(
    step: &mut Step<'_>,
    user: Uid,
    own: [Option<EndpointKey>; 2],
    origin: Origin,
) -> bool {
    while let Some(over) = step.processes.interner.over(user) {
        for _ in 0..EVICTED_AT_ONCE {
            let first = step.traffic.streams.next_to_evict(over);
            let Some(key) = first.filter(|key| !own.contains(&Some(*key))) else {
                step.quotas.report(
                    &mut step.output,
                    BlindMechanism::EndpointBudget,
                    over,
                    origin,
                );
                return false;
            };
            evict(step, over, key, origin);
        }
        step.processes.interner.given_up(over);
    }
    true
}

/// Evicts a stream of a user, unless a session needs its endpoint.
fn evict(step: &mut Step<'_>, over: Uid, key: EndpointKey, origin: Origin) {
    if serves_a_session(&step.traffic.streams, key) {
        step.traffic.streams.keep(key);
        return;
    }
    tracing::trace!(?key, user = over, "evicted");
    if let Some(reverse) = step.traffic.streams.peers().of(key)
        && step.traffic.streams.get(reverse).is_some()
    {
        lifecycle::forget(step, reverse);
    }
    lifecycle::forget(step, key);
    step.quotas.report(
        &mut step.output,
        BlindMechanism::EndpointBudget,
        over,
        origin,
    );
}

/// Whether the socket that a stream is read at also writes a direction of a session: the kernel
/// counts both at one endpoint.
fn serves_a_session(streams: &StreamTable, key: EndpointKey) -> bool {
    let reverse = streams.peers().of(key);
    reverse.is_some_and(|reverse| streams.flow(reverse).is_some())
}
