//! Reports a server behind a guard once, not twice.
//!
//! The kernel shows both sides of `mcpinspect guard`: the *front*, a session of the client with the guard, and
//! the *back*, a session of the guard with the server. A guard of an HTTP server has a front and a back for each
//! client. Both sides nearly always say the same, and a reader wants to see it once, under the server's name.
//! So the back is passed on like any session, and of the front only what the back did not say: what the guard
//! answered, changed or kept back. A message of the front waits until the same bytes cross at a back. One that
//! finds no match within three seconds is reported as part of a session of `NAME-guard`, which starts with the
//! first such message; a response is reported together with its request.
//!
//! None of this trusts the guard. If something that calls itself `mcpinspect guard` passes on words that it did
//! not receive, those words are reported and judged; what is left out has been reported under the server's name.

mod front;
mod pending_index;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use mcpinspect_core::mcp::message::parse;
use mcpinspect_core::model::{
    Direction, EndReason, Input, Party, Process, SessionId, SessionStart, Timestamp,
};
use mcpinspect_core::wire::framing::{Framed, Framer};
use mcpinspect_process::is_guard;

use self::front::{Front, Line, Reported};
use self::pending_index::PendingIndex;
use super::step::Step;

/// Most bytes of a line to keep. Longer ones are compared by their length.
const MAX_LINE: usize = 8 << 20;
/// How many messages of a guard's backs to remember per direction until a front says the same, and how many
/// wait at its fronts.
const MAX_MESSAGES: usize = 4096;
/// Most bytes that may wait at all fronts. Beyond that, the oldest is reported.
const MAX_WAITING: usize = 16 << 20;
/// Most bytes of unfinished lines on all sides. Beyond that, lines are compared by their length.
const MAX_UNFINISHED: usize = 16 << 20;

/// See the module documentation.
#[derive(Default)]
pub(super) struct Guarded {
    guards: HashMap<Process, Guard>,
    sessions: HashMap<SessionId, Side>,
    hashes: RandomState,
    /// Bytes of waiting messages.
    waiting: usize,
    /// Bytes of unfinished lines.
    unfinished: usize,
}

/// One process that stands between a client and a server.
#[derive(Default)]
struct Guard {
    /// Its sessions with clients, and the messages that wait there.
    fronts: BTreeMap<SessionId, Front>,
    /// Which front each message waits at.
    pending: PendingIndex,
    /// How many messages and other inputs wait at its fronts.
    waiting: usize,
    /// What its sessions with servers said and no front has said yet. By [`Direction`].
    reported_hashes: [VecDeque<u64>; 2],
    /// How many sessions it has with servers.
    backs: usize,
}

/// A session of a guard, as one of its sides.
struct Side {
    guard: Process,
    is_front: bool,
    /// By [`Direction`]. Created with the first bytes, which say where the stream begins.
    framers: [Option<Framer>; 2],
    joined_midstream: bool,
}

/// What crossed one side with one input.
struct Crossed {
    lines: Vec<Line>,
    with_bytes: bool,
}

