//! What the kernel counted at the two ends of a stream.

use mcpinspect_common::{End, EndpointKey};

use super::environment::Environment;
use super::flow::Counted;
use super::streams::StreamTable;

/// Returns the bytes counted at both ends of a stream.
pub fn counted(streams: &StreamTable, machine: &dyn Environment, key: EndpointKey) -> Counted {
    let position = |endpoint: Option<EndpointKey>, end: End| {
        endpoint
            .and_then(|endpoint| machine.counters(endpoint))
            .map_or(0, |counters| counters.counted(end))
    };
    let stream = streams.get(key);
    let written_at = stream.and_then(|stream| stream.written_at);
    let counted_twice = stream.map_or(0, |stream| stream.counted_twice);
    let read = position(Some(key), End::Reader);
    let written = position(written_at, End::Writer).saturating_sub(counted_twice);
    Counted {
        // What was read has been written, even if by a process that was not followed yet.
        written: written.max(read),
        read,
    }
}

/// Corrects the writer's count if one thing explains `excess` bytes too many: a write was in
/// progress while the stream was registered. Its bytes were already in the stream and were counted as
/// unread, and were counted again when the call returned. Returns whether that was the case.
pub fn correct_double_count(
    streams: &mut StreamTable,
    machine: &dyn Environment,
    key: EndpointKey,
    excess: u64,
) -> bool {
    let Some(stream) = streams.get(key) else {
        return false;
    };
    let Some(counters) = stream
        .written_at
        .and_then(|endpoint| machine.counters(endpoint))
    else {
        return false;
    };
    let under_way = counters.first_write;
    let twice = excess == under_way
        && (1..=counters.unread).contains(&under_way)
        && stream.counted_twice == 0;
    if twice {
        streams.correct_count(key, under_way);
    }
    twice
}
