//! The two streams of a session are passed on in the order of the calls that moved their bytes.

use std::time::Duration;

use mcpinspect_common::{End, EndpointCounters};
use mcpinspect_core::model::Direction;
use mcpinspect_process::fds::Access;
use proptest::prelude::*;

use super::fixture::{Fixture, SETTINGS};
use super::{CLIENT, INITIALIZE, INITIALIZED, SECOND, SERVER, pipe};
use crate::capture::KernelRecord;
use crate::discover::Settings;

const UP: Direction = Direction::ClientToServer;
const DOWN: Direction = Direction::ServerToClient;

/// A microsecond passes between two calls.
const CALL: Duration = Duration::from_micros(1);

fn request(id: usize) -> Vec<u8> {
    match id {
        0 => INITIALIZE.to_vec(),
        _ => {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}\n").into_bytes()
        }
    }
}

fn answer(id: usize) -> Vec<u8> {
    match id {
        0 => INITIALIZED.to_vec(),
        _ => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"tools\":[]}}}}\n")
            .into_bytes(),
    }
}

fn told(fixture: &Fixture) -> Vec<(Direction, String)> {
    let line = |(direction, line): &(Direction, Vec<u8>)| {
        (*direction, String::from_utf8_lossy(line).into_owned())
    };
    fixture.collected.told.iter().map(line).collect()
}

/// Requests and their answers, in turn.
fn exchanges(ids: std::ops::Range<usize>) -> Vec<(Direction, String)> {
    let text = |line: Vec<u8>| String::from_utf8_lossy(&line).into_owned();
    ids.flat_map(|id| [(UP, text(request(id))), (DOWN, text(answer(id)))])
        .collect()
}

fn comparing() -> Fixture {
    Fixture::with(Settings {
        compare_ends: true,
        ..SETTINGS
    })
}

#[test]
fn an_answer_that_shows_first_what_it_is_comes_second() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    // This could be any protocol.
    let early = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"hello\"}\n";
    fixture.passes(pipe(1), CLIENT, SERVER, early);
    fixture.now += CALL;
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    assert_eq!(
        told(&fixture),
        [(UP, text(early)), (DOWN, text(INITIALIZED))]
    );
}

#[test]
fn an_end_before_anything_was_recognised_is_told_after_all() {
    let mut fixture = Fixture::new();
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(
        pipe(1),
        CLIENT,
        SERVER,
        b"{\"id\":7,\"method\":\"hello\"}\n",
    );
    fixture.record(SERVER, KernelRecord::EndOfStream { key: pipe(1) });
    fixture.now += CALL;
    fixture.passes(pipe(2), SERVER, CLIENT, INITIALIZED);
    assert_eq!(fixture.collected.lines, ["started", "end client_to_server"]);
}

#[test]
fn an_answer_waits_while_its_request_is_held_back() {
    let mut fixture = comparing();
    for (key, reader, writer) in [(pipe(1), SERVER, CLIENT), (pipe(2), CLIENT, SERVER)] {
        fixture.hold(key, reader, Access::Read);
        fixture.hold(key, writer, Access::Write);
    }
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.passes(pipe(1), CLIENT, SERVER, &request(0));
    fixture.passes(pipe(2), SERVER, CLIENT, &answer(0));
    fixture.now += CALL;
    // The record of the client's call lacks what the server's has: it may have been overtaken.
    let mut other = request(1);
    other[1] = b'!';
    fixture.moves(CLIENT, pipe(1), End::Writer, &other);
    fixture.moves(SERVER, pipe(1), End::Reader, &request(1));
    fixture.now += CALL;
    fixture.passes(pipe(2), SERVER, CLIENT, &answer(1));
    assert_eq!(told(&fixture), exchanges(0..1), "both are held back");
    fixture.wait(SECOND);
    let mut expected = exchanges(0..2);
    expected[2].1 = String::from_utf8_lossy(&other).into_owned();
    assert_eq!(told(&fixture), expected);
}

