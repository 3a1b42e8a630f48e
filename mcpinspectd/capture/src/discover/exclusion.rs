//! Programs that the configuration excludes.
//!
//! An exclusion is about the program that a session starts with. It must not let a server escape
//! monitoring: once something was read or said, a program executed in its place is watched
//! whatever its name, and a program that takes an excluded one's place ends the exclusion.

use mcpinspect_common::EndpointKey;
use mcpinspect_core::model::{BlindMechanism, GapReason};

use super::following;
use super::step::Step;
use super::stream::Reason;

/// Leaves an excluded program's streams alone, if they have carried nothing yet.
pub fn apply(step: &mut Step<'_>, input: Option<EndpointKey>, output: Option<EndpointKey>) {
    let was_read = input.is_some_and(|key| following::positions(step, key)[0] > 0);
    let was_written = output.is_some_and(|key| following::positions(step, key)[1] > 0);
    if was_read || was_written {
        tracing::debug!(
            ?input,
            ?output,
            "excluded too late: this session continues to be watched"
        );
        return;
    }
    for key in [input, output].into_iter().flatten() {
        if step.traffic.streams.flow(key).is_none() {
            following::ignore(step, key, Reason::Excluded);
        }
    }
}

/// Ends the exclusion of two streams because another program, in process `pid`, now has both.
/// A program that an excluded one starts for itself has at most one.
pub fn end(step: &mut Step<'_>, input: Option<EndpointKey>, output: Option<EndpointKey>, pid: u32) {
    let (Some(input), Some(output)) = (input, output) else {
        return;
    };
    let streams = &step.traffic.streams;
    let is_excluded = |key| streams.is_ignored(key, Reason::Excluded);
    if !is_excluded(input) || !is_excluded(output) {
        return;
    }
    for key in [input, output] {
        following::resume(step, key, GapReason::Excluded);
        step.traffic
            .streams
            .suspect(key, BlindMechanism::Excluded, pid);
        step.ship(key);
    }
}
