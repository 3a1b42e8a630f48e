//! Whether the ends of a stream are held, according to the last survey.

use mcpinspect_common::{End, EndpointKey};

use super::environment::Environment;
use super::streams::StreamTable;

/// Whether an endpoint is held at either end.
pub fn is_held(machine: &dyn Environment, endpoint: EndpointKey) -> bool {
    [End::Reader, End::Writer]
        .into_iter()
        .any(|end| machine.is_held(endpoint, end))
}

/// Whether an end of a stream is held.
pub fn is_end_held(
    machine: &dyn Environment,
    streams: &StreamTable,
    key: Option<EndpointKey>,
    end: End,
) -> bool {
    let Some(key) = key else { return false };
    let endpoint = match end {
        End::Reader => Some(key),
        End::Writer => streams.get(key).and_then(|stream| stream.written_at),
    };
    endpoint.is_some_and(|endpoint| machine.is_held(endpoint, end))
}