#[test]
fn an_answer_waits_until_it_is_known_that_its_request_is_read_unseen() {
    for talks_on in [false, true] {
        let mut fixture = Fixture::new();
        fixture.hold(pipe(1), SERVER, Access::Read);
        fixture.exec(SERVER, pipe(1), pipe(2));
        fixture.moves(CLIENT, pipe(1), End::Writer, &request(0));
        fixture.now += CALL;
        fixture.passes(pipe(2), SERVER, CLIENT, &answer(0));
        if talks_on {
            fixture.now += CALL;
            fixture.moves(CLIENT, pipe(1), End::Writer, &request(1));
            fixture.now += CALL;
            fixture.passes(pipe(2), SERVER, CLIENT, &answer(1));
        }
        assert_eq!(told(&fixture), []);
        for _ in 0..13 {
            fixture.wait(SECOND / 10);
        }
        let count = 1 + usize::from(talks_on);
        assert_eq!(told(&fixture), exchanges(0..count));
    }
}

#[test]
fn a_server_that_never_reads_is_heard_all_the_same() {
    let mut fixture = Fixture::new();
    fixture.hold(pipe(1), SERVER, Access::Read);
    fixture.exec(SERVER, pipe(1), pipe(2));
    fixture.moves(CLIENT, pipe(1), End::Writer, &request(0));
    fixture.world.borrow_mut().unread = request(0).len() as u64;
    fixture.now += CALL;
    fixture.passes(pipe(2), SERVER, CLIENT, &answer(0));
    assert_eq!(told(&fixture), []);
    fixture.wait(2 * SECOND);
    assert_eq!(told(&fixture), exchanges(0..1)[1..]);
}

/// One end of one stream in the simulation: a thread that makes one call after another.
#[derive(Debug, Default)]
struct Side {
    /// Bytes that its calls moved, including the one that has not returned.
    moved: usize,
    /// Bytes of the calls that have returned.
    returned: usize,
}

/// A client and a server on two pipes, and the kernel's view of them.
struct Simulation {
    fixture: Fixture,
    /// What is said in each direction.
    said: [Vec<u8>; 2],
    /// By direction: the writing and the reading side.
    sides: [[Side; 2]; 2],
    registered: bool,
    /// Whether the client waits for each answer.
    in_turn: bool,
    /// Bytes of each call.
    sizes: [usize; 2],
}

impl Simulation {
    fn new(count: usize, in_turn: bool, sizes: [usize; 2]) -> Self {
        let mut fixture = comparing();
        for (key, reader, writer) in [(pipe(1), SERVER, CLIENT), (pipe(2), CLIENT, SERVER)] {
            fixture.hold(key, reader, Access::Read);
            fixture.hold(key, writer, Access::Write);
        }
        Self {
            fixture,
            said: [
                (0..count).flat_map(request).collect(),
                (0..count).flat_map(answer).collect(),
            ],
            sides: Default::default(),
            registered: false,
            in_turn,
            sizes,
        }
    }

    fn lines(bytes: &[u8]) -> usize {
        bytes.iter().filter(|byte| **byte == b'\n').count()
    }

    /// Lines that one side of a stream currently has.
    fn lines_at(&self, stream: usize, side: usize) -> usize {
        Self::lines(&self.said[stream][..self.sides[stream][side].returned])
    }

    /// Bytes that the next call of a side moves; 0 if it cannot make one.
    fn next_call(&self, stream: usize, side: usize) -> usize {
        let [writer, reader] = &self.sides[stream];
        if side == 1 {
            let unread = writer.moved - reader.moved;
            let may = stream == 1 || self.registered;
            return if may { unread.min(self.sizes[1]) } else { 0 };
        }
        let from = writer.moved;
        // An answer begins once its request was read; a request perhaps once the previous answer was.
        let allowed = match stream {
            0 if self.in_turn => self.lines_at(1, 1) + 1,
            0 => usize::MAX,
            _ => self.lines_at(0, 1),
        };
        if Self::lines(&self.said[stream][..from]) >= allowed {
            return 0;
        }
        let rest = &self.said[stream][from..];
        let line = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        line.min(self.sizes[0])
    }

