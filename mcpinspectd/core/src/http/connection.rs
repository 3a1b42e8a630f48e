//! One connection: two directions, each of which speaks one version of HTTP.

use super::event::Event;
use super::exchange::Exchanges;
use super::limits::Limits;
use super::one::{self, Waiting};
use super::part::{Left, PREFACE, PREFACE_HEAD, Part, Role};
use super::sniff::{self, Guess};
use super::two;
use crate::model::Direction;
use crate::wire::held::{BufferUsage, Scratch};

/// Turns the bytes of one connection into messages. See the module documentation.
pub struct Connection {
    limits: Limits,
    /// By [`Direction`].
    sides: [Side; 2],
    waiting: Waiting,
    /// Whether the loss of HTTP/1's order was acted on.
    is_order_lost: bool,
    exchanges: Exchanges,
}

/// One direction.
struct Side {
    reader: Reader,
    /// Where the next byte is; `None` before the first.
    next: Option<u64>,
    /// The first bytes may be from anywhere in the direction.
    is_joined: bool,
}

enum Reader {
    /// The first bytes, until they tell what it is.
    Undecided(Vec<u8>),
    One(Box<one::Side>),
    Two(Box<two::Side>),
    Left,
}

type Emit<'a> = dyn FnMut(Event<'_>) + 'a;

impl Connection {
    /// A connection that is seen from its first byte.
    pub fn new(limits: Limits) -> Self {
        Self::starting(limits, false)
    }

    /// A connection that was already open. Chunks should begin where its parties' calls did: a piece
    /// of a message that begins elsewhere is lost, or makes the connection look like something else.
    pub fn joined(limits: Limits) -> Self {
        Self::starting(limits, true)
    }

    fn starting(limits: Limits, is_joined: bool) -> Self {
        let side = || Side {
            reader: Reader::Undecided(Vec::new()),
            next: (!is_joined).then_some(0),
            is_joined,
        };
        let mut waiting = Waiting::new(limits.max_exchanges);
        if is_joined {
            waiting.lose();
        }
        Self {
            limits,
            sides: [side(), side()],
            waiting,
            is_order_lost: false,
            exchanges: Exchanges::new(limits, is_joined),
        }
    }

    /// Whether nothing more will come of it, whatever is pushed.
    pub fn is_over(&self) -> bool {
        let mut sides = self.sides.iter();
        sides.all(|side| matches!(side.reader, Reader::Left))
    }

    /// How many of a direction's next bytes are of no interest, so that they need not be copied: the rest of
    /// a body that is not MCP. They still have to be reported as a [gap](Connection::gap).
    pub fn skippable(&self, direction: Direction) -> u64 {
        match &self.sides[index(direction)].reader {
            Reader::Left => u64::MAX,
            Reader::One(side) => match side.body() {
                Some((stream, left)) if !self.exchanges.is_followed(stream) => left,
                _ => 0,
            },
            Reader::Undecided(_) | Reader::Two(_) => 0,
        }
    }

    /// What unfinished messages and heads occupy.
    pub fn usage(&self) -> BufferUsage {
        let sides = self.sides.iter().map(|side| match &side.reader {
            Reader::Undecided(start) => start.capacity(),
            Reader::One(side) => side.memory(),
            Reader::Two(side) => side.memory(),
            Reader::Left => 0,
        });
        self.exchanges.usage() + BufferUsage::memory(sides.sum())
    }

    /// Gives up the largest of the unfinished messages, which is reported where it ends. Returns whether that
    /// freed anything.
    pub fn abandon_largest(&mut self) -> bool {
        self.exchanges.abandon_largest()
    }

    /// Bytes in memory of the largest unfinished message that is worth a file, or zero.
    pub fn spillable(&self) -> usize {
        self.exchanges.spillable()
    }

    /// Moves that message to a file.
    pub fn spill_largest(&mut self, scratch: &mut Scratch) {
        self.exchanges.spill_largest(scratch);
    }

