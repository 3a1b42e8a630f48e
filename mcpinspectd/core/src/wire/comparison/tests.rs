use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::model::GapReason;

mod midstream;

/// The stream that came out, and where the ends differed.
#[derive(Debug, Default)]
struct Out {
    stream: Vec<u8>,
    differences: Vec<(u64, u64)>,
    gaps: u64,
}

impl Out {
    fn collect(&mut self) -> impl FnMut(StreamEvent<'_>) {
        |event| match event {
            StreamEvent::Segment(Segment { position, content }) => match content {
                Content::Bytes(bytes) => {
                    assert_eq!(position, self.stream.len() as u64 + self.gaps);
                    self.stream.extend_from_slice(&bytes);
                }
                Content::Lost { length, .. } => self.gaps += length,
            },
            StreamEvent::Difference {
                position, length, ..
            } => self.differences.push((position, length)),
            StreamEvent::End => {}
        }
    }
}

fn bytes(position: u64, bytes: &[u8]) -> Segment<'_> {
    Segment::new(position, bytes)
}

const START: BootTime = BootTime(0);

const AUTHORITIES: [End; 2] = [End::Reader, End::Writer];

#[test]
fn equal_ends_give_the_stream() {
    for authority in AUTHORITIES {
        let (mut ends, mut out) = (
            EndComparison::new(authority, Start::Together),
            Out::default(),
        );
        ends.written(0, b"one two ", START, &mut out.collect());
        ends.read(bytes(0, b"one"), START, &mut out.collect());
        ends.read(bytes(3, b" two thr"), START, &mut out.collect());
        ends.written(8, b"three", START, &mut out.collect());
        ends.read(bytes(11, b"ee"), START, &mut out.collect());
        assert_eq!(out.stream, b"one two three");
        assert_eq!((out.differences, ends.equal()), (vec![], 13));
        assert!(!ends.is_waiting());
    }
}

#[test]
fn the_clients_bytes_count_where_the_ends_differ() {
    for authority in AUTHORITIES {
        let (mut ends, mut out) = (
            EndComparison::new(authority, Start::Together),
            Out::default(),
        );
        ends.written(
            0,
            b"{\"path\":\"/etc/shadow\"}\n",
            START,
            &mut out.collect(),
        );
        ends.read(
            bytes(0, b"{\"path\":\"/tmp/shadow\"}\n"),
            START,
            &mut out.collect(),
        );
        ends.settle(START + TIMEOUT, &mut out.collect());
        assert_eq!(out.differences, [], "it may have been overtaken");
        ends.settle(BootTime(1) + TIMEOUT, &mut out.collect());
        assert_eq!(out.differences, [(10, 13)]);
        ends.written(23, b"{}\n", START, &mut out.collect());
        ends.read(bytes(23, b"{}\n"), START, &mut out.collect());
        let clients: &[u8] = match authority {
            End::Reader => b"{\"path\":\"/tmp/shadow\"}\n{}\n",
            End::Writer => b"{\"path\":\"/etc/shadow\"}\n{}\n",
        };
        assert_eq!(out.stream, clients);
        assert_eq!(out.differences.len(), 1, "and are alike again");
    }
}

#[test]
fn a_missing_end_holds_nothing_up() {
    for authority in AUTHORITIES {
        let (mut ends, mut out) = (
            EndComparison::new(authority, Start::Together),
            Out::default(),
        );
        ends.read(
            bytes(0, b"nobody saw this being written"),
            START,
            &mut out.collect(),
        );
        ends.settle(BootTime(1) + TIMEOUT, &mut out.collect());
        assert_eq!(out.stream, b"nobody saw this being written");
        ends.written(29, b", but this", BootTime(1), &mut out.collect());
        ends.read(bytes(29, b", but this"), BootTime(1), &mut out.collect());
        assert_eq!(out.stream, b"nobody saw this being written, but this");
        assert_eq!((out.differences, ends.equal()), (vec![], 10));
    }
}

