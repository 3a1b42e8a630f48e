//! A server behind a guard is told once.
//!
//! The kernel shows both sides of `mcpinspect guard`: the *front*, a session of the client with the guard, and
//! the *back*, a session of the guard with the server. They say the same nearly always, and someone who reads of
//! it wants to read it once, under the server's name. So the back goes on as any session, and of the front only
//! what the back did not say: what the guard answered, changed or kept back. A message of the front waits until
//! the same bytes cross at the back. Those that do not within [`PATIENCE`] are told, as a session of
//! `NAME-guard`, which starts with the first of them; a response comes with its request.
//!
//! Nothing rests on the guard being ours. Whatever calls itself `mcpinspect guard` and lets other words through
//! than it was told has these words told and judged; what is left out has been told under the server's name.

mod front;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use self::front::{Front, Line};
use crate::mcp::message::parse;
use crate::model::{
    Direction, EndReason, Input, Party, Process, SessionId, SessionStart, Timestamp,
};
use crate::process::is_guard;
use crate::wire::framing::{Framed, Framer};

/// Nanoseconds that a message of a front waits for the same at the back. One stream may be held back for 1.5
/// seconds longer than another, for the order of its messages.
const PATIENCE: u64 = 3_000_000_000;
/// Bytes of a line that is kept. Longer ones are compared by their length.
const MAX_LINE: usize = 16 << 20;
/// Messages of a back that are remembered in each direction until the front says the same.
const MAX_HEARD: usize = 4096;
/// Bytes of all fronts that wait. Beyond them, what waits for longest is told.
const MAX_WAITING: usize = 64 << 20;
/// Bytes of unfinished lines of all sides. Beyond them, lines are compared by their length.
const MAX_UNFINISHED: usize = 64 << 20;

/// See the module's text.
#[derive(Default)]
pub(super) struct Guarded {
    guards: HashMap<Process, Guard>,
    sessions: HashMap<SessionId, Side>,
    hashes: RandomState,
    /// Bytes of messages that wait.
    waiting: usize,
    /// Bytes of lines that have not ended.
    unfinished: usize,
}

/// One process that stands between a client and a server.
#[derive(Default)]
struct Guard {
    /// Its session with the client, and the messages that wait there.
    front: Option<(SessionId, Front)>,
    /// What its sessions with servers said, and the front did not yet. By [`Direction`].
    heard: [VecDeque<u64>; 2],
    /// How many sessions it has with servers.
    backs: usize,
}

/// A session of a guard, as one of its sides.
struct Side {
    guard: Process,
    is_front: bool,
    /// By [`Direction`]. Made with the first bytes, which say where the stream begins.
    framers: [Option<Framer>; 2],
    joined_midstream: bool,
}

/// What crossed one side in one input.
struct Crossed {
    lines: Vec<Line>,
    with_bytes: bool,
}

impl Guarded {
    /// Whether an input is one of a guard's session, or may begin one.
    pub(super) fn concerns(&self, input: &Input<'_>) -> bool {
        matches!(input, Input::SessionStarted(_)) || self.sessions.contains_key(input.session())
    }

