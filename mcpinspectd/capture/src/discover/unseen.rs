//! Bytes that move past the probes: a stream's writer takes over if its reader is not seen.

use std::time::Duration;

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::model::{BlindMechanism, BootTime};

use super::blind_spots;
use super::counts::{correct_double_count, counted};
use super::delivery::use_writer;
use super::environment::Readers;
use super::step::Step;
use crate::capture::Origin;

/// Time between two checks of who could read what waits in a stream.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// Notes that a process moved bytes by `mechanism`, unseen: at an end of a stream, or at one that
/// the mechanism does not tell.
pub fn moved(
    step: &mut Step<'_>,
    location: Option<(EndpointKey, End)>,
    mechanism: BlindMechanism,
    origin: Origin,
) {
    let Some((endpoint, end)) = location else {
        // Only what is missing will show which stream it concerns.
        step.processes.blind.add(origin.tgid, mechanism);
        return blind_spots::report_processes(step, origin.time);
    };
    let Some(key) = step.traffic.streams.peers().stream_at(endpoint, end) else {
        return;
    };
    if mechanism == BlindMechanism::Urgent {
        return beside_the_stream(step, key, origin);
    }
    if end == End::Reader {
        use_writer(step, key, origin.time);
    }
    let Some(flow) = step.traffic.streams.flow(key) else {
        return;
    };
    // What was written before the stream was known can only be seen at the reader's end.
    let written = counted(&step.traffic.streams, step.machine, key).written;
    let covered = flow.source() != end && flow.position() >= written;
    let session = flow.session();
    blind_spots::report(step, session, mechanism, origin, covered);
}

/// An urgent byte was written. Whether it is among those that are read, and where, depends on options of its
/// reader: from here on the two ends may legitimately differ.
fn beside_the_stream(step: &mut Step<'_>, key: EndpointKey, origin: Origin) {
    step.traffic
        .pass_on(&mut step.output, key, origin.time, |flow, emit| {
            flow.stop_comparing(origin.time, emit);
        });
    let Some(session) = step.traffic.streams.flow(key).map(|flow| flow.session()) else {
        return;
    };
    step.ship(key);
    blind_spots::report(step, session, BlindMechanism::Urgent, origin, false);
}

/// Checks bytes that were written but not seen being read. If they no longer wait in the stream, a
/// process reads them in a way that the probes do not see: the writer's end is used instead. The counts
/// of the stream have been unchanged since `still_since`.
///
/// Returns `false` if a survey has to find out first.
pub fn look_for_reader(
    step: &mut Step<'_>,
    key: EndpointKey,
    missing: u64,
    still_since: BootTime,
    now: BootTime,
) -> bool {
    let surveyed = step.machine.surveyed();
    let Some(stream) = step.traffic.streams.get_mut(key) else {
        return true;
    };
    let looked = stream.reader_sought;
    let found = (surveyed > looked.map_or(still_since, |looked| looked.max(still_since)))
        .then(|| step.machine.readers(key))
        .flatten();
    let Some(Readers { pids, unread }) = found else {
        return looked.is_some_and(|looked| now.since(looked) < LOOK_AGAIN);
    };
    stream.reader_sought = Some(now);
    for pid in &pids {
        step.machine.mark(*pid);
    }
    let (Some(reader), Some(unread)) = (pids.first(), unread) else {
        return true;
    };
    if unread >= missing
        || correct_double_count(
            &mut step.traffic.streams,
            step.machine,
            key,
            missing - unread,
        )
    {
        return true;
    }
    let Some(session) = step.traffic.streams.flow(key).map(|flow| flow.session()) else {
        return true;
    };
    if use_writer(step, key, now) {
        let origin = Origin {
            tgid: *reader,
            time: now,
        };
        blind_spots::report(step, session, BlindMechanism::UnseenReader, origin, true);
    }
    true
}
