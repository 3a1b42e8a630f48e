//! Whatever the two ends of a stream claim, as many bytes come out as were read, and a server that writes the
//! stream never changes what its client read.
#![cfg_attr(fuzzing, no_main)]

use std::time::Duration;

use mcpinspect_common::End;
use mcpinspect_core::model::{BootTime, Segment, StreamEvent};
use mcpinspect_core::wire::comparison::{EndComparison, Start};
use mcpinspectd_fuzz::fuzz_target;

fuzz_target!(|steps: Vec<(u8, u16, &[u8])>| {
    let starts = [Start::Together, Start::Unread(40), Start::Midstream(7)];
    let ends = [End::Reader, End::Writer];
    for (authority, start) in ends
        .into_iter()
        .flat_map(|end| starts.map(|start| (end, start)))
    {
        let mut ends = EndComparison::new(authority, start);
        let (mut read, mut now) = (Vec::new(), BootTime::default());
        let mut stream = Vec::new();
        let mut collect = |event: StreamEvent<'_>| {
            if let StreamEvent::Segment(segment) = event
                && let Some(bytes) = segment.as_bytes()
            {
                assert_eq!(segment.position, stream.len() as u64);
                stream.extend_from_slice(bytes);
            }
        };
        for (what, place, bytes) in &steps {
            match what % 4 {
                0 => {
                    let position = read.len() as u64;
                    read.extend_from_slice(bytes);
                    ends.read(Segment::new(position, *bytes), now, &mut collect);
                }
                1 => ends.written(u64::from(*place), bytes, now, &mut collect),
                2 => {
                    now += Duration::from_micros(10 * u64::from(*place));
                    ends.settle(now, &mut collect);
                }
                // The writer's end of what was just read.
                _ => {
                    let from = read.len().saturating_sub(usize::from(*place));
                    let written = read[from..].to_vec();
                    ends.written(from as u64, &written, now, &mut collect);
                }
            }
        }
        ends.finish(&mut collect);
        assert_eq!(stream.len(), read.len());
        assert!(authority == End::Writer || stream == read);
    }
});
