//! Looking at a stream's beginning until it is clear what it is.

use mcpinspect_common::{End, EndpointKey};

use super::carrying::OwnedPiece;
use super::environment::Environment;
use super::stream::{Fate, Stream};
use super::tracker::Tracker;
use crate::capture::Origin;
use crate::mcp::sniff::Evidence;
use crate::model::InputSink;

impl<E: Environment> Tracker<E> {
    pub(super) fn data(
        &mut self,
        key: EndpointKey,
        end: End,
        position: u64,
        bytes: &[u8],
        origin: Origin,
        feed: &mut impl InputSink,
    ) {
        let stream = self.ensure(key);
        stream.actors[end as usize] = Some(origin.tgid);
        match &mut stream.fate {
            Fate::Ignored => {}
            Fate::Sniffed(beginning) => {
                let before = beginning.memory();
                let judge = beginning.keep(end, position, bytes, origin.time);
                let kept = beginning.memory() - before;
                if judge {
                    beginning.judge();
                }
                self.beginnings += kept;
                if judge {
                    self.decide(key, feed);
                }
                self.bound_beginnings();
            }
            Fate::Carried(flow) if flow.source == end => {
                self.deliver(key, position, bytes, origin, feed);
            }
            Fate::Carried(flow) if end == End::Writer => {
                if flow.reassembly.next() == 0 {
                    flow.fallback.keep(position, bytes, origin.time);
                }
                self.ends(key, origin.time, feed, |ends, mut say| {
                    ends.written(position, bytes, origin.time, &mut say);
                });
            }
            Fate::Carried(_) => {}
        }
    }

    pub(super) fn missing(
        &mut self,
        key: EndpointKey,
        end: End,
        position: u64,
        length: u64,
        origin: Origin,
        feed: &mut impl InputSink,
    ) {
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get(&key)
        else {
            return;
        };
        self.open_at_last(flow.session, origin.time, feed);
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        if flow.source == end {
            let mut pieces = Vec::new();
            flow.reassembly
                .missing(position, length, origin.time, &mut |piece| {
                    pieces.push(OwnedPiece::from(piece));
                });
            self.hand_on(key, pieces, "page_not_resident", origin.time, feed);
        }
    }

    /// Acts on what a stream's beginning shows.
    fn decide(&mut self, key: EndpointKey, feed: &mut impl InputSink) {
        let Some(Stream {
            fate: Fate::Sniffed(beginning),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        match beginning.evidence {
            Evidence::Mcp { role } => self.promote(key, role, feed),
            Evidence::NotMcp { .. } => {
                if !self.is_output_of_open_input(key) {
                    self.ignore(key);
                }
            }
            Evidence::Undecided {
                json_rpc_like: true,
            } => {
                if !beginning.extended {
                    beginning.extended = true;
                    let limit = self.settings.max_message;
                    self.watch(key, limit, limit);
                }
            }
            Evidence::Undecided {
                json_rpc_like: false,
            } => {
                let spent = beginning.length() as u64 >= self.settings.sniff_budget;
                if spent && !self.is_output_of_open_input(key) {
                    self.ignore(key);
                }
            }
        }
    }

    /// Whether `key` is the output of a program whose input may still turn out to be MCP, or has.
    fn is_output_of_open_input(&self, key: EndpointKey) -> bool {
        self.programs
            .writers(key)
            .filter_map(|program| program.input)
            .any(|input| {
                input != key
                    && self
                        .streams
                        .get(&input)
                        .is_some_and(|stream| match &stream.fate {
                            Fate::Sniffed(beginning) => {
                                !matches!(beginning.evidence, Evidence::NotMcp { .. })
                            }
                            Fate::Carried(_) => true,
                            Fate::Ignored => false,
                        })
            })
    }

    /// Stops watching a stream. It stays known, so that it is not taken for a new one.
    pub(super) fn ignore(&mut self, key: EndpointKey) {
        tracing::trace!(?key, "not watched");
        if let Some(stream) = self.streams.get_mut(&key) {
            if let Fate::Sniffed(beginning) = &stream.fate {
                self.beginnings -= beginning.memory();
            }
            stream.fate = Fate::Ignored;
        }
        self.watch(key, 0, 0);
        // What was only kept because of it.
        let outputs: Vec<_> = self
            .programs
            .readers(key)
            .filter_map(|program| program.output)
            .collect();
        for output in outputs {
            let is_other = self
                .streams
                .get(&output)
                .is_some_and(|stream| matches!(stream.evidence(), Some(Evidence::NotMcp { .. })));
            if is_other && output != key && !self.is_output_of_open_input(output) {
                self.ignore(output);
            }
        }
    }

    /// Gives up the longest beginning while too much is kept.
    fn bound_beginnings(&mut self) {
        while self.beginnings > self.settings.beginnings_max {
            let longest = self
                .streams
                .iter()
                .filter_map(|(key, stream)| match &stream.fate {
                    Fate::Sniffed(beginning) => Some((beginning.memory(), *key)),
                    Fate::Carried(_) | Fate::Ignored => None,
                })
                .max();
            let Some((bytes, key)) = longest.filter(|(bytes, _)| *bytes > 0) else {
                return;
            };
            tracing::debug!(
                ?key,
                bytes,
                "too much kept of undecided streams; this one is given up"
            );
            self.ignore(key);
        }
    }
}
