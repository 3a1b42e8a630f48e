//! Bytes that have not arrived: how long to wait for them, and when they are lost.

use std::time::Duration;

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::model::{BootTime, GapReason};

use super::counts::counted;
use super::flow::Flow;
use super::output::Output;
use super::step::Step;
use super::traffic::Traffic;
use super::unseen;

/// Time for which the counts of a stream must be unchanged before they are checked.
const STILL: Duration = Duration::from_secs(1);

/// Gives up bytes that later ones have waited for too long, and differences between two ends that
/// wait for the other end to catch up.
pub fn settle(traffic: &mut Traffic, output: &mut Output<'_>, now: BootTime) {
    for key in traffic.streams.flows_where(Flow::is_waiting) {
        traffic.pass_on(output, key, now, |flow, emit| flow.settle(now, emit));
    }
    for key in traffic.streams.flows_where(Flow::is_comparison_waiting) {
        traffic.pass_on(output, key, now, |flow, emit| {
            flow.settle_comparison(now, emit);
        });
    }
    traffic.release_overdue(output, now);
}

/// Checks streams whose counts no longer change: were bytes counted that never arrived, or read by
/// something that the probes do not see? Returns the streams whose readers a survey should find.
pub fn check_counts(step: &mut Step<'_>, now: BootTime) -> Vec<EndpointKey> {
    let mut sought = Vec::new();
    for key in step.traffic.streams.flows_where(|_| true) {
        let counted = counted(&step.traffic.streams, step.machine, key);
        let Some(flow) = step.traffic.streams.flow_mut(key) else {
            continue;
        };
        let since = flow.still_since(counted, now);
        if now.since(since) < STILL {
            continue;
        }
        let source = flow.source();
        if flow.position() < counted.at(source) {
            step.traffic
                .pass_on(&mut step.output, key, now, |flow, emit| {
                    flow.finish(counted.at(source), GapReason::RingFull, now, emit);
                });
        } else if source == End::Reader && counted.written > counted.read {
            let missing = counted.written - counted.read;
            if !unseen::look_for_reader(step, key, missing, since, now) {
                sought.push(key);
            }
        }
    }
    sought
}
