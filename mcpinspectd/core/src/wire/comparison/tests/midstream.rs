//! Streams that become known while a session is under way: calls are in progress, the writer's end is shipped late
//! or not at all for a while, and most of a message may be one byte, repeated.

use std::cell::RefCell;
use std::time::Duration;

use super::*;

/// What a pipe holds.
const CAPACITY: usize = 64 << 10;
/// The longest piece that is shipped.
const PIECE: usize = 64 << 10;
/// Messages of a session that goes on calmly.
const CALM: usize = 60;
/// The most that a reader takes at a time.
const READ: usize = 8 << 10;

/// One moment of a session.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The writer puts in as much as there is room for.
    Put,
    /// The writer's call returns, if all is in.
    WriteReturns,
    /// The reader takes what is there.
    Take,
    /// The reader's call returns.
    ReadReturns,
    /// Until the pipe is empty, the one puts in and the other takes.
    Exchange,
    /// The reader takes this often, and the writer's call does not return.
    Advance(u8),
    /// From now on, of eight copies of what is written, those are dropped whose bits are set.
    Behind(u8),
    /// Time passes, in milliseconds.
    Wait(u64),
}

fn moment() -> impl Strategy<Value = Moment> {
    prop_oneof![
        4 => Just(Moment::Put),
        4 => Just(Moment::WriteReturns),
        4 => Just(Moment::Take),
        4 => Just(Moment::ReadReturns),
        4 => Just(Moment::Exchange),
        2 => (1_u8..14).prop_map(Moment::Advance),
        2 => any::<u8>().prop_map(Moment::Behind),
        4 => (1_u64..60).prop_map(Moment::Wait),
    ]
}

/// A writer, a reader, and the pipe between them.
struct Session<'a> {
    /// Where each message ends.
    ends: &'a [usize],
    /// Whether the writer waits for each message to be taken, as for its answer.
    in_turn: bool,
    message: usize,
    put: usize,
    taken: usize,
    /// What the reader's call in progress has taken.
    taking: usize,
}

impl Session<'_> {
    fn begin(&self) -> usize {
        match self.message {
            0 => 0,
            message => self.ends[message - 1],
        }
    }

    fn put(&mut self) {
        let Some(end) = self.ends.get(self.message) else {
            return;
        };
        if self.in_turn && self.put == self.begin() && self.taken + self.taking < self.put {
            return;
        }
        let room = CAPACITY - (self.put - self.taken - self.taking);
        self.put = (*end).min(self.put + room);
    }

    /// The message that was written, if its call returns.
    fn write_returns(&mut self) -> Option<(usize, usize)> {
        let end = *self.ends.get(self.message)?;
        let begin = self.begin();
        (self.put == end).then(|| {
            self.message += 1;
            (begin, end)
        })
    }

    fn take(&mut self) {
        if self.taking == 0 {
            self.taking = READ.min(self.put - self.taken);
        }
    }

    /// What was read, if a call returns.
    fn read_returns(&mut self) -> Option<(usize, usize)> {
        let taken = std::mem::take(&mut self.taking);
        let begin = self.taken;
        self.taken += taken;
        (taken > 0).then_some((begin, self.taken))
    }
}

/// What the probes see of it.
struct Probes<'a> {
    stream: &'a [u8],
    ends: EndComparison,
    out: Out,
    now: BootTime,
    written: u64,
    read: u64,
    /// The first byte whose read returned.
    first: Option<usize>,
    last: usize,
    behind: u8,
}

impl<'a> Probes<'a> {
    fn attach(stream: &'a [u8], unread: u64, authority: End) -> Self {
        Self {
            stream,
            ends: EndComparison::new(authority, Start::Midstream(unread)),
            out: Out::default(),
            now: START,
            written: unread,
            read: 0,
            first: None,
            last: 0,
            behind: 0,
        }
    }

    fn wrote(&mut self, (begin, end): (usize, usize)) {
        for piece in self.stream[begin..end].chunks(PIECE) {
            self.behind = self.behind.rotate_right(1);
            if self.behind & 1 == 0 {
                self.ends
                    .written(self.written, piece, self.now, &mut self.out.collect());
            }
            self.written += piece.len() as u64;
        }
    }

    fn took(&mut self, (begin, end): (usize, usize)) {
        self.first.get_or_insert(begin);
        self.last = end;
        let piece = bytes(self.read, &self.stream[begin..end]);
        self.ends.read(piece, self.now, &mut self.out.collect());
        self.read += (end - begin) as u64;
    }

    fn wait(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
        self.ends.settle(self.now, &mut self.out.collect());
    }
}