    fn key(stream: usize) -> mcpinspect_common::EndpointKey {
        pipe(stream as u64 + 1)
    }

    /// Registers both streams, as the probe does when the server is executed.
    fn register(&mut self) {
        for (stream, [writer, reader]) in self.sides.iter().enumerate() {
            let unread = (writer.moved - reader.moved) as u64;
            let counters = EndpointCounters {
                position: [0, unread],
                unread,
                ..EndpointCounters::default()
            };
            let mut world = self.fixture.world.borrow_mut();
            world.counters.insert(Self::key(stream), counters);
        }
        self.registered = true;
        self.fixture.exec(SERVER, pipe(1), pipe(2));
    }

    /// Does the `choice`-th of the things that can happen. Returns false if nothing can.
    fn step(&mut self, choice: usize) -> bool {
        let mut can: Vec<(usize, usize, bool)> = Vec::new();
        for stream in 0..2 {
            for side in 0..2 {
                let Side { moved, returned } = self.sides[stream][side];
                if moved > returned {
                    can.push((stream, side, true));
                } else if self.next_call(stream, side) > 0 {
                    can.push((stream, side, false));
                }
            }
        }
        let choices = can.len() + usize::from(!self.registered);
        if choices == 0 {
            return false;
        }
        self.fixture.now += CALL;
        match can.get(choice % choices) {
            None => self.register(),
            Some((stream, side, false)) => {
                let length = self.next_call(*stream, *side);
                self.sides[*stream][*side].moved += length;
            }
            Some((stream, side, true)) => self.call_returns(*stream, *side),
        }
        true
    }

    fn call_returns(&mut self, stream: usize, side: usize) {
        let Side { moved, returned } = self.sides[stream][side];
        self.sides[stream][side].returned = moved;
        if self.registered {
            let bytes = self.said[stream][returned..moved].to_vec();
            let end = [End::Writer, End::Reader][side];
            let tgid = if stream == side { CLIENT } else { SERVER };
            self.fixture.moves(tgid, Self::key(stream), end, &bytes);
        }
    }
}

proptest! {
    /// Whenever the server is registered, however the bytes are cut, and whichever call returns first:
    /// each request is passed on before its answer, and honest peers are not accused.
    #[test]
    fn requests_come_before_their_answers(
        count in 1_usize..5,
        in_turn in any::<bool>(),
        sizes in prop_oneof![
            Just([1, 1]),
            Just([1, 4096]),
            Just([4096, 1]),
            (1_usize..40, 1_usize..40).prop_map(|(written, read)| [written, read]),
        ],
        choices in prop::collection::vec(any::<usize>(), 1..800),
        // Most calls return at once, as they do in reality.
        settled in any::<bool>(),
    ) {
        let mut simulation = Simulation::new(count, in_turn, sizes);
        let mut choices = choices.into_iter().cycle();
        while simulation.step(choices.next().unwrap_or(0)) {
            if settled {
                for (stream, side) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let Side { moved, returned } = simulation.sides[stream][side];
                    if moved > returned {
                        simulation.call_returns(stream, side);
                    }
                }
            }
        }
        let fixture = &mut simulation.fixture;
        fixture.wait(SECOND / 10);
        fixture.wait(SECOND / 5);
        prop_assert_eq!(&fixture.collected.lines, &["started".to_owned()]);
        prop_assert_eq!(fixture.sent(UP), &simulation.said[0]);
        prop_assert_eq!(fixture.sent(DOWN), &simulation.said[1]);
        let told = told(fixture);
        for id in 0..count {
            let place = |direction, line: Vec<u8>| {
                let line = String::from_utf8_lossy(&line).into_owned();
                told.iter().position(|told| *told == (direction, line.clone()))
            };
            prop_assert!(place(UP, request(id)) < place(DOWN, answer(id)), "{:?}", told);
        }
    }
}
