//! A stream that is one direction of a session: its bytes in order, both ends compared.

use mcpinspect_common::End;
use mcpinspect_core::model::{BootTime, Direction, GapReason, Segment, StreamEvent};
use mcpinspect_core::wire::comparison::{EndComparison, Start};
use mcpinspect_core::wire::reassembly::Reassembly;

use super::arrivals::{Arrivals, Emit};
use super::sniff_buffer::Prefix;

/// Identifies a session in the tracker.
pub type SessionIndex = u64;

/// One direction of a session.
#[derive(Debug)]
pub struct Flow {
    session: SessionIndex,
    direction: Direction,
    reassembly: Reassembly,
    /// The end whose bytes are passed on: the reader's, unless the reader cannot be seen. What
    /// it sees is in the order of arrival, and the reader of what a server says is the
    /// client, which the server cannot touch.
    source: End,
    /// What the writer's end saw before the first byte was read, in case the reader never shows up.
    fallback: Prefix,
    /// When the bytes that have not come out yet arrived.
    arrivals: Arrivals,
    /// Compares both ends while the reader's is the source.
    comparison: Option<Box<EndComparison>>,
    /// Whether the ends may differ without anybody's fault.
    is_incomparable: bool,
    /// Whether the reader has seen the end of the stream.
    ended: bool,
    /// The counts when last checked.
    last_count: Counted,
    /// Since when the counts are unchanged.
    still_since: BootTime,
}

/// Bytes that the kernel counted at the two ends of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
}

impl Counted {
    /// What was counted at one end.
    pub fn at(self, end: End) -> u64 {
        match end {
            End::Reader => self.read,
            End::Writer => self.written,
        }
    }
}

impl Flow {
    /// One direction of a session; `fallback` is what the writer's end has seen so far.
    pub fn new(session: SessionIndex, direction: Direction, fallback: Prefix) -> Self {
        Self {
            session,
            direction,
            reassembly: Reassembly::new(0),
            source: End::Reader,
            fallback,
            arrivals: Arrivals::default(),
            comparison: None,
            is_incomparable: false,
            ended: false,
            last_count: Counted::default(),
            still_since: BootTime::default(),
        }
    }

    /// The session.
    pub fn session(&self) -> SessionIndex {
        self.session
    }

    /// The direction.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// The end whose bytes are passed on.
    pub fn source(&self) -> End {
        self.source
    }

    /// Whether a byte was passed on.
    pub fn has_started(&self) -> bool {
        self.position() > 0
    }

    /// Position of the next byte.
    pub fn position(&self) -> u64 {
        self.reassembly.next()
    }

    /// Bytes passed on.
    pub fn captured(&self) -> u64 {
        self.reassembly.captured()
    }

    /// Bytes declared lost.
    pub fn lost(&self) -> u64 {
        self.reassembly.lost()
    }

    /// Whether pieces wait for one before them.
    pub fn is_waiting(&self) -> bool {
        self.reassembly.is_waiting()
    }

    /// Whether one end waits for the other.
    pub fn is_comparison_waiting(&self) -> bool {
        self.comparison
            .as_ref()
            .is_some_and(|ends| ends.is_waiting())
    }

    /// The memory taken by what waits, in bytes.
    pub fn memory(&self) -> usize {
        let compared = self.comparison.as_ref().map_or(0, |ends| ends.memory());
        self.reassembly.memory() + self.fallback.memory() + self.arrivals.memory() + compared
    }

    /// When the oldest bytes arrived that have not come out, if there are any. For example, a request that was written but
    /// not seen being read: its server's answer shows that it was read.
    pub fn watermark(&self) -> Option<BootTime> {
        let unread = self.direction == Direction::ClientToServer
            && self.source == End::Reader
            && !self.has_started();
        let written = unread.then(|| self.fallback.first_time()).flatten();
        let arrived = self.arrivals.oldest();
        arrived.into_iter().chain(written).min()
    }

    /// How many bytes too many the writer's count has, according to the comparison.
    pub fn counted_twice(&self) -> u64 {
        self.comparison
            .as_ref()
            .map_or(0, |ends| u64::try_from(-ends.correction()).unwrap_or(0))
    }

    /// Whether what is written is compared with what is read.
    pub fn is_compared(&self) -> bool {
        self.comparison.is_some()
    }

    /// Whether the reader has seen the end of the stream.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Notes that the reader has seen the end. Returns false if that was known.
    pub fn end(&mut self) -> bool {
        !std::mem::replace(&mut self.ended, true)
    }

