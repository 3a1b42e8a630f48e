//! Requests and their responses, joined: which exchanges of a connection are MCP, and their messages.
//!
//! An exchange is followed from its request on while it may be MCP, and forgotten as soon as it is
//! not; whatever its parties send after that costs a table lookup. Until it is decided, nothing is reported
//! about it, and what there is to report waits.

mod half;
mod open;

use std::collections::BTreeMap;

use self::half::Half;
use self::open::{Answer, Emit, Open, Opening};
use super::anomaly::Anomaly;
use super::body::{Body, Carried, Loss};
use super::event::{Event, Exchange};
use super::head::{Content, Head, Method, TargetKey};
use super::limits::Limits;
use super::part::{Left, Part, Stream};
use super::sniff::{self, Verdict};
use crate::model::Direction;
use crate::wire::held::{BufferUsage, Held, Scratch};

/// Most MCP addresses to remember.
const ADDRESSES: usize = 8;

/// Bytes of memory that an open exchange takes besides its messages: what its heads say, roughly.
const EXCHANGE: usize = 1024;

/// The exchanges of a connection that are, or may be, MCP.
pub(super) struct Exchanges {
    limits: Limits,
    open: BTreeMap<Stream, Open>,
    /// Requests so far.
    requests: Exchange,
    /// Whether any exchange was MCP.
    has_mcp: bool,
    /// Exchanges that were not MCP, while none was.
    others: u32,
    /// Requests may be missing, so that a response may answer one that was not seen.
    is_partial: bool,
    /// Addresses at which there was MCP, the latest last.
    addresses: Vec<TargetKey>,
    /// What unfinished messages occupy.
    unfinished: BufferUsage,
    /// More exchanges were open than are followed, and that was reported.
    is_crowded: bool,
    /// No response can be matched to a request.
    has_no_responses: bool,
    /// There was no MCP for so long that nothing is followed any more.
    is_given_up: bool,
}

impl Exchanges {
    /// `is_partial` says that requests may have passed before.
    pub(super) fn new(limits: Limits, is_partial: bool) -> Self {
        Self {
            limits,
            open: BTreeMap::new(),
            requests: 0,
            has_mcp: false,
            others: 0,
            is_partial,
            addresses: Vec::new(),
            unfinished: BufferUsage::default(),
            is_crowded: false,
            has_no_responses: false,
            is_given_up: false,
        }
    }

    /// Whether there was no MCP for so long that nothing is followed any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Whether an exchange is, or may be, MCP.
    pub(super) fn is_followed(&self, stream: Stream) -> bool {
        self.open.contains_key(&stream)
    }

    /// What unfinished messages and open exchanges occupy.
    pub(super) fn usage(&self) -> BufferUsage {
        self.unfinished + BufferUsage::memory(self.open.len() * EXCHANGE)
    }

    /// Notes that it is no longer known which response answers which request (HTTP/1): no exchange gets one.
    pub(super) fn lose_order(&mut self, emit: &mut Emit<'_>) {
        self.is_partial = true;
        self.has_no_responses = true;
        for stream in self.streams() {
            if let Some(open) = self.open.get_mut(&stream)
                && !open.response.is_open()
            {
                open.response.end(false);
                self.settle(stream, emit);
            }
        }
    }

    /// Notes that nothing more will come of a direction.
    pub(super) fn end_direction(&mut self, direction: Direction, emit: &mut Emit<'_>) {
        self.has_no_responses |= direction == Direction::ServerToClient;
        for stream in self.streams() {
            self.end(direction, stream, false, emit);
            self.settle(stream, emit);
        }
    }

    fn streams(&self) -> Vec<Stream> {
        self.open.keys().copied().collect()
    }

    /// Continues the open exchange at `from` as `to`: another version of HTTP numbers differently.
    pub(super) fn rename(&mut self, from: Stream, to: Stream) {
        if let Some(open) = self.open.remove(&from) {
            self.open.insert(to, open);
        }
    }