#[test]
fn a_gap_is_no_difference() {
    for authority in AUTHORITIES {
        let (mut ends, mut out) = (
            EndComparison::new(authority, Start::Together),
            Out::default(),
        );
        ends.written(0, b"0123456789", START, &mut out.collect());
        ends.read(bytes(0, b"01"), START, &mut out.collect());
        let gap = Segment::lost(2, 4, GapReason::RingFull);
        ends.read(gap, START, &mut out.collect());
        ends.read(bytes(6, b"6789"), START, &mut out.collect());
        ends.finish(&mut out.collect());
        assert_eq!((out.stream.as_slice(), out.gaps), (&b"016789"[..], 4));
        assert_eq!(out.differences, []);
    }
}

#[test]
fn a_writer_that_was_not_seen_is_no_difference() {
    let line =
        |number: usize| format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"ping\"}}\n");
    for authority in AUTHORITIES {
        let (mut ends, mut out) = (
            EndComparison::new(authority, Start::Together),
            Out::default(),
        );
        let (mut read, mut written) = (0, 0);
        let mut whole = String::new();
        for number in 100..160 {
            let line = line(number);
            // A process that is not followed writes these.
            if number % 20 != 7 {
                ends.written(
                    written,
                    line.as_bytes(),
                    BootTime(number as u64),
                    &mut out.collect(),
                );
                written += line.len() as u64;
            }
            ends.read(
                bytes(read, line.as_bytes()),
                BootTime(number as u64),
                &mut out.collect(),
            );
            ends.settle(START + 2 * number as u32 * TIMEOUT, &mut out.collect());
            read += line.len() as u64;
            whole += &line;
        }
        ends.finish(&mut out.collect());
        assert_eq!(String::from_utf8_lossy(&out.stream), whole);
        assert_eq!(out.differences, []);
    }
}

/// A write in progress when the stream becomes known is part of what was unread then, and is
/// counted again when it returns.
#[test]
fn a_first_write_that_was_counted_twice_is_no_difference() {
    let first = "{\"id\":1,\"jsonrpc\":\"2.0\",\"method\":\"initialize\",\"params\":{}}\n";
    let pad = "0123456 ".repeat(1200);
    let line = |number: usize| match number {
        12 => format!("{{\"id\":{number},\"pad\":\"{pad}\"}}\n"),
        _ => format!("{{\"id\":{number},\"jsonrpc\":\"2.0\",\"method\":\"ping\"}}\n"),
    };
    for (authority, start) in [
        (End::Reader, Start::Unread as fn(u64) -> Start),
        (End::Writer, Start::Unread),
        (End::Reader, Start::Midstream),
        (End::Writer, Start::Midstream),
    ] {
        for late in [0, 1, 3] {
            let unread = first.len() as u64;
            let (mut ends, mut out) =
                (EndComparison::new(authority, start(unread)), Out::default());
            let mut whole = first.to_owned();
            ends.read(bytes(0, first.as_bytes()), START, &mut out.collect());
            ends.written(unread, first.as_bytes(), START, &mut out.collect());
            let (mut read, mut written) = (unread, 2 * unread);
            for number in 2..40 + late {
                if number < 40 {
                    let line = line(number);
                    // As the ring delivers them: long ones in pieces.
                    for piece in line.as_bytes().chunks(8192) {
                        ends.written(written, piece, BootTime(number as u64), &mut out.collect());
                        written += piece.len() as u64;
                    }
                }
                if number >= 2 + late {
                    let line = line(number - late);
                    for piece in line.as_bytes().chunks(4096) {
                        ends.read(
                            bytes(read, piece),
                            BootTime(number as u64),
                            &mut out.collect(),
                        );
                        read += piece.len() as u64;
                    }
                    whole += &line;
                }
                ends.settle(START + 2 * number as u32 * TIMEOUT, &mut out.collect());
            }
            assert_eq!(out.differences, [], "{late} lines late");
            let lie = [line(50), line(51)];
            ends.written(written, lie[0].as_bytes(), START, &mut out.collect());
            ends.read(bytes(read, lie[1].as_bytes()), START, &mut out.collect());
            ends.finish(&mut out.collect());
            assert_eq!(out.differences.len(), 1, "{late} lines late");
            let last = if authority == End::Reader { 51 } else { 50 };
            whole += &line(last);
            assert!(out.stream == whole.as_bytes(), "{authority:?} {late}");
        }
    }
}

