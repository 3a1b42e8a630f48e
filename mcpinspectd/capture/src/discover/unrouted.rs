//! Bytes that came before it was known which stream they belong to.
//!
//! What is written to a socket is read at its peer, and the peer is reported when the program that
//! holds it starts. A client that writes at once may be faster than that record, so its first bytes
//! are kept until the record arrives.

use std::collections::VecDeque;

use super::captured::Captured;

/// Most bytes kept; the oldest go first.
const BYTES_MAX: usize = 1 << 20;
/// Most segments kept.
const SEGMENTS_MAX: usize = 4096;

/// The segments, in order of arrival. `bytes` is always the sum of their lengths.
#[derive(Debug, Default)]
pub struct UnroutedData {
    segments: VecDeque<Captured<'static>>,
    bytes: usize,
}

impl UnroutedData {
    /// Keeps a segment, and drops the oldest if that is too much.
    pub fn keep(&mut self, captured: Captured<'static>) {
        self.bytes += captured.segment.content.memory();
        self.segments.push_back(captured);
        while self.bytes > BYTES_MAX || self.segments.len() > SEGMENTS_MAX {
            let Some(oldest) = self.segments.pop_front() else {
                return;
            };
            self.bytes -= oldest.segment.content.memory();
        }
    }

    /// Takes all segments out.
    pub fn take(&mut self) -> VecDeque<Captured<'static>> {
        self.bytes = 0;
        std::mem::take(&mut self.segments)
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_common::{End, EndpointKey};
    use mcpinspect_core::model::{BootTime, Segment};

    use super::*;
    use crate::capture::Origin;

    fn captured(position: u64, length: usize) -> Captured<'static> {
        Captured {
            key: EndpointKey::default(),
            end: End::Writer,
            segment: Segment::new(position, vec![b'x'; length]),
            origin: Origin {
                tgid: 1,
                time: BootTime(2),
            },
        }
    }

    fn positions(data: &mut UnroutedData) -> Vec<u64> {
        let taken = data.take().into_iter();
        taken.map(|captured| captured.segment.position).collect()
    }

    #[test]
    fn the_oldest_segments_are_dropped_above_either_bound() {
        let mut data = UnroutedData::default();
        for index in 0..10 {
            data.keep(captured(index, BYTES_MAX / 4));
        }
        assert_eq!(data.bytes, BYTES_MAX);
        assert_eq!(positions(&mut data), [6, 7, 8, 9]);
        assert_eq!(data.bytes, 0);
        for index in 0..SEGMENTS_MAX as u64 + 5 {
            data.keep(captured(index, 1));
        }
        assert_eq!(data.bytes, SEGMENTS_MAX);
        assert_eq!(positions(&mut data).first(), Some(&5));
    }
}