    /// Takes in a piece of a direction.
    pub(super) fn part(&mut self, direction: Direction, part: Part<'_>, emit: &mut Emit<'_>) {
        match part {
            Part::Head {
                stream,
                position,
                head,
            } => match direction {
                Direction::ClientToServer => self.request(stream, position, *head, emit),
                Direction::ServerToClient => self.response(stream, position, *head, emit),
            },
            Part::NoHead { stream, position } => self.no_head(direction, stream, position, emit),
            Part::Body {
                stream,
                position,
                bytes,
            } => {
                self.count(direction, stream, Some(bytes.len() as u64), bytes.first());
                self.body(direction, stream, emit, |body, carry| {
                    body.push(position, bytes, carry);
                });
            }
            Part::Hole {
                stream,
                position,
                bytes,
            } => {
                self.count(direction, stream, bytes, None);
                self.body(direction, stream, emit, |body, _| {
                    body.hole(position, bytes)
                });
            }
            Part::End {
                stream,
                position,
                is_whole,
            } => {
                if is_whole {
                    self.check_length(direction, stream, position, emit);
                }
                self.end(direction, stream, is_whole, emit);
                self.settle(stream, emit);
            }
            Part::Reset { stream } => {
                self.end(Direction::ClientToServer, stream, false, emit);
                self.end(Direction::ServerToClient, stream, false, emit);
                self.settle(stream, emit);
            }
            Part::Lost { position, bytes } => self.lost(direction, position, bytes, emit),
            Part::Anomaly {
                stream,
                position,
                anomaly,
            } => self.anomaly(direction, stream, position, anomaly, emit),
            Part::Left { position, reason } => emit(Event::Left {
                direction,
                position,
                reason,
            }),
        }
    }

    fn request(&mut self, stream: Stream, position: u64, head: Head, emit: &mut Emit<'_>) {
        // The fields after a body of HTTP/2 arrive as another head.
        if self.open.contains_key(&stream) {
            return;
        }
        self.requests += 1;
        if self.is_given_up {
            return;
        }
        if !self.has_mcp && self.others > self.limits.max_others && self.open.is_empty() {
            self.is_given_up = true;
            emit(Event::Left {
                direction: Direction::ClientToServer,
                position,
                reason: Left::NotMcp,
            });
            return;
        }
        let verdict = sniff::by_request(&head);
        if verdict == Verdict::Other {
            self.others = self.others.saturating_add(1);
            return;
        }
        if !self.has_room() {
            let direction = Direction::ClientToServer;
            let anomaly = Anomaly::TooManyExchanges;
            if !std::mem::replace(&mut self.is_crowded, true) {
                self.anomaly(direction, Some(stream), position, anomaly, emit);
            }
            return;
        }
        self.is_crowded = false;
        let content = match head.content {
            Content::Unknown => Content::Json,
            content => content,
        };
        let body = (head.method == Method::Post)
            .then(|| self.new_body(content, &head))
            .flatten();
        let mut open = Open::new(Some(self.requests), verdict);
        open.request.begin(body, head.length);
        if self.has_no_responses {
            open.response.end(false);
        }
        open.target = head.target.key;
        open.opening = Some(Box::new(Opening {
            position,
            method: head.method,
            target: head.target,
        }));
        open.fields = head.mcp;
        self.open.insert(stream, open);
        if head.is_repeated {
            let direction = Direction::ClientToServer;
            self.anomaly(
                direction,
                Some(stream),
                position,
                Anomaly::RepeatedField,
                emit,
            );
        }
        self.decided(stream, emit);
    }

    fn response(&mut self, stream: Stream, position: u64, head: Head, emit: &mut Emit<'_>) {
        if !self.open.contains_key(&stream) {
            // Its request was not seen, or was not MCP. Of HTTP/1's, 0 has none.
            if !self.is_partial || !self.has_room() {
                return;
            }
            let mut open = Open::new(None, Verdict::Undecided);
            open.request.end(false);
            self.open.insert(stream, open);
        }
        let unknown = head.content == Content::Unknown && head.has_unknown_fields;
        let body = if unknown {
            None
        } else {
            self.new_body(head.content, &head)
        };
        let Some(open) = self.open.get_mut(&stream) else {
            return;
        };
        if open.response.has_begun() {
            return;
        }
        if open.verdict == Verdict::Undecided {
            open.verdict = sniff::by_response(&head);
        }
        open.response.begin(body, head.length);
        if unknown {
            open.response.await_content(head.coding);
        }
        open.answer = Some(Box::new(Answer {
            position,
            status: head.status,
            content: head.content,
            fields: head.mcp,
        }));
        self.decided(stream, emit);
    }

