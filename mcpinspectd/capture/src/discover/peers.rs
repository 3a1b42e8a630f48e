//! Which sockets are connected to each other, and so which stream a call at a socket belongs to.
//!
//! A stream is named by the endpoint that it is read at. A pipe is read and written at the same
//! endpoint. What is written to a socket is read at its peer, so a socket's writes belong to the
//! stream that is named after the peer.

use std::collections::HashMap;

use mcpinspect_common::{End, EndpointKey, EndpointKind, EndpointReport};

use super::capacity;

/// The peer of each known socket.
#[derive(Debug, Default)]
pub struct Peers {
    by_socket: HashMap<EndpointKey, EndpointKey>,
}

impl Peers {
    /// Notes the peer that a report names. Returns the reported endpoint, if it is one.
    pub fn learn(&mut self, report: EndpointReport) -> Option<EndpointKey> {
        let key = report.key;
        let kind = EndpointKind::from_u32(key.kind)?;
        if kind == EndpointKind::UnixSocket && report.peer_ino != 0 {
            let peer = EndpointKey {
                ino: report.peer_ino,
                ..key
            };
            self.by_socket.insert(key, peer);
            self.by_socket.insert(peer, key);
        }
        Some(key)
    }

    /// The socket that a socket is connected to, if known.
    pub fn of(&self, socket: EndpointKey) -> Option<EndpointKey> {
        self.by_socket.get(&socket).copied()
    }

    /// The stream that bytes at `end` of `endpoint` belong to, if known.
    pub fn stream_at(&self, endpoint: EndpointKey, end: End) -> Option<EndpointKey> {
        match (end, EndpointKind::from_u32(endpoint.kind)?) {
            (End::Reader, _) | (End::Writer, EndpointKind::Pipe) => Some(endpoint),
            // One socket sees both directions: these are not streams.
            (_, EndpointKind::HttpSocket | EndpointKind::TlsSocket) => None,
            (End::Writer, EndpointKind::UnixSocket) => self.of(endpoint),
        }
    }

    /// The endpoint that a stream is written at, if known.
    pub fn written_at(&self, stream: EndpointKey) -> Option<EndpointKey> {
        match EndpointKind::from_u32(stream.kind) {
            Some(EndpointKind::UnixSocket) => self.of(stream),
            _ => Some(stream),
        }
    }

    /// Forgets a socket. Its peer still knows it until it is forgotten itself: the socket's last records may
    /// still be on their way.
    pub fn forget(&mut self, endpoint: EndpointKey) {
        self.by_socket.remove(&endpoint);
    }

    /// Whether no socket is known.
    pub fn is_empty(&self) -> bool {
        self.by_socket.is_empty()
    }

    /// Frees spare capacity.
    pub fn shrink(&mut self) {
        capacity::shrink(&mut self.by_socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(ino: u64, kind: EndpointKind) -> EndpointKey {
        EndpointKey {
            ino,
            dev: 8,
            kind: kind as u32,
        }
    }

    fn report(key: EndpointKey, peer_ino: u64) -> EndpointReport {
        EndpointReport {
            key,
            peer_ino,
            ..EndpointReport::default()
        }
    }

    #[test]
    fn a_pipe_is_one_stream_and_a_socket_pair_is_two() {
        let mut peers = Peers::default();
        let pipe = endpoint(1, EndpointKind::Pipe);
        assert_eq!(peers.stream_at(pipe, End::Writer), Some(pipe));
        assert_eq!(peers.written_at(pipe), Some(pipe));
        let [left, right] = [2, 3].map(|ino| endpoint(ino, EndpointKind::UnixSocket));
        assert_eq!(peers.stream_at(left, End::Writer), None, "not yet known");
        assert_eq!(peers.learn(report(left, 3)), Some(left));
        for (own, other) in [(left, right), (right, left)] {
            assert_eq!(peers.stream_at(own, End::Reader), Some(own));
            assert_eq!(peers.stream_at(own, End::Writer), Some(other));
            assert_eq!(peers.written_at(own), Some(other));
        }
    }

    #[test]
    fn a_report_about_something_else_names_no_endpoint() {
        let mut peers = Peers::default();
        assert_eq!(peers.learn(EndpointReport::default()), None);
        let socket = endpoint(2, EndpointKind::UnixSocket);
        assert_eq!(peers.learn(report(socket, 0)), Some(socket));
        assert!(peers.is_empty(), "its peer is not known");
    }

    #[test]
    fn each_socket_of_a_pair_is_forgotten_by_itself() {
        let mut peers = Peers::default();
        let [left, right] = [2, 3].map(|ino| endpoint(ino, EndpointKind::UnixSocket));
        peers.learn(report(left, 3));
        peers.forget(left);
        assert_eq!((peers.of(left), peers.of(right)), (None, Some(left)));
        peers.forget(right);
        assert!(peers.is_empty());
    }
}