    /// Starts comparing both ends, which count from `start`.
    pub fn compare(&mut self, start: Start) {
        if self.is_incomparable {
            return;
        }
        let authority = match self.direction {
            Direction::ClientToServer => End::Writer,
            Direction::ServerToClient => End::Reader,
        };
        let mut ends = EndComparison::new(authority, start);
        for (position, bytes, time) in self.fallback.pieces() {
            // Nothing was read yet, so nothing comes out.
            ends.written(position, bytes, time, &mut |_| {});
        }
        self.comparison = Some(Box::new(ends));
    }

    /// Takes in a segment of the source.
    pub fn push(&mut self, segment: &Segment<'_>, now: BootTime, emit: &mut Emit<'_>) {
        if let Some(bytes) = segment.as_bytes() {
            self.arrivals
                .note(segment.position, bytes.len() as u64, now);
        }
        self.reassemble(now, emit, |reassembly, mut emit| {
            reassembly.push(segment, now, &mut emit);
        });
    }

    /// Gives up bytes that are overdue.
    pub fn settle(&mut self, now: BootTime, emit: &mut Emit<'_>) {
        self.reassemble(now, emit, |reassembly, mut emit| {
            reassembly.settle(now, &mut emit);
        });
    }

    /// Gives up all bytes before `position` that have not arrived, for `reason`.
    pub fn finish(&mut self, position: u64, reason: GapReason, now: BootTime, emit: &mut Emit<'_>) {
        self.reassemble(now, emit, |reassembly, mut emit| {
            reassembly.finish(position, reason, &mut emit);
        });
    }