impl Guarded {
    /// Passes a step on, with the inputs that need not wait any longer.
    pub(super) fn pass(&mut self, step: Step<'_>, on: &mut dyn FnMut(Step<'_>)) {
        match step {
            Step::Input(input) => self.input(input, &mut |input| on(Step::Input(input))),
            Step::Time(now) => {
                self.time(now, &mut |input| on(Step::Input(input)));
                on(step);
            }
        }
    }

    /// Passes an input on, unless another session reports it or it has to wait for that.
    fn input(&mut self, input: Input<'_>, on: &mut dyn FnMut(Input<'_>)) {
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

    /// At `now`: reports what has waited long enough.
    fn time(&mut self, now: Timestamp, on: &mut dyn FnMut(Input<'_>)) {
        let mut due = Vec::new();
        for (process, guard) in &self.guards {
            let fronts = guard.fronts.iter().filter(|(_, front)| front.is_due(now));
            due.extend(fronts.map(|(id, _)| (*process, id.clone())));
        }
        for (guard, front) in due {
            self.report_due(guard, &front, now, on);
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
        if is_front {
            let front = Front::new(start.clone());
            entry.fronts.insert(start.id.clone(), front);
        } else {
            entry.backs += 1;
        }
        let side = Side {
            guard,
            is_front,
            framers: [None, None],
            joined_midstream: start.joined_midstream,
        };
        self.sessions.insert(start.id.clone(), side);
    }

    /// What crossed at the back need not be reported again at a front.
    fn at_back(&mut self, guard: Process, crossed: &Crossed) {
        let Some(guard) = self.guards.get_mut(&guard) else {
            return;
        };
        for line in &crossed.lines {
            if let Some((sequence, front)) = guard.pending.take_oldest(line.direction, line.hash) {
                let front = guard.fronts.get_mut(&front);
                self.waiting -= front.map_or(0, |front| front.matched(sequence));
                guard.waiting -= 1;
                continue;
            }
            let reported_hashes = &mut guard.reported_hashes[line.direction as usize];
            if reported_hashes.len() == MAX_MESSAGES {
                reported_hashes.pop_front();
            }
            reported_hashes.push_back(line.hash);
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
        let session = input.session().clone();
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
        let Some(front) = entry.fronts.get_mut(&session) else {
            return;
        };
        for line in crossed.lines {
            let reported_hashes = &mut entry.reported_hashes[line.direction as usize];
            match reported_hashes.iter().position(|hash| *hash == line.hash) {
                Some(at) => {
                    reported_hashes.remove(at);
                    front.note_reported(line);
                }
                None => {
                    let sequence = entry.pending.insert(line.direction, line.hash, &session);
                    self.waiting += front.wait(sequence, line);
                    entry.waiting += 1;
                }
            }
        }
        if front.happened(entry.pending.next_sequence(), input) {
            entry.waiting += 1;
        }
        if let Some(now) = now {
            self.report_due(guard, &session, now, on);
        }
        // Keep nothing for later if there is no later, or no room.
        while is_last && self.report_next(guard, &session, on) {}
        while let Some(front) = self.crowded(guard) {
            if !self.report_next(guard, &front, on) {
                return;
            }
        }
    }

    /// A guard's front to report from when too much waits.
    fn crowded(&self, guard: Process) -> Option<SessionId> {
        let entry = self.guards.get(&guard)?;
        if self.waiting <= MAX_WAITING && entry.waiting <= MAX_MESSAGES {
            return None;
        }
        let fronts = entry.fronts.iter();
        let (id, _) = fronts.min_by_key(|(_, front)| front.next_sequence().unwrap_or(u64::MAX))?;
        Some(id.clone())
    }

    fn report_due(
        &mut self,
        guard: Process,
        front: &SessionId,
        now: Timestamp,
        on: &mut dyn FnMut(Input<'_>),
    ) {
        loop {
            let entry = self.guards.get(&guard);
            let found = entry.and_then(|guard| guard.fronts.get(front));
            if !found.is_some_and(|front| front.is_due(now)) || !self.report_next(guard, front, on)
            {
                return;
            }
        }
    }

    /// Reports the oldest message waiting at a front. Returns whether there was one.
    fn report_next(
        &mut self,
        guard: Process,
        id: &SessionId,
        on: &mut dyn FnMut(Input<'_>),
    ) -> bool {
        let Some(entry) = self.guards.get_mut(&guard) else {
            return false;
        };
        let front = entry.fronts.get_mut(id);
        let Some((sequence, reported)) =
            front.and_then(|front| Some((front.next_sequence()?, front.report_next(on)?)))
        else {
            return false;
        };
        entry.waiting -= 1;
        match reported {
            Reported::Line(direction, hash, bytes) => {
                self.waiting -= bytes;
                entry.pending.remove(direction, hash, sequence);
            }
            Reported::End => {
                if let Some(side) = self.sessions.remove(id) {
                    self.unfinished -= side.unfinished();
                }
                entry.fronts.remove(id);
                if entry.is_over() {
                    self.guards.remove(&guard);
                }
            }
            Reported::Other => {}
        }
        true
    }

    fn back_ended(&mut self, guard: Process, session: &SessionId) {
        if let Some(side) = self.sessions.remove(session) {
            self.unfinished -= side.unfinished();
        }
        if let Some(entry) = self.guards.get_mut(&guard) {
            entry.backs -= 1;
            if entry.is_over() {
                self.guards.remove(&guard);
            }
        }
    }
}

impl Guard {
    fn is_over(&self) -> bool {
        self.backs == 0 && self.fronts.is_empty()
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

    /// Bytes of memory that its unfinished lines occupy.
    fn unfinished(&self) -> usize {
        self.framers
            .iter()
            .flatten()
            .map(|framer| framer.usage().memory)
            .sum()
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
            // The rest of a line whose start was not seen.
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