/// A client that writes single bytes while its server starts: some are unread when the stream becomes
/// known, and the write of the last one may be in progress.
#[test]
fn single_bytes_that_were_counted_twice_are_no_difference() {
    let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}}\n";
    let stream = [line, &line[..], line].concat();
    for authority in AUTHORITIES {
        for unread in 1..line.len() {
            for twice in [0, 1] {
                // The reader is ahead of the writer's records, or behind them.
                for ahead in [0, 1, 7, line.len()] {
                    let start = Start::Unread(unread as u64);
                    let (mut ends, mut out) =
                        (EndComparison::new(authority, start), Out::default());
                    let mut read = 0;
                    for (index, byte) in stream.iter().enumerate().skip(unread - twice) {
                        let until = (index + ahead).min(stream.len());
                        for (at, byte) in stream.iter().enumerate().take(until).skip(read) {
                            ends.read(bytes(at as u64, &[*byte]), START, &mut out.collect());
                        }
                        read = read.max(until);
                        ends.written((index + twice) as u64, &[*byte], START, &mut out.collect());
                    }
                    for (at, byte) in stream.iter().enumerate().skip(read) {
                        ends.read(bytes(at as u64, &[*byte]), START, &mut out.collect());
                    }
                    let case = format!("{authority:?} {unread} {twice} {ahead}");
                    assert!(!ends.is_waiting(), "{case}: nothing is held back");
                    let lie = b"{\"id\":2}\n";
                    let end = stream.len() as u64;
                    ends.written(end + twice as u64, lie, START, &mut out.collect());
                    ends.read(bytes(end, b"{\"id\":3}\n"), START, &mut out.collect());
                    ends.finish(&mut out.collect());
                    assert!(out.stream.starts_with(&stream), "{case}");
                    assert_eq!(out.differences, [(end + 6, 3)], "{case}");
                    let twice = i64::try_from(twice).unwrap_or(0);
                    assert_eq!(ends.correction(), -twice, "{case}");
                }
            }
        }
    }
}

/// The uncertain beginning does not excuse different text.
#[test]
fn a_lie_at_an_uncertain_beginning_is_found() {
    let unread = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/one\"}\n";
    let written = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
    let lie = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}      \n";
    for chunk in [1, 5, written.len()] {
        let from = unread.len() as u64;
        let start = Start::Unread(from);
        let (mut ends, mut out) = (EndComparison::new(End::Writer, start), Out::default());
        ends.read(bytes(0, unread), START, &mut out.collect());
        for (index, part) in written.chunks(chunk).enumerate() {
            let at = from + (index * chunk) as u64;
            ends.written(at, part, START, &mut out.collect());
        }
        ends.read(bytes(from, lie), START, &mut out.collect());
        ends.finish(&mut out.collect());
        assert!(!out.differences.is_empty(), "in pieces of {chunk}");
        assert_eq!(ends.correction(), 0);
    }
}

/// A true write cannot be used twice to cover a lie.
#[test]
fn a_lie_that_a_later_write_overtakes_is_found() {
    let truth = b"{\"id\":1,\"result\":{\"text\":\"read /etc/shadow\"}}\n";
    let lie = b"{\"id\":1,\"result\":{\"text\":\"a sunny day....\"}}\n";
    let length = truth.len() as u64;
    let (mut ends, mut out) = (
        EndComparison::new(End::Reader, Start::Together),
        Out::default(),
    );
    ends.written(0, lie, START, &mut out.collect());
    ends.written(length, truth, START, &mut out.collect());
    ends.read(bytes(0, truth), START, &mut out.collect());
    ends.read(bytes(length, truth), START, &mut out.collect());
    ends.finish(&mut out.collect());
    assert_eq!(out.differences.len(), 1);
    assert_eq!(out.stream, [truth, &truth[..]].concat());
}

