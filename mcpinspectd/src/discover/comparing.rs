//! The two ends of a carried stream side by side: see [`crate::wire::comparison`].

use mcpinspect_common::{End, EndpointKey};

use super::carrying::input_of;
use super::environment::Environment;
use super::stream::{Fate, Stream};
use super::tracker::Tracker;
use crate::model::Direction;
use crate::model::InputSink;
use crate::wire::comparison::{Compared, EndComparison};

impl<E: Environment> Tracker<E> {
    /// Begins to compare the ends of a stream that has just become part of a session, with what was
    /// kept of the writer's.
    pub(super) fn compare_ends_of(&mut self, key: EndpointKey) {
        if !self.settings.compare_ends {
            return;
        }
        let Some(stream) = self.streams.get_mut(&key) else {
            return;
        };
        let unread = stream
            .written_at
            .and_then(|endpoint| self.environment.counters(endpoint))
            .map_or(0, |counters| counters.unread);
        // A call that was under way when the stream became known may have been counted at one end
        // and not at the other.
        let aligned = !stream.joined && unread == 0;
        let Fate::Carried(flow) = &mut stream.fate else {
            return;
        };
        let authority = match flow.direction {
            Direction::ClientToServer => End::Writer,
            Direction::ServerToClient => End::Reader,
        };
        let mut ends = EndComparison::new(authority, unread, aligned);
        for (position, bytes, time) in flow.fallback.pieces() {
            // Nothing was read yet, so there is nothing to say.
            ends.written(position, bytes, time, &mut |_| {});
        }
        flow.ends = Some(Box::new(ends));
    }

    /// Does something with the ends of a stream, and tells the engine what comes of it.
    pub(super) fn ends(
        &mut self,
        key: EndpointKey,
        now: u64,
        feed: &mut impl InputSink,
        act: impl FnOnce(&mut EndComparison, &mut dyn FnMut(Compared<'_>)),
    ) {
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        let (Some(ends), Some(session)) = (&mut flow.ends, self.sessions.get(&flow.session)) else {
            return;
        };
        let time = self.clock.at(now);
        let direction = flow.direction;
        act(ends, &mut |said| {
            feed.input(input_of(&session.id, direction, said, "ring_full", time));
        });
    }

    /// Goes on where one end has waited for the other for too long.
    pub(super) fn settle_ends(&mut self, now: u64, feed: &mut impl InputSink) {
        let waiting: Vec<_> = self
            .streams
            .iter()
            .filter(|(_, stream)| {
                matches!(&stream.fate, Fate::Carried(flow) if flow.ends.as_ref().is_some_and(|ends| ends.is_waiting()))
            })
            .map(|(key, _)| *key)
            .collect();
        for key in waiting {
            self.ends(key, now, feed, |ends, mut say| ends.settle(now, &mut say));
        }
    }
}