    /// A body of a type, if there is room for one.
    fn new_body(&self, content: Content, head: &Head) -> Option<Body> {
        let mut body = Body::new(content, head.coding, &self.limits)?;
        if body.is_compressed() {
            let halves = self
                .open
                .values()
                .flat_map(|open| [&open.request, &open.response]);
            if halves.filter(|half| half.is_compressed()).count() >= self.limits.max_compressed {
                body.forgo_decompression();
            }
        }
        Some(body)
    }

    fn has_room(&mut self) -> bool {
        if self.open.len() < self.limits.max_exchanges {
            return true;
        }
        // One whose end was lost would stay forever.
        let stale = self.open.iter().find(|(_, open)| open.is_stale);
        let stale = stale.map(|(&stream, _)| stream);
        stale.is_some_and(|stream| {
            self.forget(stream);
            true
        })
    }

    /// Acts on the verdict about an exchange: reports what waited for it, or forgets the exchange.
    fn decided(&mut self, stream: Stream, emit: &mut Emit<'_>) {
        let Some(open) = self.open.get_mut(&stream) else {
            return;
        };
        match open.verdict {
            Verdict::Undecided => {}
            Verdict::Other => {
                self.others = self.others.saturating_add(1);
                self.forget(stream);
            }
            Verdict::Mcp => {
                self.has_mcp = true;
                if let Some(key) = open.target
                    && !self.addresses.contains(&key)
                {
                    if self.addresses.len() == ADDRESSES {
                        self.addresses.remove(0);
                    }
                    self.addresses.push(key);
                }
                open.tell(emit);
            }
        }
    }

    fn forget(&mut self, stream: Stream) {
        if let Some(open) = self.open.remove(&stream) {
            self.unfinished -= open.request.usage() + open.response.usage();
        }
    }

    /// Counts bytes of a body.
    fn count(
        &mut self,
        direction: Direction,
        stream: Stream,
        bytes: Option<u64>,
        first: Option<&u8>,
    ) {
        if let Some(open) = self.open.get_mut(&stream) {
            let half = open.half_mut(direction);
            half.count(bytes, first.copied(), &self.limits);
        }
    }