#[test]
fn counts_that_began_apart_are_not_believed() {
    let (mut ends, mut out) = (
        EndComparison::new(End::Reader, Start::Midstream(4)),
        Out::default(),
    );
    ends.read(bytes(0, b"0123abcdefgh"), START, &mut out.collect());
    ends.written(4, b"cdefgh", START, &mut out.collect());
    ends.settle(BootTime(1) + TIMEOUT, &mut out.collect());
    ends.finish(&mut out.collect());
    assert_eq!(out.stream, b"0123abcdefgh");
    assert_eq!(out.differences, []);
}

#[test]
fn a_server_that_differs_in_every_byte_costs_a_bounded_number_of_looks() {
    for authority in AUTHORITIES {
        let (mut ends, mut out) = (
            EndComparison::new(authority, Start::Together),
            Out::default(),
        );
        let read = vec![b'r'; 1 << 20];
        for index in 0..100_000 {
            ends.written(index, b"w", START, &mut out.collect());
        }
        ends.read(bytes(0, &read), START, &mut out.collect());
        ends.finish(&mut out.collect());
        assert_eq!(out.stream.len(), read.len());
        assert!(out.differences.len() <= MISMATCHES_MAX as usize);
    }
}

#[test]
fn what_is_skipped_is_not_compared_and_what_follows_is() {
    for authority in AUTHORITIES {
        let (mut ends, mut out) = (
            EndComparison::new(authority, Start::Together),
            Out::default(),
        );
        ends.written(0, b"a harmless", START, &mut out.collect());
        ends.written(10, b" result\n", START, &mut out.collect());
        ends.read(bytes(0, b"a poisoned"), START, &mut out.collect());
        assert!(ends.memory() > 0);
        ends.skip_all(START, &mut out.collect());
        assert_eq!((ends.memory(), ends.is_waiting()), (0, false));
        ends.read(bytes(10, b" result\n"), START, &mut out.collect());
        assert_eq!(
            (out.stream.as_slice(), out.differences.len()),
            (&b"a poisoned result\n"[..], 0)
        );
        ends.written(18, b"what follows\n", START, &mut out.collect());
        ends.read(bytes(18, b"what was not\n"), START, &mut out.collect());
        ends.finish(&mut out.collect());
        assert_eq!(out.differences.len(), 1);
    }
}

#[test]
fn memory_is_bounded() {
    let piece = vec![b'x'; 100_000];
    for authority in AUTHORITIES {
        let (mut ends, mut out) = (
            EndComparison::new(authority, Start::Together),
            Out::default(),
        );
        for index in 0..100 {
            ends.written(index * 100_000, &piece, START, &mut out.collect());
            assert!(ends.writes.bytes() <= WAITING_MAX);
        }
        for index in 0..100 {
            ends.read(bytes(index * 100_000, &piece), START, &mut out.collect());
            assert!(ends.read.len() <= WAITING_MAX + 2 * piece.len());
        }
        ends.finish(&mut out.collect());
        assert_eq!(out.stream.len(), 10_000_000);
        assert_eq!(out.differences, []);
    }
}

/// One step of a random session.
#[derive(Clone, Debug)]
enum Step {
    Write,
    Read(usize),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Write),
        4 => (1_usize..90).prop_map(Step::Read),
        1 => Just(Step::Wait),
    ]
}

