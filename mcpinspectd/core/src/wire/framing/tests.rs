use proptest::prelude::*;

use super::*;

/// An owned [`Framed`].
#[derive(Clone, Debug, PartialEq)]
enum RecordedFrame {
    Frame {
        text: Vec<u8>,
        position: u64,
        gap: bool,
        tentative: bool,
        unterminated: bool,
    },
    Oversize {
        position: u64,
        bytes: u64,
        gap: bool,
    },
}

fn record(seen: &mut Vec<RecordedFrame>) -> impl FnMut(Framed<'_>) {
    |framed| {
        seen.push(match framed {
            Framed::Frame(Frame {
                bytes,
                position,
                gap_before,
                tentative,
                unterminated,
            }) => RecordedFrame::Frame {
                text: bytes.to_vec(),
                position,
                gap: gap_before,
                tentative,
                unterminated,
            },
            Framed::Oversize {
                position,
                bytes,
                gap_before,
            } => RecordedFrame::Oversize {
                position,
                bytes,
                gap: gap_before,
            },
        });
    }
}

fn frame(text: &str, position: u64) -> RecordedFrame {
    RecordedFrame::Frame {
        text: text.into(),
        position,
        gap: false,
        tentative: false,
        unterminated: false,
    }
}

fn run(max: usize, chunks: &[&[u8]]) -> (Vec<RecordedFrame>, FramerStats) {
    let mut framer = Framer::new(max);
    let mut seen = Vec::new();
    let mut position = 0;
    for chunk in chunks {
        framer.push(position, chunk, record(&mut seen));
        position += chunk.len() as u64;
    }
    framer.finish(record(&mut seen));
    (seen, framer.stats())
}

#[test]
fn cuts_at_newlines_and_keeps_the_exact_bytes() {
    let (seen, stats) = run(100, &[b"a\nbb\r\n\n \t\r\nc", b"", b"c\n"]);
    assert_eq!(seen, [frame("a", 0), frame("bb\r", 2), frame("cc", 11)]);
    assert_eq!(
        stats,
        FramerStats {
            frames: 3,
            blank_lines: 2,
            ..FramerStats::default()
        }
    );
}

#[test]
fn the_last_line_needs_no_newline() {
    let (seen, _) = run(100, &[b"a\nb"]);
    assert_eq!(seen.len(), 2);
    assert!(
        matches!(&seen[1], RecordedFrame::Frame { text, unterminated: true, .. } if text == b"b")
    );
    assert_eq!(run(100, &[b"a\n"]).0.len(), 1);
    assert_eq!(run(100, &[]).0, []);
}

#[test]
fn the_maximum_is_exact() {
    for (size, kept) in [
        (0, true),
        (1, true),
        (7, true),
        (8, true),
        (9, false),
        (100, false),
    ] {
        let line = [vec![b'x'; size], b"\nend\n".to_vec()].concat();
        for chunk in [1, 3, 8, 200] {
            let chunks: Vec<&[u8]> = line.chunks(chunk).collect();
            let (seen, stats) = run(8, &chunks);
            let end = frame("end", size as u64 + 1);
            if size == 0 {
                assert_eq!(seen, [end]);
            } else if kept {
                assert_eq!(seen, [frame(&"x".repeat(size), 0), end]);
            } else {
                let over = RecordedFrame::Oversize {
                    position: 0,
                    bytes: size as u64,
                    gap: false,
                };
                assert_eq!(seen, [over, end]);
                assert_eq!(stats.bytes_discarded, size as u64);
            }
        }
    }
}

#[test]
fn an_endless_line_is_not_kept() {
    let mut framer = Framer::new(1 << 20);
    let chunk = vec![b'x'; 64 * 1024];
    let mut seen = Vec::new();
    for index in 0..1600_u64 {
        framer.push(index * chunk.len() as u64, &chunk, record(&mut seen));
        assert!(framer.usage().memory <= 2 << 20);
    }
    framer.finish(record(&mut seen));
    assert_eq!(
        seen,
        [RecordedFrame::Oversize {
            position: 0,
            bytes: 1600 * 64 * 1024,
            gap: false
        }]
    );
}

#[test]
fn an_abandoned_line_is_reported_like_one_above_the_maximum() {
    let mut framer = Framer::new(1000);
    let mut seen = Vec::new();
    framer.abandon_line();
    framer.push(0, b"short", record(&mut seen));
    framer.abandon_line();
    framer.push(5, b" line\nnext\n", record(&mut seen));
    let over = RecordedFrame::Oversize {
        position: 0,
        bytes: 10,
        gap: false,
    };
    assert_eq!(seen, [over, frame("next", 11)]);
}

#[test]
fn memory_of_a_large_line_is_freed() {
    let mut framer = Framer::new(DEFAULT_MAX_FRAME);
    framer.push(0, &vec![b'x'; 8 << 20], |_| {});
    assert!((8 << 20..=9 << 20).contains(&framer.usage().memory));
    framer.push(8 << 20, b"\n{", |_| {});
    assert!(framer.usage().memory <= 16 << 10);
}

