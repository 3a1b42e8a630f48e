//! Gives up streams of users who hold too many, so that there is room for everyone's.
//!
//! The kernel's tables hold the standard input and output of every program that was started on a pipe
//! or socket, for as long as any process holds it. A user can hold many thousands. A stream that is given up is
//! forgotten here and in the kernel: a program that is started on it later makes it known again.

use mcpinspect_common::EndpointKey;

use super::blind_spots;
use super::lifecycle;
use super::shares::Uid;
use super::step::Step;
use crate::capture::Origin;
use crate::model::BlindMechanism;

/// Makes room after `user` got a stream.
pub fn make_room(step: &mut Step<'_>, user: Uid, origin: Origin) {
    while let Some((over, key)) = step.streams.to_give_up(user) {
        if serves_a_session(step, key) {
            step.streams.keep(key);
            continue;
        }
        tracing::trace!(?key, user = over, "given up");
        if let Some(reverse) = step.streams.peers().of(key)
            && step.streams.get(reverse).is_some()
        {
            lifecycle::forget(step, reverse);
        }
        lifecycle::forget(step, key);
        blind_spots::report_user(step, BlindMechanism::EndpointBudget, over, origin);
    }
}

/// Whether the socket that a stream is read at also writes a direction of a session: the kernel
/// counts both at one endpoint.
fn serves_a_session(step: &Step<'_>, key: EndpointKey) -> bool {
    step.streams
        .peers()
        .of(key)
        .is_some_and(|reverse| step.streams.flow(reverse).is_some())
}