proptest! {
    /// However the stream is cut at either end, whichever of two writers returns first, and whatever
    /// is not seen at the writer's end: the stream comes out, and no difference is found.
    #[test]
    fn honest_ends_agree(
        lines in prop::collection::vec((0_u32..1_000_000, any::<bool>(), any::<bool>()), 1..40),
        steps in prop::collection::vec(step(), 0..200),
        client_reads in any::<bool>(),
        overtaking in any::<bool>(),
    ) {
        // Either may happen; together they look like a lie.
        let overtakes = |index: usize| overtaking && lines[index].1;
        let is_seen = |index: usize| overtaking || lines[index].2;
        let patient = !(overtaking && steps.iter().any(|step| matches!(step, Step::Wait)));
        let authority = if client_reads { End::Reader } else { End::Writer };
        let texts: Vec<String> = lines
            .iter()
            .enumerate()
            .map(|(index, (number, ..))| {
                format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{index}.{number}\",\"method\":\"tools/list\"}}\n")
            })
            .collect();
        let stream = texts.concat().into_bytes();
        // Two neighbours that return in the opposite order are numbered in that order.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        for index in 1..order.len() {
            if overtakes(index) && order[index - 1] == index - 1 {
                order.swap(index - 1, index);
            }
        }
        let mut position = 0;
        let mut writes: VecDeque<(u64, &[u8], bool)> = order
            .iter()
            .map(|index| {
                let at = position;
                position += texts[*index].len() as u64;
                (at, texts[*index].as_bytes(), is_seen(*index))
            })
            .collect();
        let (mut ends, mut out) = (EndComparison::new(authority, Start::Together), Out::default());
        let (mut read, mut now) = (0, START);
        let mut write = |ends: &mut EndComparison, out: &mut Out, now| {
            if let Some((at, text, seen)) = writes.pop_front()
                && seen
            {
                ends.written(at, text, now, &mut out.collect());
            }
        };
        for step in steps {
            match step {
                Step::Write => write(&mut ends, &mut out, now),
                Step::Read(length) => {
                    let until = stream.len().min(read + length);
                    if until > read {
                        ends.read(bytes(read as u64, &stream[read..until]), now, &mut out.collect());
                        read = until;
                    }
                }
                Step::Wait => {
                    now += TIMEOUT / 3;
                    ends.settle(now, &mut out.collect());
                }
            }
        }
        if read < stream.len() {
            ends.read(bytes(read as u64, &stream[read..]), now, &mut out.collect());
        }
        for _ in 0..texts.len() {
            write(&mut ends, &mut out, now);
        }
        ends.finish(&mut out.collect());
        prop_assert_eq!(out.stream.len(), stream.len());
        prop_assert!(out.stream == stream || !patient && !out.differences.is_empty());
        prop_assert!(!patient || out.differences.is_empty(), "{:?}", out.differences);
    }

    /// A byte that differs is found wherever it is, and taints only its own write.
    #[test]
    fn a_lie_is_found(
        lines in prop::collection::vec("[a-z]{1,60}\n", 1..30),
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        client_reads in any::<bool>(),
    ) {
        let authority = if client_reads { End::Reader } else { End::Writer };
        let which = which.index(lines.len());
        let mut lies = lines.clone();
        let mut lie = lines[which].clone().into_bytes();
        let place = place.index(lie.len());
        lie[place] = b'!';
        lies[which] = String::from_utf8_lossy(&lie).into_owned();
        let (mut ends, mut out) = (EndComparison::new(authority, Start::Together), Out::default());
        let mut at = 0;
        for (time, (line, lie)) in lines.iter().zip(&lies).enumerate() {
            let now = START + 2 * time as u32 * TIMEOUT;
            ends.settle(now, &mut out.collect());
            ends.written(at, lie.as_bytes(), now, &mut out.collect());
            ends.read(bytes(at, line.as_bytes()), now, &mut out.collect());
            at += line.len() as u64;
        }
        ends.finish(&mut out.collect());
        let before: usize = lines[..which].iter().map(String::len).sum();
        let clients = if client_reads { &lines } else { &lies };
        prop_assert_eq!(out.stream, clients.concat().into_bytes());
        prop_assert_eq!(out.differences.len(), 1);
        prop_assert_eq!(out.differences[0].0, (before + place) as u64);
    }
}
