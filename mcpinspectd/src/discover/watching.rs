//! How far each endpoint is shipped: asked of the kernel by what has become of its streams.

use mcpinspect_common::{End, EndpointKey, Watch};

use super::environment::Environment;
use super::stream::Fate;
use super::tracker::Tracker;

impl<E: Environment> Tracker<E> {
    /// Sets how far a stream is shipped, by end.
    pub(super) fn watch(&mut self, key: EndpointKey, reader: u64, writer: u64) {
        let written_at = self.streams.get(&key).and_then(|stream| stream.written_at);
        let counted = u64::from(!self.is_ignored(key));
        if written_at == Some(key) {
            let limit = [reader, writer];
            self.environment.watch(key, Watch { limit, counted });
            return;
        }
        // A socket reads one stream and writes the other: each endpoint serves both.
        let reverse = self.peers.get(&key).copied();
        let (own_writes, counts_writes) = reverse.map_or((0, 0), |reverse| {
            let counted = u64::from(!self.is_ignored(reverse));
            (self.limit(reverse, End::Writer), counted)
        });
        let counted = counted | counts_writes;
        let limit = [reader, own_writes];
        self.environment.watch(key, Watch { limit, counted });
        if let Some(peer) = written_at {
            let limit = [self.limit(peer, End::Reader), writer];
            self.environment.watch(peer, Watch { limit, counted });
        }
    }

    /// Whether nothing needs to be known of a stream.
    fn is_ignored(&self, key: EndpointKey) -> bool {
        self.streams
            .get(&key)
            .is_none_or(|stream| matches!(stream.fate, Fate::Ignored))
    }

    /// How far a stream is to be shipped by what has become of it.
    fn limit(&self, key: EndpointKey, end: End) -> u64 {
        match self.streams.get(&key).map(|stream| &stream.fate) {
            None | Some(Fate::Ignored) => 0,
            Some(Fate::Sniffed(beginning)) if beginning.extended => self.settings.max_message,
            Some(Fate::Sniffed(_)) => self.settings.sniff_budget,
            Some(Fate::Carried(flow)) if flow.source == end => u64::MAX,
            Some(Fate::Carried(flow)) if flow.reassembly.next() == 0 => self.settings.sniff_budget,
            Some(Fate::Carried(_)) => 0,
        }
    }
}
