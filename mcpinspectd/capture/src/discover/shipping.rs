//! How much of each endpoint to ship, given what its streams turned out to be.

use mcpinspect_common::{End, EndpointKey, EndpointWatch, SHIP_REGARDLESS};

use super::settings::Settings;
use super::stream::{Reason, Stream, StreamState};
use super::streams::StreamTable;

/// What the kernel should ship of a stream's endpoints: one for a pipe, up to two for a socket.
pub fn watches(
    streams: &StreamTable,
    settings: &Settings,
    key: EndpointKey,
) -> impl Iterator<Item = (EndpointKey, EndpointWatch)> {
    let written_at = streams.get(key).and_then(|stream| stream.written_at);
    let limit = |stream: EndpointKey, end: End| limit(streams.get(stream), settings, end);
    let counted = u32::from(!is_ignored(streams, key));
    if written_at == Some(key) {
        let watch = EndpointWatch {
            ship_limit: [limit(key, End::Reader), limit(key, End::Writer)],
            counted,
            compare_only: is_compared(streams, key),
        };
        return [Some((key, watch)), None].into_iter().flatten();
    }
    // A socket reads one stream and writes the other: each endpoint serves both.
    let reverse = streams.peers().of(key);
    let (own_writes, counts_writes, compared) = reverse.map_or((0, 0, 0), |reverse| {
        let counted = u32::from(!is_ignored(streams, reverse));
        let compared = is_compared(streams, reverse);
        (limit(reverse, End::Writer), counted, compared)
    });
    let counted = counted | counts_writes;
    let own = EndpointWatch {
        ship_limit: [limit(key, End::Reader), own_writes],
        counted,
        compare_only: compared,
    };
    let peer = written_at.map(|peer| {
        let watch = EndpointWatch {
            ship_limit: [limit(peer, End::Reader), limit(key, End::Writer)],
            counted,
            compare_only: is_compared(streams, key),
        };
        (peer, watch)
    });
    [Some((key, own)), peer].into_iter().flatten()
}

fn is_compared(streams: &StreamTable, key: EndpointKey) -> u32 {
    u32::from(streams.flow(key).is_some_and(|flow| flow.is_compared()))
}

/// Whether nothing needs to be known about a stream.
fn is_ignored(streams: &StreamTable, key: EndpointKey) -> bool {
    streams.get(key).is_none_or(|stream| match stream.state {
        // Its positions must be right once there is room.
        StreamState::Ignored(reason) => reason != Reason::NoRoom,
        StreamState::Undecided(_) | StreamState::InSession(_) => false,
    })
}

/// The position up to which an end of a stream is shipped.
fn limit(stream: Option<&Stream>, settings: &Settings, end: End) -> u64 {
    let Some(stream) = stream else { return 0 };
    // What was left out counts neither as a beginning nor against the budget. A stream that was already in use
    // may begin in the middle of a message.
    let budget = |bytes: u64| match stream.skipped {
        Some(skipped) => skipped.to.saturating_add(bytes) | SHIP_REGARDLESS,
        None if stream.joined => bytes | SHIP_REGARDLESS,
        None => bytes,
    };
    match &stream.state {
        StreamState::Ignored(_) => stream
            .sampling
            .map_or(0, |sampling| sampling.limit(end) | SHIP_REGARDLESS),
        StreamState::Undecided(buffer) if buffer.is_extended() => budget(settings.max_message),
        StreamState::Undecided(_) => budget(settings.sniff_budget),
        StreamState::InSession(flow) => {
            if flow.source() == end || flow.is_compared() {
                u64::MAX
            } else if flow.source() == End::Reader && !flow.has_started() {
                // In case the reader never shows up.
                settings.sniff_budget
            } else {
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_common::{EndpointKind, EndpointReport};
    use mcpinspect_core::model::{BootTime, Direction, Segment};
    use mcpinspect_core::wire::comparison::Start;

    use super::*;

    const SETTINGS: Settings = Settings {
        sniff_budget: 1000,
        max_message: 9000,
        max_buffered: 0,
        max_backlog: 0,
        compare_ends: false,
        max_sessions: 0,
        max_streams: 0,
        max_streams_per_user: 0,
        max_programs_per_user: 0,
        scratch: None,
        max_accounts: 0,
    };

    fn endpoint(ino: u64, kind: EndpointKind) -> EndpointKey {
        EndpointKey {
            ino,
            dev: 8,
            kind: kind as u32,
        }
    }

    fn limits(streams: &StreamTable, key: EndpointKey) -> Vec<(u64, [u64; 2], u32, u32)> {
        watches(streams, &SETTINGS, key)
            .map(|(key, watch)| (key.ino, watch.ship_limit, watch.counted, watch.compare_only))
            .collect()
    }

    #[test]
    fn a_pipe_is_shipped_as_far_as_its_state_asks_for() {
        let pipe = endpoint(1, EndpointKind::Pipe);
        let mut streams = StreamTable::default();
        assert_eq!(limits(&streams, pipe), [(1, [0, 0], 0, 0)], "not known");
        streams.ensure(pipe);
        assert_eq!(limits(&streams, pipe), [(1, [1000, 1000], 1, 0)]);
        streams.extend(pipe);
        assert_eq!(limits(&streams, pipe), [(1, [9000, 9000], 1, 0)]);
        streams.bind(pipe, 0, Direction::ClientToServer);
        assert_eq!(limits(&streams, pipe), [(1, [u64::MAX, 1000], 1, 0)]);
        let flow = streams.flow_mut(pipe).expect("in a session");
        flow.push(&Segment::new(0, &b"x"[..]), BootTime(0), &mut |_, _| {});
        assert_eq!(limits(&streams, pipe), [(1, [u64::MAX, 0], 1, 0)]);
        let flow = streams.flow_mut(pipe).expect("in a session");
        flow.switch_to_writer(BootTime(0), &mut |_, _| {});
        assert_eq!(limits(&streams, pipe), [(1, [0, u64::MAX], 1, 0)]);
        streams.ignore(pipe, Reason::NotMcp);
        assert_eq!(limits(&streams, pipe), [(1, [0, 0], 0, 0)]);
    }

    #[test]
    fn both_ends_are_shipped_where_they_are_compared() {
        let pipe = endpoint(1, EndpointKind::Pipe);
        let mut streams = StreamTable::default();
        streams.bind(pipe, 0, Direction::ClientToServer);
        let flow = streams.flow_mut(pipe).expect("in a session");
        flow.compare(Start::Together);
        flow.push(&Segment::new(0, &b"x"[..]), BootTime(0), &mut |_, _| {});
        assert_eq!(limits(&streams, pipe), [(1, [u64::MAX, u64::MAX], 1, 1)]);
    }

    #[test]
    fn each_socket_of_a_pair_serves_two_streams() {
        let [server, client] = [1, 2].map(|ino| endpoint(ino, EndpointKind::UnixSocket));
        let mut streams = StreamTable::default();
        streams.join(EndpointReport {
            key: server,
            peer_ino: 2,
            ..EndpointReport::default()
        });
        // The server reads its own socket; what it writes is read at the client's.
        streams.bind(server, 0, Direction::ClientToServer);
        streams.ignore(client, Reason::NotMcp);
        assert_eq!(
            limits(&streams, server),
            [(1, [u64::MAX, 0], 1, 0), (2, [0, 1000], 1, 0)]
        );
        assert_eq!(
            limits(&streams, client),
            [(2, [0, 1000], 1, 0), (1, [u64::MAX, 0], 1, 0)]
        );
    }
}