#[test]
fn a_gap_drops_the_torn_line_and_makes_the_next_tentative() {
    let mut framer = Framer::new(100);
    let mut seen = Vec::new();
    framer.push(0, b"a\ntorn", record(&mut seen));
    framer.gap(6, 10);
    framer.push(16, b"rest\nwhole\n", record(&mut seen));
    let rest = RecordedFrame::Frame {
        text: b"rest".into(),
        position: 16,
        gap: true,
        tentative: true,
        unterminated: false,
    };
    assert_eq!(seen, [frame("a", 0), rest, frame("whole", 21)]);
    let stats = framer.stats();
    assert_eq!(
        (stats.bytes_discarded, stats.bytes_lost, stats.gaps),
        (4, 10, 1)
    );
}

#[test]
fn a_gap_that_ends_before_a_newline_leaves_the_next_line_certain() {
    let mut framer = Framer::new(100);
    let mut seen = Vec::new();
    framer.gap(0, 10);
    framer.push(10, b"\nwhole\n", record(&mut seen));
    let whole = RecordedFrame::Frame {
        text: b"whole".into(),
        position: 11,
        gap: true,
        tentative: false,
        unterminated: false,
    };
    assert_eq!(seen, [whole]);
}

#[test]
fn a_gap_in_an_oversize_line_forgets_it() {
    let mut framer = Framer::new(4);
    let mut seen = Vec::new();
    framer.push(0, b"oversize", record(&mut seen));
    framer.gap(8, 1);
    framer.push(9, b"ok\n", record(&mut seen));
    assert!(matches!(
        &seen[..],
        [RecordedFrame::Frame {
            tentative: true,
            gap: true,
            ..
        }]
    ));
    assert_eq!(framer.stats().bytes_discarded, 8);
}

#[test]
fn wrong_positions_are_corrected() {
    let mut framer = Framer::new(100);
    let mut seen = Vec::new();
    framer.push(0, b"ab", record(&mut seen));
    framer.push(0, b"abc\n", record(&mut seen));
    framer.push(1, b"b", record(&mut seen));
    framer.push(7, b"d\n", record(&mut seen));
    assert_eq!(seen[0], frame("abc", 0));
    assert!(matches!(
        &seen[1],
        RecordedFrame::Frame {
            gap: true,
            position: 7,
            ..
        }
    ));
    assert_eq!(framer.stats().bytes_lost, 3);
}

#[test]
fn whole_frames_keep_their_newlines_and_are_bounded() {
    let mut framer = Framer::new(8);
    let mut seen = Vec::new();
    framer.message(0, b"{\n}", record(&mut seen));
    framer.message(0, b"{\n}", record(&mut seen));
    framer.message(3, b"too large", record(&mut seen));
    framer.message(20, b"[]", record(&mut seen));
    framer.message(22, b" ", record(&mut seen));
    let over = RecordedFrame::Oversize {
        position: 3,
        bytes: 9,
        gap: false,
    };
    let after_a_gap = RecordedFrame::Frame {
        text: b"[]".into(),
        position: 20,
        gap: true,
        tentative: false,
        unterminated: false,
    };
    assert_eq!(seen, [frame("{\n}", 0), over, after_a_gap]);
    let stats = framer.stats();
    assert_eq!((stats.bytes_lost, stats.blank_lines), (8, 1));
    assert_eq!(framer.position(), 23);
}

#[test]
fn a_stream_joined_midway_starts_tentative() {
    let mut framer = Framer::joined_at(1000, 100);
    let mut seen = Vec::new();
    framer.push(1000, b"rest\nwhole\n", record(&mut seen));
    assert!(matches!(
        seen[0],
        RecordedFrame::Frame {
            tentative: true,
            gap: false,
            position: 1000,
            ..
        }
    ));
    assert_eq!(seen[1], frame("whole", 1005));
}

proptest! {
    #[test]
    fn chunks_make_no_difference(
        text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), any::<u8>()], 0..400),
        cuts in proptest::collection::vec(0_usize..400, 0..40),
        max in 1_usize..40,
    ) {
        let whole = run(max, &[&text]);
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut <= text.len()).collect();
        cuts.push(0);
        cuts.push(text.len());
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        prop_assert_eq!(run(max, &chunks), whole);
    }

    #[test]
    fn every_byte_is_accounted_for(
        text in proptest::collection::vec(prop_oneof![3 => Just(b'x'), 1 => Just(b'\n')], 0..200),
        max in 1_usize..20,
    ) {
        let (seen, stats) = run(max, &[&text]);
        let expected: Vec<&[u8]> = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
        prop_assert_eq!(seen.len(), expected.len());
        for (seen, line) in seen.iter().zip(expected) {
            match seen {
                RecordedFrame::Frame { text, .. } => prop_assert_eq!(text.as_slice(), line),
                RecordedFrame::Oversize { bytes, .. } => prop_assert_eq!(*bytes, line.len() as u64),
            }
        }
        prop_assert_eq!(stats.frames + stats.oversize, seen.len() as u64);
    }
}
