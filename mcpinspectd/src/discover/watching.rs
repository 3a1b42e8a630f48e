//! How far each endpoint is shipped: asked of the kernel by what has become of its streams.

use mcpinspect_common::{End, EndpointKey, EndpointWatch};

use super::environment::Environment;
use super::stream::{Fate, Stream};
use super::tracker::Tracker;

impl<E: Environment> Tracker<E> {
    /// Sets how far a stream is shipped, by end.
    pub(super) fn watch(&mut self, key: EndpointKey, reader: u64, writer: u64) {
        let written_at = self.streams.get(&key).and_then(|stream| stream.written_at);
        let counted = u32::from(!self.is_ignored(key));
        if written_at == Some(key) {
            let watch = EndpointWatch {
                ship_limit: [reader, writer],
                counted,
                compare_only: self.is_compared(key),
            };
            self.environment.watch(key, watch);
            return;
        }
        // A socket reads one stream and writes the other: each endpoint serves both.
        let reverse = self.peers.get(&key).copied();
        let (own_writes, counts_writes) = reverse.map_or((0, 0), |reverse| {
            let counted = u32::from(!self.is_ignored(reverse));
            (self.limit(reverse, End::Writer), counted)
        });
        let counted = counted | counts_writes;
        let watch = EndpointWatch {
            ship_limit: [reader, own_writes],
            counted,
            compare_only: reverse.map_or(0, |reverse| self.is_compared(reverse)),
        };
        self.environment.watch(key, watch);
        if let Some(peer) = written_at {
            let watch = EndpointWatch {
                ship_limit: [self.limit(peer, End::Reader), writer],
                counted,
                compare_only: self.is_compared(key),
            };
            self.environment.watch(peer, watch);
        }
    }

    fn is_compared(&self, key: EndpointKey) -> u32 {
        u32::from(self.streams.get(&key).is_some_and(Stream::is_compared))
    }

    /// Whether nothing needs to be known of a stream.
    fn is_ignored(&self, key: EndpointKey) -> bool {
        self.streams
            .get(&key)
            .is_none_or(|stream| matches!(stream.fate, Fate::Ignored))
    }

    /// How far a stream is to be shipped by what has become of it.
    pub(super) fn limit(&self, key: EndpointKey, end: End) -> u64 {
        match self.streams.get(&key).map(|stream| &stream.fate) {
            None | Some(Fate::Ignored) => 0,
            Some(Fate::Sniffed(beginning)) if beginning.extended => self.settings.max_message,
            Some(Fate::Sniffed(_)) => self.settings.sniff_budget,
            Some(Fate::Carried(flow)) if flow.source == end || flow.ends.is_some() => u64::MAX,
            Some(Fate::Carried(flow)) if flow.reassembly.next() == 0 => self.settings.sniff_budget,
            Some(Fate::Carried(_)) => 0,
        }
    }
}