/// Lets the session do what happens at one moment; `wrote` and `took` get what calls that return have moved.
fn act(
    session: &mut Session<'_>,
    moment: Moment,
    wrote: &mut dyn FnMut((usize, usize)),
    took: &mut dyn FnMut((usize, usize)),
) {
    match moment {
        Moment::Put => session.put(),
        Moment::WriteReturns => session.write_returns().into_iter().for_each(wrote),
        Moment::Take => session.take(),
        Moment::ReadReturns => session.read_returns().into_iter().for_each(took),
        Moment::Exchange => loop {
            session.put();
            session.write_returns().into_iter().for_each(&mut *wrote);
            session.take();
            let Some(taken) = session.read_returns() else {
                return;
            };
            took(taken);
            if session.put == session.taken && session.put == session.begin() {
                return;
            }
        },
        Moment::Advance(times) => {
            for _ in 0..times {
                session.put();
                session.take();
                session.read_returns().into_iter().for_each(&mut *took);
            }
            session.put();
        }
        Moment::Behind(_) | Moment::Wait(_) => {}
    }
}

/// Requests with this much padding, and where each ends.
fn messages<'a>(sizes: impl Iterator<Item = &'a usize>) -> (Vec<u8>, Vec<usize>) {
    let (mut stream, mut ends) = (Vec::new(), Vec::new());
    for (id, size) in sizes.enumerate() {
        let padding = "x".repeat(*size);
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"params\":{{\"padding\":\"{padding}\"}}}}\n"
        );
        stream.extend_from_slice(text.as_bytes());
        ends.push(stream.len());
    }
    (stream, ends)
}

/// The end of a long request is all that is left in the pipe, its call returns late, and the copies of some are
/// dropped: the counts are apart by what a repetition covers.
#[test]
fn a_lie_is_found_after_a_long_write_that_was_under_way() {
    for authority in AUTHORITIES {
        for behind in 0..=u8::MAX {
            let sizes = [90_000, 10, 90_000, 20_000, 90_000]
                .into_iter()
                .chain([100; CALM]);
            let (stream, ends) = messages(Vec::from_iter(sizes).iter());
            let taken = ends[0] - 24_579;
            let mut probes = Probes::attach(&stream, 24_579, authority);
            let mut begin = 0;
            for (index, end) in ends.into_iter().enumerate() {
                probes.behind = if index < 5 { behind } else { 0 };
                let start = begin.max(taken);
                for at in (start..end).step_by(READ) {
                    probes.took((at, end.min(at + READ)));
                }
                probes.wrote((begin, end));
                probes.wait(20);
                begin = end;
            }
            assert_eq!(probes.out.differences, [], "{authority:?} {behind}");
            let (read, written) = (probes.read, probes.written);
            let out = &mut probes.out;
            probes
                .ends
                .written(written, b"{\"id\":\"a\"}\n", probes.now, &mut out.collect());
            probes.ends.read(
                bytes(read, b"{\"id\":\"b\"}\n"),
                probes.now,
                &mut out.collect(),
            );
            probes.ends.finish(&mut out.collect());
            assert_eq!(out.differences.len(), 1, "{authority:?} {behind}");
        }
    }
}

proptest! {
    /// Whatever is in progress when the stream becomes known, and whatever is not seen at the writer's end: what
    /// is read comes out as it was read.
    #[test]
    fn honest_ends_agree_from_the_middle_on(
        sizes in prop::collection::vec(prop::sample::select(vec![10, 2_000, 20_000, 90_000]), 1..60),
        before in prop::collection::vec(moment(), 0..60),
        after in prop::collection::vec(moment(), 0..200),
        in_turn in any::<bool>(),
        behind in any::<u8>(),
        client_reads in any::<bool>(),
    ) {
        let calm = [100; CALM];
        let (stream, ends) = messages(sizes.iter().chain(&calm));
        let mut session = Session {
            ends: &ends[..sizes.len()],
            in_turn,
            message: 0,
            put: 0,
            taken: 0,
            taking: 0,
        };
        for moment in before {
            act(&mut session, moment, &mut |_| {}, &mut |_| {});
        }
        let unread = (session.put - session.taken - session.taking) as u64;
        let authority = if client_reads { End::Reader } else { End::Writer };
        let probes = RefCell::new(Probes::attach(&stream, unread, authority));
        probes.borrow_mut().behind = behind;
        for moment in after {
            match moment {
                Moment::Behind(behind) => probes.borrow_mut().behind = behind,
                Moment::Wait(milliseconds) => probes.borrow_mut().wait(milliseconds),
                _ => act(
                    &mut session,
                    moment,
                    &mut |text| probes.borrow_mut().wrote(text),
                    &mut |text| probes.borrow_mut().took(text),
                ),
            }
            prop_assert_eq!(&probes.borrow().out.differences, &[]);
        }
        // The rest of the session is calm.
        probes.borrow_mut().behind = 0;
        session.ends = &ends;
        session.in_turn = true;
        for _ in 0..sizes.len() + CALM {
            act(
                &mut session,
                Moment::Exchange,
                &mut |text| probes.borrow_mut().wrote(text),
                &mut |text| probes.borrow_mut().took(text),
            );
            probes.borrow_mut().wait(20);
        }
        let mut probes = probes.into_inner();
        probes.ends.finish(&mut probes.out.collect());
        prop_assert_eq!(&probes.out.differences, &[]);
        let read = &stream[probes.first.unwrap_or(probes.last)..probes.last];
        prop_assert_eq!(probes.out.stream.len(), read.len());
        prop_assert!(probes.out.stream == read);
    }
}
