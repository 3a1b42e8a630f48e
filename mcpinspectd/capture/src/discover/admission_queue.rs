//! MCP streams for whose session there was no room.
//!
//! What has just arrived is kept whole until the next tick decides who gets the room. What was refused
//! then waits, without its bytes, until a session ends.

use std::collections::{BTreeMap, VecDeque};

use mcpinspect_common::EndpointKey;
use mcpinspect_core::model::Direction;

/// Which direction of its session a stream is, if its messages tell.
pub type Role = Option<Direction>;

/// The streams, in order of arrival. Each appears once.
#[derive(Debug, Default)]
pub struct AdmissionQueue {
    arrived: BTreeMap<EndpointKey, Role>,
    refused: VecDeque<(EndpointKey, Role)>,
}

impl AdmissionQueue {
    /// Adds a stream that has just turned out to be MCP.
    pub fn arrive(&mut self, stream: EndpointKey, role: Role) {
        self.arrived.insert(stream, role);
    }

    /// Takes out what has arrived since the last call.
    pub fn take_arrived(&mut self) -> BTreeMap<EndpointKey, Role> {
        std::mem::take(&mut self.arrived)
    }

    /// Adds a stream that is not followed until there is room.
    pub fn refuse(&mut self, stream: EndpointKey, role: Role) {
        self.forget(stream);
        self.refused.push_back((stream, role));
    }

    /// Takes out the stream that was refused first.
    pub fn next_refused(&mut self) -> Option<(EndpointKey, Role)> {
        self.refused.pop_front()
    }

    /// Forgets a stream.
    pub fn forget(&mut self, stream: EndpointKey) {
        self.refused.retain(|(known, _)| *known != stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(ino: u64) -> EndpointKey {
        EndpointKey {
            ino,
            ..EndpointKey::default()
        }
    }

    #[test]
    fn what_was_refused_first_comes_first_and_each_stream_once() {
        let mut queue = AdmissionQueue::default();
        for ino in [1, 2, 1, 3] {
            queue.refuse(stream(ino), None);
        }
        queue.forget(stream(3));
        assert_eq!(queue.next_refused(), Some((stream(2), None)));
        assert_eq!(queue.next_refused(), Some((stream(1), None)));
        assert_eq!(queue.next_refused(), None);
    }

    #[test]
    fn what_arrived_is_taken_once() {
        let mut queue = AdmissionQueue::default();
        queue.arrive(stream(1), None);
        queue.arrive(stream(1), Some(Direction::ClientToServer));
        let arrived: Vec<_> = queue.take_arrived().into_iter().collect();
        assert_eq!(arrived, [(stream(1), Some(Direction::ClientToServer))]);
        assert!(queue.take_arrived().is_empty());
    }
}