    /// Passes an input on, unless it is told, or waits to be told, as another's.
    pub(super) fn pass(&mut self, input: Input<'_>, on: &mut dyn FnMut(Input<'_>)) {
        if let Input::SessionStarted(start) = &input {
            self.started(start);
        }
        let Some(side) = self.sessions.get_mut(input.session()) else {
            return on(input);
        };
        let (guard, is_front) = (side.guard, side.is_front);
        let before = side.unfinished();
        let crossed = side.lines(&input, &self.hashes);
        self.unfinished = self.unfinished - before + side.unfinished();
        if self.unfinished > MAX_UNFINISHED {
            self.unfinished -= side.unfinished();
            side.abandon_lines();
            self.unfinished += side.unfinished();
        }
        if is_front {
            self.at_front(guard, crossed, input, on);
        } else {
            self.at_back(guard, &crossed);
            let ended = matches!(input, Input::SessionEnded { .. });
            let session = ended.then(|| input.session().clone());
            on(input);
            if let Some(session) = session {
                self.back_ended(guard, &session);
            }
        }
    }

    /// It is `now`: tells what has waited for long enough.
    pub(super) fn pass_time(&mut self, now: Timestamp, on: &mut dyn FnMut(Input<'_>)) {
        let waiting: Vec<_> = self.guards.keys().copied().collect();
        for guard in waiting {
            self.tell_due(guard, now, on);
        }
    }

    fn started(&mut self, start: &SessionStart) {
        let process = |party: &Option<Party>| {
            let guard = party.as_ref().filter(|party| is_guard(&party.command));
            guard.map(|party| Process {
                pid: party.pid,
                start_time: party.start_time,
            })
        };
        let (guard, is_front) = match (process(&start.server_party), process(&start.client_party)) {
            (Some(guard), _) => (guard, true),
            (None, Some(guard)) => (guard, false),
            (None, None) => return,
        };
        let entry = self.guards.entry(guard).or_default();
        match (is_front, &entry.front) {
            (true, None) => entry.front = Some((start.id.clone(), Front::new(start.clone()))),
            // A guard has one client. What looks like a second one is told as it is.
            (true, Some(_)) => return,
            (false, _) => entry.backs += 1,
        }
        let side = Side {
            guard,
            is_front,
            framers: [None, None],
            joined_midstream: start.joined_midstream,
        };
        self.sessions.insert(start.id.clone(), side);
    }

    /// What the server said or was told need not be told again.
    fn at_back(&mut self, guard: Process, crossed: &Crossed) {
        let Some(guard) = self.guards.get_mut(&guard) else {
            return;
        };
        for line in &crossed.lines {
            let front = guard.front.as_mut().map(|(_, front)| front);
            if let Some(bytes) = front.and_then(|front| front.matched(line)) {
                self.waiting -= bytes;
                continue;
            }
            let heard = &mut guard.heard[line.direction as usize];
            if heard.len() == MAX_HEARD {
                heard.pop_front();
            }
            heard.push_back(line.hash);
        }
    }

    fn at_front(
        &mut self,
        guard: Process,
        crossed: Crossed,
        input: Input<'_>,
        on: &mut dyn FnMut(Input<'_>),
    ) {
        let now = input.time();
        let is_last = matches!(
            input,
            Input::SessionEnded {
                reason: EndReason::MonitoringStopped,
                ..
            }
        );
        let Some(entry) = self.guards.get_mut(&guard) else {
            return;
        };
        let Some((_, front)) = &mut entry.front else {
            return;
        };
        for line in crossed.lines {
            let heard = &mut entry.heard[line.direction as usize];
            match heard.iter().position(|hash| *hash == line.hash) {
                Some(at) => {
                    heard.remove(at);
                    front.note_told(line);
                }
                None => self.waiting += front.wait(line),
            }
        }
        front.happened(input);
        if let Some(now) = now {
            self.tell_due(guard, now, on);
        }
        // Nothing is kept for later where there is no room for it, or no later.
        while (is_last || self.waiting > MAX_WAITING || self.is_crowded(guard))
            && self.tell_next(guard, on)
        {}
    }

    fn is_crowded(&self, guard: Process) -> bool {
        let guard = self.guards.get(&guard);
        let front = guard.and_then(|guard| guard.front.as_ref());
        front.is_some_and(|(_, front)| front.waiting() > MAX_HEARD)
    }

    fn tell_due(&mut self, guard: Process, now: Timestamp, on: &mut dyn FnMut(Input<'_>)) {
        let due = |front: &Front| {
            front
                .oldest()
                // A clock that was set back must not keep anything waiting.
                .is_some_and(|time| now.nanos_since(time).max(time.nanos_since(now)) >= PATIENCE)
        };
        loop {
            let front = self
                .guards
                .get(&guard)
                .and_then(|guard| guard.front.as_ref());
            let is_due = front.is_some_and(|(_, front)| front.is_free() || due(front));
            if !is_due || !self.tell_next(guard, on) {
                return;
            }
        }
    }

    /// Tells what waits for longest at a guard's front. Gives whether there was anything.
    fn tell_next(&mut self, guard: Process, on: &mut dyn FnMut(Input<'_>)) -> bool {
        let Some(entry) = self.guards.get_mut(&guard) else {
            return false;
        };
        let Some((id, front)) = &mut entry.front else {
            return false;
        };
        let Some(told) = front.tell_next(on) else {
            return false;
        };
        self.waiting -= told.bytes;
        if told.ended {
            if let Some(side) = self.sessions.remove(id) {
                self.unfinished -= side.unfinished();
            }
            entry.front = None;
            if entry.backs == 0 {
                self.guards.remove(&guard);
            }
        }
        true
    }

    fn back_ended(&mut self, guard: Process, session: &SessionId) {
        if let Some(side) = self.sessions.remove(session) {
            self.unfinished -= side.unfinished();
        }
        if let Some(entry) = self.guards.get_mut(&guard) {
            entry.backs -= 1;
            if entry.backs == 0 && entry.front.is_none() {
                self.guards.remove(&guard);
            }
        }
    }
}

impl Side {
    /// The framer of a stream whose first input is at `position`.
    fn framer(&mut self, direction: Direction, position: u64) -> &mut Framer {
        let joined = self.joined_midstream;
        self.framers[direction as usize].get_or_insert_with(|| match joined {
            true => Framer::joined_at(position, MAX_LINE),
            false => Framer::new(MAX_LINE),
        })
    }

    /// Bytes of memory that its unfinished lines take.
    fn unfinished(&self) -> usize {
        self.framers.iter().flatten().map(Framer::memory).sum()
    }

    fn abandon_lines(&mut self) {
        for framer in self.framers.iter_mut().flatten() {
            framer.abandon_line();
        }
    }

    /// The lines that end with an input.
    fn lines(&mut self, input: &Input<'_>, hashes: &RandomState) -> Crossed {
        let mut crossed = Crossed {
            lines: Vec::new(),
            with_bytes: self.is_front,
        };
        let (direction, time) = match input {
            Input::Bytes {
                direction, time, ..
            }
            | Input::Message {
                direction, time, ..
            }
            | Input::Gap {
                direction, time, ..
            }
            | Input::EndOfStream {
                direction, time, ..
            } => (*direction, *time),
            Input::SessionEnded { time, .. } => {
                for direction in [Direction::ClientToServer, Direction::ServerToClient] {
                    if let Some(framer) = &mut self.framers[direction as usize] {
                        framer.finish(|framed| crossed.add(framed, direction, *time, hashes));
                    }
                }
                return crossed;
            }
            _ => return crossed,
        };
        let add = |framed: Framed<'_>| crossed.add(framed, direction, time, hashes);
        match input {
            Input::Bytes {
                position, bytes, ..
            } => self
                .framer(direction, *position)
                .push(*position, bytes, add),
            Input::Message {
                position, bytes, ..
            } => self
                .framer(direction, *position)
                .message(*position, bytes, add),
            Input::Gap {
                position,
                bytes_lost,
                ..
            } => self
                .framer(direction, *position)
                .gap(*position, *bytes_lost),
            _ => {
                if let Some(framer) = &mut self.framers[direction as usize] {
                    framer.finish(add);
                }
            }
        }
        crossed
    }
}

impl Crossed {
    fn add(
        &mut self,
        framed: Framed<'_>,
        direction: Direction,
        time: Timestamp,
        hashes: &RandomState,
    ) {
        let (hash, bytes, length) = match framed {
            // The rest of a line whose beginning was not seen.
            Framed::Frame(frame) if frame.tentative && parse(frame.bytes).is_err() => return,
            Framed::Frame(frame) => (
                hashes.hash_one(frame.bytes),
                self.with_bytes.then(|| frame.bytes.to_vec()),
                frame.bytes.len() as u64,
            ),
            Framed::Oversize { bytes, .. } => (hashes.hash_one(bytes), None, bytes),
        };
        self.lines.push(Line {
            direction,
            hash,
            bytes,
            length,
            time,
        });
    }
}

#[cfg(test)]
mod tests;
