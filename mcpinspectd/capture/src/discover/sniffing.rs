//! Decides what a stream is by its start, and acts on that.

use mcpinspect_common::{EndpointKey, NOT_JSON_BUDGET};
use mcpinspect_core::mcp::sniff::Evidence;
use mcpinspect_core::model::BootTime;

use super::captured::Captured;
use super::following::{ignore, is_output_of_open_input};
use super::roles;
use super::step::Step;
use super::stream::Reason;

/// Takes in bytes that crossed an end of an undecided stream.
pub fn data(step: &mut Step<'_>, captured: &Captured<'_>) {
    if let Some(evidence) = step.traffic.streams.sniff(captured) {
        decide(step, captured.key, evidence, captured.origin.time);
    }
    bound_buffers(step);
}

/// Acts on what the start of a stream shows.
fn decide(step: &mut Step<'_>, key: EndpointKey, evidence: Evidence, now: BootTime) {
    match evidence {
        Evidence::Mcp { role } => roles::settle(step, key, role, now),
        Evidence::NotMcp { .. } => {
            if !is_output_of_open_input(step, key) {
                ignore(step, key, Reason::NotMcp);
            }
        }
        Evidence::Undecided {
            json_rpc_like: true,
        } => {
            if step.traffic.streams.extend(key) {
                step.ship(key);
            }
        }
        Evidence::Undecided {
            json_rpc_like: false,
        } => {
            let sniffed = step.traffic.streams.sniffed(key) as u64;
            let spent = sniffed >= step.settings.sniff_budget
                || (sniffed >= NOT_JSON_BUDGET && step.traffic.streams.begins_as_text(key));
            if spent && !is_output_of_open_input(step, key) {
                ignore(step, key, Reason::NotMcp);
            }
        }
    }
}

/// Gives up the stream with the largest buffer while the buffers hold too much.
fn bound_buffers(step: &mut Step<'_>) {
    while step.traffic.streams.buffered() > step.settings.max_buffered {
        let Some((bytes, key)) = step.traffic.streams.largest_buffer() else {
            return;
        };
        tracing::debug!(
            ?key,
            bytes,
            "too much data is buffered for undecided streams; this one is no longer followed"
        );
        ignore(step, key, Reason::NotMcp);
    }
}