    /// Lets a body take something in, and passes on the result.
    fn body(
        &mut self,
        direction: Direction,
        stream: Stream,
        emit: &mut Emit<'_>,
        act: impl FnOnce(&mut Body, &mut dyn FnMut(Carried<'_>)),
    ) {
        let Some(open) = self.open.get_mut(&stream) else {
            return;
        };
        let known = open.target.is_some_and(|key| self.addresses.contains(&key));
        let before = open.half(direction).usage();
        open.act(direction, known, self.limits.max_undecided, emit, act);
        let after = open.half(direction).usage();
        self.unfinished = self.unfinished - before + after;
        self.decided(stream, emit);
        while self.unfinished.total() > self.limits.max_unfinished && self.abandon_largest() {}
    }

    /// Gives up the largest of the unfinished messages. Returns whether that freed anything.
    pub(super) fn abandon_largest(&mut self) -> bool {
        let Some(largest) = self.halves().max_by_key(|half| half.usage().total()) else {
            return false;
        };
        let before = largest.usage();
        largest.abandon();
        let freed = before - largest.usage();
        self.unfinished -= freed;
        freed.total() > 0
    }

    /// Bytes in memory of the largest unfinished message that is worth a file, or zero.
    pub(super) fn spillable(&self) -> usize {
        let halves = self.open.values();
        let halves = halves.flat_map(|open| [&open.request, &open.response]);
        let held = halves.filter_map(|half| half.held());
        held.map(Held::spillable).max().unwrap_or(0)
    }

    /// Moves that message to a file.
    pub(super) fn spill_largest(&mut self, scratch: &mut Scratch) {
        let held = self.halves().filter_map(|half| half.held_mut());
        if let Some(largest) = held.max_by_key(|held| held.spillable()) {
            let before = largest.usage();
            largest.spill(scratch);
            let after = largest.usage();
            self.unfinished = self.unfinished - before + after;
        }
    }

    fn halves(&mut self) -> impl Iterator<Item = &mut Half> {
        let open = self.open.values_mut();
        open.flat_map(|open| [&mut open.request, &mut open.response])
    }

    fn end(&mut self, direction: Direction, stream: Stream, is_whole: bool, emit: &mut Emit<'_>) {
        self.body(direction, stream, emit, |body, carry| {
            body.finish(is_whole, carry)
        });
        if let Some(open) = self.open.get_mut(&stream) {
            open.half_mut(direction).end(is_whole);
        }
    }

    /// Reports a body that is not as long as its head says. HTTP/1 frames by that, HTTP/2 does not.
    fn check_length(
        &self,
        direction: Direction,
        stream: Stream,
        position: u64,
        emit: &mut Emit<'_>,
    ) {
        let half = self.open.get(&stream).map(|open| open.half(direction));
        if half.is_some_and(|half| half.is_open() && half.has_wrong_length()) {
            self.anomaly(
                direction,
                Some(stream),
                position,
                Anomaly::WrongLength,
                emit,
            );
        }
    }

    /// Closes an exchange whose halves are both over.
    fn settle(&mut self, stream: Stream, emit: &mut Emit<'_>) {
        let Some(open) = self.open.get_mut(&stream) else {
            return;
        };
        let is_over = open.request.is_over() && open.response.is_over();
        // Without its request or its type, a response that nothing proves belongs to no exchange.
        if !is_over {
            return;
        }
        if open.verdict == Verdict::Undecided {
            open.verdict = Verdict::Other;
            self.decided(stream, emit);
            return;
        }
        if let Some(exchange) = open.number {
            emit(Event::Closed {
                exchange,
                is_whole: open.request.is_whole() && open.response.is_whole(),
            });
        }
        self.forget(stream);
    }

    /// Handles a request or response whose head is unknown.
    fn no_head(
        &mut self,
        direction: Direction,
        stream: Stream,
        position: u64,
        emit: &mut Emit<'_>,
    ) {
        match direction {
            Direction::ClientToServer => {
                if !self.open.contains_key(&stream) {
                    self.requests += 1;
                    self.is_partial = true;
                }
            }
            Direction::ServerToClient => {
                if let Some(open) = self.open.get_mut(&stream)
                    && !open.response.has_begun()
                {
                    open.response.begin(None, None);
                    if open.verdict == Verdict::Mcp {
                        emit(Event::Lost {
                            exchange: open.number,
                            direction,
                            position,
                            seen: 0,
                            missing: None,
                            loss: Loss::Gap,
                        });
                    }
                }
            }
        }
    }

    /// Handles a loss of bytes that may belong to anything.
    fn lost(
        &mut self,
        direction: Direction,
        position: u64,
        bytes: Option<u64>,
        emit: &mut Emit<'_>,
    ) {
        self.is_partial = true;
        if self.has_mcp {
            emit(Event::Lost {
                exchange: None,
                direction,
                position,
                seen: 0,
                missing: bytes,
                loss: Loss::Gap,
            });
        }
        // Whatever is in progress in this direction may be torn.
        for stream in self.streams() {
            if let Some(open) = self.open.get_mut(&stream)
                && open.half(direction).is_open()
            {
                open.is_stale = true;
                self.body(direction, stream, emit, |body, _| body.hole(position, None));
            }
        }
    }

    /// Reports what is wrong, if it concerns MCP.
    fn anomaly(
        &self,
        direction: Direction,
        stream: Option<Stream>,
        position: u64,
        anomaly: Anomaly,
        emit: &mut Emit<'_>,
    ) {
        let open = stream.and_then(|stream| self.open.get(&stream));
        if open.is_some() || (self.has_mcp && stream.is_none()) {
            emit(Event::Anomaly {
                exchange: open.and_then(|open| open.number),
                direction,
                position,
                anomaly,
            });
        }
    }
}
