//! The frames of a stream do not depend on how it is cut into chunks, and every byte is accounted for.
#![cfg_attr(fuzzing, no_main)]

use mcpinspect_core::wire::framing::{Framed, Framer, FramerStats};
use mcpinspectd_fuzz::fuzz_target;

type Line = (u64, u64, bool, Option<Vec<u8>>);

fn frames(max: usize, chunks: &mut dyn Iterator<Item = &[u8]>) -> (Vec<Line>, FramerStats) {
    let mut framer = Framer::new(max);
    let mut lines = Vec::new();
    let mut take = |framed: Framed<'_>| {
        lines.push(match framed {
            Framed::Frame(frame) => (
                frame.position,
                frame.bytes.len() as u64,
                frame.unterminated,
                Some(frame.bytes.to_vec()),
            ),
            Framed::Oversize {
                position, bytes, ..
            } => (position, bytes, false, None),
        });
    };
    let mut position = 0;
    for chunk in chunks {
        framer.push(position, chunk, &mut take);
        position += chunk.len() as u64;
        assert!(framer.usage().memory <= 2 * max + 16 * 1024);
    }
    framer.finish(&mut take);
    (lines, framer.stats())
}

fuzz_target!(|data: &[u8]| {
    let [max, step, text @ ..] = data else { return };
    let max = usize::from(*max) + 1;
    let (whole, stats) = frames(max, &mut std::iter::once(text));
    let pieces = frames(max, &mut text.chunks(usize::from(*step) + 1));
    assert_eq!(pieces, (whole.clone(), stats));
    for (position, bytes, _, line) in whole {
        let start = position as usize;
        let span = &text[start..start + bytes as usize];
        assert!(!span.contains(&b'\n'));
        if let Some(line) = line {
            assert_eq!(line, span);
        }
    }
});