    /// Puts segments of the source in order, and compares them with the writer's end if that is enabled.
    fn reassemble(
        &mut self,
        now: BootTime,
        emit: &mut Emit<'_>,
        act: impl FnOnce(&mut Reassembly, &mut dyn FnMut(Segment<'_>)),
    ) {
        let (comparison, arrivals) = (&mut self.comparison, &mut self.arrivals);
        act(&mut self.reassembly, &mut |segment| match comparison {
            Some(ends) => ends.read(segment, now, &mut |event| {
                arrivals.emit(event, now, emit);
            }),
            None => arrivals.emit(segment.into(), now, emit),
        });
    }

    /// Takes in bytes that were seen at the writer's end while the reader's is the source.
    pub fn written(&mut self, segment: &Segment<'_>, now: BootTime, emit: &mut Emit<'_>) {
        let (position, Some(bytes)) = (segment.position, segment.as_bytes()) else {
            return;
        };
        if !self.has_started() {
            self.fallback.push(position, bytes, now);
        }
        self.compare_ends(now, emit, |ends, emit| {
            ends.written(position, bytes, now, emit)
        });
    }

    /// Continues where one end has waited too long for the other.
    pub fn settle_comparison(&mut self, now: BootTime, emit: &mut Emit<'_>) {
        self.compare_ends(now, emit, |ends, emit| ends.settle(now, emit));
    }

    /// Continues without what one end still waits for.
    pub fn finish_comparison(&mut self, now: BootTime, emit: &mut Emit<'_>) {
        self.compare_ends(now, emit, EndComparison::finish);
    }

    fn compare_ends(
        &mut self,
        now: BootTime,
        emit: &mut Emit<'_>,
        act: impl FnOnce(&mut EndComparison, &mut dyn FnMut(StreamEvent<'_>)),
    ) {
        let arrivals = &mut self.arrivals;
        if let Some(ends) = &mut self.comparison {
            act(ends, &mut |event| arrivals.emit(event, now, emit));
        }
    }

    /// Releases what waits: bytes come out without having been compared, those in between that have not arrived
    /// are given up, and so is what was written if none of it was read yet.
    pub fn release(&mut self, now: BootTime, emit: &mut Emit<'_>) {
        self.reassemble(now, emit, |reassembly, mut emit| {
            reassembly.give_up(GapReason::RingFull, &mut emit);
        });
        self.compare_ends(now, emit, |ends, emit| ends.skip_all(now, emit));
        self.drop_fallback();
    }

    /// Stops comparing, permanently. What waits to be compared is released.
    pub fn stop_comparing(&mut self, now: BootTime, emit: &mut Emit<'_>) {
        self.finish_comparison(now, emit);
        self.comparison = None;
        self.is_incomparable = true;
    }

    /// Frees what was kept in case the reader never shows up, now that it has.
    pub fn drop_fallback(&mut self) {
        self.fallback = Prefix::default();
    }

    /// Makes the writer's end the source, because the reader cannot be seen, and stops comparing.
    /// Returns what was kept of the writer's end; `None` if it is the source already.
    pub fn switch_to_writer(&mut self, now: BootTime, emit: &mut Emit<'_>) -> Option<Prefix> {
        if self.source == End::Writer {
            return None;
        }
        self.source = End::Writer;
        // No more of what was read can be compared.
        self.finish_comparison(now, emit);
        self.comparison = None;
        Some(std::mem::take(&mut self.fallback))
    }

    /// Notes the current counts. Returns since when they are unchanged.
    pub fn still_since(&mut self, counted: Counted, now: BootTime) -> BootTime {
        if self.last_count != counted {
            self.last_count = counted;
            self.still_since = now;
        }
        self.still_since
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Content;

    use super::*;

    const NOW: BootTime = BootTime(0);

    /// Collects the bytes, with `.` for a lost one.
    fn collect(out: &mut Vec<u8>) -> impl FnMut(StreamEvent<'_>, BootTime) {
        |event, _| match event {
            StreamEvent::Segment(segment) => match segment.content {
                Content::Bytes(bytes) => out.extend_from_slice(&bytes),
                Content::Lost { length, .. } => {
                    let length = usize::try_from(length).unwrap_or(0);
                    out.extend(std::iter::repeat_n(b'.', length));
                }
            },
            StreamEvent::Difference { .. } => out.push(b'!'),
            StreamEvent::End => {}
        }
    }

    fn bytes(position: u64, bytes: &[u8]) -> Segment<'_> {
        Segment::new(position, bytes)
    }

    fn flow() -> Flow {
        Flow::new(0, Direction::ServerToClient, Prefix::default())
    }

    #[test]
    fn pieces_come_out_in_order_and_gaps_are_counted() {
        let (mut flow, mut out) = (flow(), Vec::new());
        flow.push(&bytes(3, b"def"), NOW, &mut collect(&mut out));
        assert!(flow.is_waiting() && !flow.has_started());
        flow.push(&bytes(0, b"abc"), NOW, &mut collect(&mut out));
        let lost = Segment::lost(6, 2, GapReason::PageNotResident);
        flow.push(&lost, NOW, &mut collect(&mut out));
        flow.finish(9, GapReason::RingFull, NOW, &mut collect(&mut out));
        assert_eq!(out, b"abcdef...");
        assert_eq!((flow.captured(), flow.lost(), flow.position()), (6, 3, 9));
    }

    #[test]
    fn what_was_written_replaces_a_reader_that_never_shows() {
        let (mut flow, mut out) = (flow(), Vec::new());
        flow.written(&bytes(0, b"ab"), BootTime(1), &mut collect(&mut out));
        flow.written(&bytes(2, b"cd"), BootTime(2), &mut collect(&mut out));
        let kept = flow
            .switch_to_writer(NOW, &mut collect(&mut out))
            .expect("kept");
        let pieces: Vec<_> = kept.pieces().collect();
        assert_eq!(
            pieces,
            [(0, &b"ab"[..], BootTime(1)), (2, b"cd", BootTime(2))]
        );
        assert_eq!(flow.source(), End::Writer);
        assert!(flow.switch_to_writer(NOW, &mut collect(&mut out)).is_none());
    }

    #[test]
    fn a_switch_to_the_writer_ends_the_comparison_and_loses_nothing() {
        let (mut flow, mut out) = (flow(), Vec::new());
        flow.compare(Start::Together);
        assert!(flow.is_compared());
        flow.written(&bytes(0, b"written "), NOW, &mut collect(&mut out));
        flow.push(&bytes(0, b"written read"), NOW, &mut collect(&mut out));
        flow.switch_to_writer(NOW, &mut collect(&mut out));
        assert_eq!(out, b"written read");
        assert!(!flow.is_compared());
    }

    #[test]
    fn differences_between_the_ends_come_out() {
        let (mut flow, mut out) = (flow(), Vec::new());
        flow.compare(Start::Together);
        flow.written(
            &bytes(0, b"a harmless result\n"),
            NOW,
            &mut collect(&mut out),
        );
        flow.push(
            &bytes(0, b"a poisoned result\n"),
            NOW,
            &mut collect(&mut out),
        );
        assert!(flow.is_comparison_waiting());
        flow.finish_comparison(NOW, &mut collect(&mut out));
        assert_eq!(out, b"a poisoned result\n!");
    }

    #[test]
    fn counts_are_still_from_the_first_look_at_which_they_are_the_same() {
        let mut flow = flow();
        let counted = |written, read| Counted { written, read };
        assert_eq!(flow.still_since(counted(1, 0), BootTime(10)), BootTime(10));
        assert_eq!(flow.still_since(counted(1, 0), BootTime(20)), BootTime(10));
        assert_eq!(flow.still_since(counted(1, 1), BootTime(30)), BootTime(30));
    }
}
