//! Bytes that move in a way that the probes do not see.

use mcpinspect_common::{End, EndpointKey, Operation};

use super::environment::Environment;
use super::stream::{Fate, SessionIndex, Stream};
use super::tracker::Tracker;
use crate::capture::Origin;
use crate::model::InputSink;
use crate::model::{Input, Pid};

/// Processes with a hidden way of moving bytes that are remembered.
const BLIND_MAX: usize = 4096;

impl<E: Environment> Tracker<E> {
    pub(super) fn blind_spot(
        &mut self,
        stream: Option<(EndpointKey, End)>,
        operation: Operation,
        origin: Origin,
        feed: &mut impl InputSink,
    ) {
        let Some((key, end)) = stream else {
            // Which stream it concerns shows only by what is missing.
            if self.blind.len() == BLIND_MAX {
                self.blind.clear();
            }
            self.blind.insert(origin.tgid, operation);
            return self.tell_blind_processes(origin.time, feed);
        };
        let Some(key) = self.stream_of(key, end) else {
            return;
        };
        if end == End::Reader {
            self.use_writer(key, origin.time, feed);
        }
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get(&key)
        else {
            return;
        };
        // What was written before the stream was known is to be had at the reader's end alone.
        let covered = flow.source != end && flow.reassembly.next() >= self.counted(key).0;
        self.tell_blind_spot(flow.session, operation.as_str(), origin, covered, feed);
    }

    /// Tells of the sessions whose parties move bytes in a way that hides them.
    pub(super) fn tell_blind_processes(&self, time: u64, feed: &mut impl InputSink) {
        for (index, session) in &self.sessions {
            for tgid in [session.server, session.client].into_iter().flatten() {
                if let Some(operation) = self.blind.get(&tgid) {
                    let origin = Origin { tgid, time };
                    // It does not tell the stream, so nothing vouches for the other end.
                    self.tell_blind_spot(*index, operation.as_str(), origin, false, feed);
                }
            }
        }
    }

    pub(super) fn tell_blind_spot(
        &self,
        index: SessionIndex,
        mechanism: &'static str,
        origin: Origin,
        covered_by_other_end: bool,
        feed: &mut impl InputSink,
    ) {
        if let Some(session) = self.sessions.get(&index).filter(|session| session.opened) {
            feed.input(Input::BlindSpot {
                session: &session.id,
                mechanism,
                pid: Pid(origin.tgid),
                covered_by_other_end,
                time: self.clock.at(origin.time),
            });
        }
    }
}