    /// Takes in a direction's next bytes, the first of which is at `position`.
    ///
    /// Bytes that were already taken in are skipped, and a jump ahead becomes a gap.
    pub fn push(
        &mut self,
        direction: Direction,
        position: u64,
        bytes: &[u8],
        emit: &mut dyn FnMut(Event<'_>),
    ) {
        let side = &mut self.sides[index(direction)];
        let next = *side.next.get_or_insert(position);
        if position > next {
            self.gap(direction, Some(position - next), emit);
        }
        let seen = usize::try_from(next.saturating_sub(position)).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(seen..).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        let from = next.max(position);
        self.sides[index(direction)].next = Some(from + bytes.len() as u64);
        self.feed(direction, from, bytes, emit);
    }

    /// Notes that a direction's next bytes were lost: this many, or an unknown number. Positions continue after
    /// as many as are known.
    pub fn gap(
        &mut self,
        direction: Direction,
        bytes: Option<u64>,
        emit: &mut dyn FnMut(Event<'_>),
    ) {
        if bytes == Some(0) {
            return;
        }
        let side = &mut self.sides[index(direction)];
        if let Some(next) = &mut side.next {
            *next = next.saturating_add(bytes.unwrap_or(0));
        }
        if let Reader::Undecided(start) = &mut side.reader {
            start.clear();
            side.is_joined = true;
            self.waiting.lose();
        }
        self.read(direction, emit, |reader, waiting, take| {
            match reader {
                Reader::One(reader) => reader.gap(bytes, waiting, take),
                Reader::Two(reader) => reader.gap(bytes, take),
                Reader::Undecided(_) | Reader::Left => {}
            }
            None
        });
    }

    /// Ends a direction: its sender has closed it.
    pub fn end(&mut self, direction: Direction, emit: &mut dyn FnMut(Event<'_>)) {
        self.read(direction, emit, |reader, _, take| {
            match reader {
                Reader::One(reader) => reader.finish(take),
                Reader::Two(reader) => reader.finish(take),
                Reader::Undecided(_) | Reader::Left => {}
            }
            None
        });
        self.sides[index(direction)].reader = Reader::Left;
        self.exchanges.end_direction(direction, emit);
    }

    /// Ends the connection. Nothing may follow.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Event<'_>)) {
        self.end(Direction::ClientToServer, emit);
        self.end(Direction::ServerToClient, emit);
    }

    /// Takes in bytes of a direction, the first of which is at `position`.
    fn feed(&mut self, direction: Direction, position: u64, bytes: &[u8], emit: &mut Emit<'_>) {
        if let Reader::Undecided(start) = &mut self.sides[index(direction)].reader {
            let start = std::mem::take(start);
            self.begin(direction, position, start, bytes, emit);
            return;
        }
        let switch = self.read(direction, emit, |reader, waiting, take| match reader {
            Reader::One(reader) => reader.push(bytes, waiting, take),
            Reader::Two(reader) => {
                reader.push(bytes, take);
                None
            }
            Reader::Undecided(_) | Reader::Left => None,
        });
        if let Some(at) = switch {
            // The request that asked for it continues as the first stream.
            if let Some(upgraded) = self.waiting.only() {
                self.exchanges.rename(upgraded.stream, 1);
            }
            let position = position + at as u64;
            let preface = match direction {
                Direction::ClientToServer => PREFACE_HEAD,
                Direction::ServerToClient => 0,
            };
            let reader = two::Side::new(role(direction), position, preface, self.limits);
            self.sides[index(direction)].reader = Reader::Two(Box::new(reader));
            self.feed(direction, position, &bytes[at..], emit);
        }
    }

    /// Takes in bytes of a direction, of which only `start` is known.
    fn begin(
        &mut self,
        direction: Direction,
        position: u64,
        mut start: Vec<u8>,
        bytes: &[u8],
        emit: &mut Emit<'_>,
    ) {
        let (limits, role) = (self.limits, role(direction));
        let first = position - start.len() as u64;
        let (taken, rest) = bytes.split_at(bytes.len().min(sniff::ENOUGH - start.len()));
        start.extend_from_slice(taken);
        let side = &mut self.sides[index(direction)];
        let guess = sniff::guess(&start, role, side.is_joined);
        // A client sends its preface first, so nothing came before it, even if the server spoke first.
        let is_joined = side.is_joined && !start.starts_with(PREFACE);
        side.reader = match (guess, is_joined) {
            (Guess::Undecided, _) => {
                side.reader = Reader::Undecided(start);
                return;
            }
            (Guess::One, false) => Reader::One(Box::new(one::Side::new(role, first, limits))),
            (Guess::One, true) => Reader::One(Box::new(one::Side::joined(role, first, limits))),
            (Guess::Two, false) => Reader::Two(Box::new(two::Side::new(role, first, 0, limits))),
            (Guess::Two, true) => Reader::Two(Box::new(two::Side::joined(role, first, limits))),
            (Guess::Neither, _) => {
                let reason = Left::NotHttp;
                emit(Event::Left {
                    direction,
                    position: first,
                    reason,
                });
                self.leave(emit);
                return;
            }
        };
        self.keep_order(emit);
        self.feed(direction, first, &start, emit);
        self.feed(direction, position + taken.len() as u64, rest, emit);
    }

    /// Lets a direction's reader do something, and acts on what it finds.
    fn read(
        &mut self,
        direction: Direction,
        emit: &mut Emit<'_>,
        act: impl FnOnce(&mut Reader, &mut Waiting, &mut dyn FnMut(Part<'_>)) -> Option<usize>,
    ) -> Option<usize> {
        let side = &mut self.sides[index(direction)];
        let is_one = matches!(side.reader, Reader::One(_));
        let exchanges = &mut self.exchanges;
        let mut left = None;
        let switch = act(&mut side.reader, &mut self.waiting, &mut |part| {
            if let Part::Left { reason, .. } = part {
                left = Some(reason);
            }
            exchanges.part(direction, part, emit);
        });
        match left {
            None => {}
            Some(Left::Ambiguous) => {
                side.reader = Reader::Left;
                if is_one {
                    self.waiting.lose();
                }
                self.exchanges.end_direction(direction, emit);
            }
            Some(Left::NotHttp | Left::NotMcp | Left::Upgraded) => self.leave(emit),
        }
        self.keep_order(emit);
        if self.exchanges.is_given_up() {
            self.leave(emit);
        }
        switch
    }

    /// Handles the loss of HTTP/1's order, by which responses find their requests.
    fn keep_order(&mut self, emit: &mut Emit<'_>) {
        let mut readers = self.sides.iter().map(|side| &side.reader);
        if self.waiting.is_lost()
            && !self.is_order_lost
            && readers.any(|reader| matches!(reader, Reader::One(_)))
        {
            self.is_order_lost = true;
            self.exchanges.lose_order(emit);
        }
    }

    /// Leaves both directions alone.
    fn leave(&mut self, emit: &mut Emit<'_>) {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            self.sides[index(direction)].reader = Reader::Left;
            self.exchanges.end_direction(direction, emit);
        }
    }
}

fn role(direction: Direction) -> Role {
    match direction {
        Direction::ClientToServer => Role::Requests,
        Direction::ServerToClient => Role::Responses,
    }
}

fn index(direction: Direction) -> usize {
    match direction {
        Direction::ClientToServer => 0,
        Direction::ServerToClient => 1,
    }
}
