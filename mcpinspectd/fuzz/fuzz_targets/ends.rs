//! Whatever two ends claim of a stream: what was read comes out, byte for byte in number, and a server
//! whose end is the writer's never changes what its client read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcpinspect_common::End;
use mcpinspectd::wire::ends::{Ends, Said};
use mcpinspectd::wire::reassembly::Piece;

fuzz_target!(|steps: Vec<(u8, u16, &[u8])>| {
    for authority in [End::Reader, End::Writer] {
        let mut ends = Ends::new(authority, 0, true);
        let (mut read, mut now) = (Vec::new(), 0);
        let mut stream = Vec::new();
        let mut say = |said: Said<'_>| {
            if let Said::Piece(Piece::Bytes { position, bytes }) = said {
                assert_eq!(position, stream.len() as u64);
                stream.extend_from_slice(bytes);
            }
        };
        for (what, place, bytes) in &steps {
            match what % 4 {
                0 => {
                    let position = read.len() as u64;
                    read.extend_from_slice(bytes);
                    ends.read(Piece::Bytes { position, bytes }, now, &mut say);
                }
                1 => ends.written(u64::from(*place), bytes, now, &mut say),
                2 => {
                    now += u64::from(*place) * 10_000;
                    ends.settle(now, &mut say);
                }
                // What was read a moment ago, as its writer has it.
                _ => {
                    let from = read.len().saturating_sub(usize::from(*place));
                    let written = read[from..].to_vec();
                    ends.written(from as u64, &written, now, &mut say);
                }
            }
        }
        ends.finish(&mut say);
        assert_eq!(stream.len(), read.len());
        assert!(authority == End::Writer || stream == read);
    }
});
