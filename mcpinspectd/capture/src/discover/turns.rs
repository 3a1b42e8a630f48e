//! The order in which a session's two streams are passed on.
//!
//! A server answers what it has read. The kernel's records have that order: the read of a request
//! ends before the write of its answer begins. But one stream may be held back while the other goes
//! on: until overtaken bytes arrive, until it is clear whether both ends agree, or until
//! its reader turns out to be invisible. So a byte's place is the time of the call that is its
//! source, whenever it comes out, and what comes later in the other stream waits for its turn.
//!
//! Nothing is held back for long. If it would be, order gives way.

use std::collections::VecDeque;

use mcpinspect_core::model::{Direction, StreamEvent};

/// Nanoseconds that something waits for its turn: longer than it takes to find that a reader is
/// invisible.
const PATIENCE: u64 = 1_500_000_000;
/// Most bytes that wait in a session.
const BYTES_MAX: usize = 4 << 20;
/// Most pieces that wait in a session.
const PIECES_MAX: usize = 16 << 10;

/// Something waiting for its turn.
#[derive(Debug)]
pub struct Turn {
    /// The time of the call that is its source.
    pub time: u64,
    /// Its stream.
    pub direction: Direction,
    /// What happens.
    pub event: StreamEvent<'static>,
}

/// What waits in a session: by time, and each stream in its own order. `bytes` is always the
/// sum of their sizes.
#[derive(Debug, Default)]
pub struct Turns {
    waiting: VecDeque<Turn>,
    bytes: usize,
    /// The last time in each direction.
    last: [u64; 2],
}

/// Since when each stream of a session has held something back, if it does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// What the client said.
    pub to_server: Option<u64>,
    /// What the server said.
    pub to_client: Option<u64>,
}

impl Held {
    /// Whether something at `time` in one direction may come before what the other holds back.
    pub fn lets_pass(self, direction: Direction, time: u64) -> bool {
        let other = match direction {
            Direction::ClientToServer => self.to_client,
            Direction::ServerToClient => self.to_server,
        };
        other.is_none_or(|since| since >= time)
    }
}

impl Turns {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The memory it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.bytes + self.waiting.len() * size_of::<Turn>()
    }

    /// Queues something for its turn.
    pub fn add(&mut self, direction: Direction, time: u64, event: StreamEvent<'static>) {
        let last = &mut self.last[usize::from(direction == Direction::ServerToClient)];
        let time = time.max(*last);
        *last = time;
        self.bytes += event.memory();
        let at = self.waiting.partition_point(|turn| turn.time <= time);
        let turn = Turn {
            time,
            direction,
            event,
        };
        self.waiting.insert(at, turn);
    }

    /// Removes and returns whatever is due, if anything is.
    pub fn next(&mut self, held: Held, now: u64) -> Option<Turn> {
        let first = self.waiting.front()?;
        let ready = held.lets_pass(first.direction, first.time)
            || now.saturating_sub(first.time) > PATIENCE
            || self.bytes > BYTES_MAX
            || self.waiting.len() > PIECES_MAX;
        ready.then(|| self.take()).flatten()
    }

    /// Removes and returns what comes first, whatever is held back.
    pub fn take(&mut self) -> Option<Turn> {
        let turn = self.waiting.pop_front()?;
        self.bytes -= turn.event.memory();
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Segment;

    use super::*;

    const UP: Direction = Direction::ClientToServer;
    const DOWN: Direction = Direction::ServerToClient;
    const NOTHING: Held = Held {
        to_server: None,
        to_client: None,
    };

    fn event(position: u64, length: usize) -> StreamEvent<'static> {
        Segment::new(position, vec![0; length]).into()
    }

    fn turns(all: &[(Direction, u64)]) -> Turns {
        let mut turns = Turns::default();
        for (index, (direction, time)) in all.iter().enumerate() {
            turns.add(*direction, *time, event(index as u64, 1));
        }
        turns
    }

    fn taken(turns: &mut Turns, held: Held, now: u64) -> Vec<u64> {
        let mut taken = Vec::new();
        while let Some(turn) = turns.next(held, now) {
            if let StreamEvent::Segment(segment) = turn.event {
                taken.push(segment.position);
            }
        }
        taken
    }

    #[test]
    fn an_answer_waits_for_its_request() {
        let mut turns = turns(&[(DOWN, 5), (DOWN, 6)]);
        let held = Held {
            to_server: Some(3),
            ..NOTHING
        };
        assert_eq!(taken(&mut turns, held, 6), [0; 0]);
        turns.add(UP, 3, event(2, 1));
        let held = Held {
            to_server: Some(6),
            ..NOTHING
        };
        assert_eq!(taken(&mut turns, held, 6), [2, 0, 1]);
        assert_eq!((turns.is_empty(), turns.bytes), (true, 0));
    }

    #[test]
    fn each_stream_keeps_its_own_order() {
        let mut turns = turns(&[(UP, 7), (DOWN, 6), (UP, 4), (DOWN, 8)]);
        assert_eq!(taken(&mut turns, NOTHING, 8), [1, 0, 2, 3]);
    }

    #[test]
    fn order_gives_way_in_the_end() {
        let held = Held {
            to_server: Some(3),
            ..NOTHING
        };
        let mut patient = turns(&[(DOWN, 5)]);
        assert_eq!(taken(&mut patient, held, 5 + PATIENCE), [0; 0]);
        assert_eq!(taken(&mut patient, held, 6 + PATIENCE), [0]);
        let mut full = turns(&[(DOWN, 5)]);
        full.add(DOWN, 5, event(1, BYTES_MAX));
        assert_eq!(taken(&mut full, held, 5), [0], "and the rest fits again");
        let mut many = turns(&vec![(DOWN, 5); PIECES_MAX + 1]);
        assert_eq!(taken(&mut many, held, 5).len(), 1);
    }

    #[test]
    fn what_is_held_back_stops_only_what_came_later_in_the_other_stream() {
        let held = Held {
            to_server: Some(5),
            to_client: None,
        };
        assert!(held.lets_pass(DOWN, 5) && !held.lets_pass(DOWN, 6));
        assert!(held.lets_pass(UP, 6));
    }
}
