//! Made exchanges: every answer finds its request, and what ten thousand open requests cost. A suite of
//! its own, because it measures its process.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use mcpinspect_core::mcp::{Payload, parse};
use mcpinspect_core::model::{Direction, Timestamp};
use mcpinspect_core::session::{Correlation, Session};
use proptest::prelude::*;

/// Bytes that are allocated now.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Answered ids that a session remembers.
const REMEMBERED: usize = 64;

/// Numbers that look random (xorshift), the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % sides
    }
}

/// The requests of one side without an answer, as it really is.
#[derive(Default)]
struct PendingRequests {
    open: HashMap<String, u64>,
    /// The same ids, to pick one of.
    ids: Vec<String>,
    answered: VecDeque<String>,
}

/// A session with its two sides.
struct Conversation {
    session: Session,
    dice: Dice,
    pending: [PendingRequests; 2],
    number: u64,
    exchanges: u64,
}

impl Conversation {
    fn new(seed: u64, limit: usize) -> Self {
        Self {
            session: Session::new(limit, false),
            dice: Dice(seed | 1),
            pending: Default::default(),
            number: 0,
            exchanges: 0,
        }
    }

    /// Sends a message, and returns how it relates to which request.
    fn send(&mut self, direction: Direction, text: &str) -> (Option<Correlation>, Option<u64>) {
        self.number += 1;
        self.session.count_message();
        let Ok(Payload::Single(parsed)) = parse(text.as_bytes()) else {
            panic!("{text}")
        };
        let time = Timestamp(self.number);
        let observed = self.session.observe(direction, &parsed.message, time);
        let answers = observed.exchange.answers.map(|request| request.sequence);
        (observed.exchange.correlation, answers)
    }

    fn request(&mut self, side: usize, at_most: usize) {
        if self.pending[side].ids.len() >= at_most {
            return self.answer(side);
        }
        // Few ids, so that they are used again and again; numbers and texts.
        let id = match self.dice.roll(4) {
            0 => format!("\"id-{}\"", self.dice.roll(2 * at_most)),
            _ => self.dice.roll(2 * at_most).to_string(),
        };
        if self.pending[side].open.contains_key(&id) {
            return self.answer(side);
        }
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#);
        self.send(direction(side), &text);
        self.pending[side].open.insert(id.clone(), self.number);
        self.pending[side].ids.push(id);
    }

    fn respond(&mut self, side: usize, id: &str) -> (Option<Correlation>, Option<u64>) {
        let text = format!(r#"{{"jsonrpc":"2.0","result":{{}},"id":{id}}}"#);
        self.send(direction(side).reverse(), &text)
    }

    fn answer(&mut self, side: usize) {
        let count = self.pending[side].ids.len();
        if count == 0 {
            return;
        }
        let at = self.dice.roll(count);
        let id = self.pending[side].ids.swap_remove(at);
        let sequence = self.pending[side].open.remove(&id);
        let found = self.respond(side, &id);
        assert_eq!(found, (Some(Correlation::Answer), sequence), "id {id}");
        self.exchanges += 1;
        let answered = &mut self.pending[side].answered;
        answered.push_back(id);
        if answered.len() > REMEMBERED {
            answered.pop_front();
        }
    }

    fn again(&mut self, side: usize) {
        let count = self.pending[side].answered.len();
        if count == 0 {
            return;
        }
        let at = self.dice.roll(count);
        let id = self.pending[side].answered[at].clone();
        if self.pending[side].open.contains_key(&id) {
            return;
        }
        let found = self.respond(side, &id);
        assert_eq!(found, (Some(Correlation::Duplicate), None), "id {id}");
    }

    fn orphan(&mut self, side: usize) {
        let id = format!("\"never-{}\"", self.number);
        let found = self.respond(side, &id);
        assert_eq!(found, (Some(Correlation::Orphan), None));
    }

    fn step(&mut self, at_most: usize) {
        let side = self.dice.roll(2);
        match self.dice.roll(20) {
            0 => self.again(side),
            1 => self.orphan(side),
            2..=10 => self.request(side, at_most),
            _ => self.answer(side),
        }
    }
}

fn direction(side: usize) -> Direction {
    [Direction::ClientToServer, Direction::ServerToClient][side]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_answer_finds_its_request(seed in any::<u64>(), at_most in 1_usize..100, steps in 0..2000) {
        let mut talk = Conversation::new(seed, 1000);
        for _ in 0..steps {
            talk.step(at_most);
        }
        let open: usize = talk.pending.iter().map(|pending| pending.ids.len()).sum();
        prop_assert_eq!(talk.session.in_flight(), open);
        prop_assert_eq!(talk.session.unanswered(), open as u64);
    }
}

#[test]
fn so_do_a_million_with_hundreds_under_way() {
    let mut talk = Conversation::new(0x5eed, 10_000);
    while talk.exchanges < 1_000_000 {
        talk.step(500);
    }
}

#[test]
fn ten_thousand_requests_in_flight_take_little_memory() {
    let mut talk = Conversation::new(1, 16_384);
    let before = ALLOCATED.load(Ordering::Relaxed);
    for id in 0..10_000 {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":"request-{id:08}","method":"tools/call","params":{{"name":"read_file","_meta":{{"progressToken":"token-{id:08}"}}}}}}"#
        );
        talk.send(Direction::ClientToServer, &text);
    }
    assert_eq!(talk.session.in_flight(), 10_000);
    let taken = ALLOCATED.load(Ordering::Relaxed).saturating_sub(before);
    println!("10,000 requests in flight: {} KiB", taken / 1024);
    // Tests run side by side, so what others hold is in it as well.
    assert!(taken <= 16 << 20, "{taken} bytes");
}
