//! Merges a session's two streams in the order of the kernel's events.
//!
//! A server answers what it has read. The kernel's records have that order: the read of a request
//! ends before the write of its answer begins. But one stream may be held back while the other goes
//! on: until overtaken bytes arrive, until it is clear whether both ends agree, or until
//! its reader turns out to be invisible. So a byte's place is the time of the call that is its
//! source, whenever it comes out, and what comes later in the other stream is buffered until then.
//!
//! Nothing is held back for long. If it would be, order gives way.

use std::collections::VecDeque;
use std::time::Duration;

use mcpinspect_core::model::{BootTime, Direction, StreamEvent};

/// Time that an event may be buffered: longer than it takes to find that a reader is
/// invisible.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// Most bytes to buffer for a session.
const BYTES_MAX: usize = 4 << 20;
/// Most events to buffer for a session.
const EVENTS_MAX: usize = 16 << 10;

/// An event that waits for earlier ones in the other stream.
#[derive(Debug)]
pub struct Buffered {
    /// The time of the call that is its source.
    pub time: BootTime,
    /// Its stream.
    pub direction: Direction,
    /// What happens.
    pub event: StreamEvent<'static>,
}

/// The events of a session that wait: by time, and each stream in its own order. `bytes` is always the
/// sum of their sizes.
#[derive(Debug, Default)]
pub struct ReorderBuffer {
    events: VecDeque<Buffered>,
    bytes: usize,
    /// The last time in each direction.
    last: [BootTime; 2],
}

/// The time up to which each stream of a session is complete; `None` where nothing of it is held back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watermarks {
    /// What the client said.
    pub to_server: Option<BootTime>,
    /// What the server said.
    pub to_client: Option<BootTime>,
}

impl Watermarks {
    /// Whether an event at `time` in one direction may come before what the other holds back.
    pub fn allow(self, direction: Direction, time: BootTime) -> bool {
        let other = match direction {
            Direction::ClientToServer => self.to_client,
            Direction::ServerToClient => self.to_server,
        };
        other.is_none_or(|since| since >= time)
    }
}

impl ReorderBuffer {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The memory it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.bytes + self.events.len() * size_of::<Buffered>()
    }

    /// Buffers an event.
    pub fn push(&mut self, direction: Direction, time: BootTime, event: StreamEvent<'static>) {
        let last = &mut self.last[usize::from(direction == Direction::ServerToClient)];
        let time = time.max(*last);
        *last = time;
        self.bytes += event.memory();
        let at = self.events.partition_point(|event| event.time <= time);
        let buffered = Buffered {
            time,
            direction,
            event,
        };
        self.events.insert(at, buffered);
    }

    /// Removes and returns the first event, if it may be released.
    pub fn pop_ready(&mut self, watermarks: Watermarks, now: BootTime) -> Option<Buffered> {
        let first = self.events.front()?;
        let ready = watermarks.allow(first.direction, first.time)
            || now.since(first.time) > TIMEOUT
            || self.bytes > BYTES_MAX
            || self.events.len() > EVENTS_MAX;
        ready.then(|| self.pop()).flatten()
    }

    /// Removes and returns the first event, whatever is held back.
    pub fn pop(&mut self) -> Option<Buffered> {
        let first = self.events.pop_front()?;
        self.bytes -= first.event.memory();
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Segment;

    use super::*;

    const UP: Direction = Direction::ClientToServer;
    const DOWN: Direction = Direction::ServerToClient;
    const NOTHING: Watermarks = Watermarks {
        to_server: None,
        to_client: None,
    };

    fn event(position: u64, length: usize) -> StreamEvent<'static> {
        Segment::new(position, vec![0; length]).into()
    }

    fn buffer(all: &[(Direction, u64)]) -> ReorderBuffer {
        let mut buffer = ReorderBuffer::default();
        for (index, (direction, time)) in all.iter().enumerate() {
            buffer.push(*direction, BootTime(*time), event(index as u64, 1));
        }
        buffer
    }

    fn released(buffer: &mut ReorderBuffer, watermarks: Watermarks, now: BootTime) -> Vec<u64> {
        let mut released = Vec::new();
        while let Some(first) = buffer.pop_ready(watermarks, now) {
            if let StreamEvent::Segment(segment) = first.event {
                released.push(segment.position);
            }
        }
        released
    }

    #[test]
    fn an_answer_waits_for_its_request() {
        let mut buffer = buffer(&[(DOWN, 5), (DOWN, 6)]);
        let held = Watermarks {
            to_server: Some(BootTime(3)),
            ..NOTHING
        };
        assert_eq!(released(&mut buffer, held, BootTime(6)), [0; 0]);
        buffer.push(UP, BootTime(3), event(2, 1));
        let held = Watermarks {
            to_server: Some(BootTime(6)),
            ..NOTHING
        };
        assert_eq!(released(&mut buffer, held, BootTime(6)), [2, 0, 1]);
        assert_eq!((buffer.is_empty(), buffer.bytes), (true, 0));
    }

    #[test]
    fn each_stream_keeps_its_own_order() {
        let mut buffer = buffer(&[(UP, 7), (DOWN, 6), (UP, 4), (DOWN, 8)]);
        assert_eq!(released(&mut buffer, NOTHING, BootTime(8)), [1, 0, 2, 3]);
    }

    #[test]
    fn order_gives_way_in_the_end() {
        let held = Watermarks {
            to_server: Some(BootTime(3)),
            ..NOTHING
        };
        let mut overdue = buffer(&[(DOWN, 5)]);
        assert_eq!(released(&mut overdue, held, BootTime(5) + TIMEOUT), [0; 0]);
        assert_eq!(released(&mut overdue, held, BootTime(6) + TIMEOUT), [0]);
        let mut full = buffer(&[(DOWN, 5)]);
        full.push(DOWN, BootTime(5), event(1, BYTES_MAX));
        assert_eq!(
            released(&mut full, held, BootTime(5)),
            [0],
            "and the rest fits again"
        );
        let mut many = buffer(&vec![(DOWN, 5); EVENTS_MAX + 1]);
        assert_eq!(released(&mut many, held, BootTime(5)).len(), 1);
    }

    #[test]
    fn what_is_held_back_stops_only_what_came_later_in_the_other_stream() {
        let held = Watermarks {
            to_server: Some(BootTime(5)),
            to_client: None,
        };
        assert!(held.allow(DOWN, BootTime(5)) && !held.allow(DOWN, BootTime(6)));
        assert!(held.allow(UP, BootTime(6)));
    }
}
