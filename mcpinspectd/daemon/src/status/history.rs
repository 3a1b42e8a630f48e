//! The latest events, kept in memory for readers: a signal on the bus carries an id, and
//! this is where the id leads.
//!
//! Records are many small pieces of memory. Kept for a day between pieces that are used for a
//! moment, each would pin a page of the heap of its own, several times its size. So
//! their text is copied into a few large blocks, and turned back into a record on request. The blocks
//! are allocated at startup: what the daemon will need after a day, it has from the beginning.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use mcpinspect_core::model::{Pid, ServerId, SessionId, Severity, Timestamp};
use mcpinspect_engine::event::EventKind;
use mcpinspect_engine::event::{Envelope, EventId, Presence};
use smallvec::SmallVec;

/// Bytes of a block: enough for a mapping of its own, which goes back to the system as a whole.
const BLOCK: usize = 128 << 10;

/// A ring of records, bounded in number and in bytes.
#[derive(Debug)]
pub struct History {
    blocks: VecDeque<Block>,
    /// Blocks waiting for their turn.
    spare: Vec<String>,
    records: usize,
    bytes: usize,
    max_records: usize,
    max_bytes: usize,
}

/// Consecutive records.
#[derive(Debug)]
struct Block {
    text: String,
    entries: VecDeque<Entry>,
}

/// A record whose text is in the block.
#[derive(Debug)]
struct Entry {
    size: usize,
    kind: EventKind,
    time: Timestamp,
    severity: Option<Severity>,
    pid: Option<Pid>,
    uid: Option<u32>,
    presence: Option<Presence>,
    is_news: bool,
    truncated: bool,
    id: Range<u32>,
    session: Option<Range<u32>>,
    server: Option<Range<u32>>,
    title: Range<u32>,
    sentence: Range<u32>,
    json: Range<u32>,
    details: SmallVec<[(&'static str, Range<u32>); 4]>,
}

impl Block {
    fn new(text: String) -> Self {
        Self {
            text,
            entries: VecDeque::new(),
        }
    }

    fn has_room(&self, size: usize) -> bool {
        self.text.capacity() - self.text.len() >= size
    }

    fn push(&mut self, record: &Envelope) {
        let mut put = |text: &str| {
            let start = self.text.len() as u32;
            self.text.push_str(text);
            start..self.text.len() as u32
        };
        let entry = Entry {
            size: record.size(),
            kind: record.kind,
            time: record.time,
            severity: record.severity,
            pid: record.pid,
            uid: record.uid,
            presence: record.presence,
            is_news: record.is_news,
            truncated: record.truncated,
            id: put(record.id.as_str()),
            session: record.session.as_ref().map(|session| put(&session.0)),
            server: record.server.as_ref().map(|server| put(&server.0)),
            title: put(&record.title),
            sentence: put(&record.sentence),
            json: put(&record.json),
            details: record
                .details
                .iter()
                .map(|(name, value)| (*name, put(value)))
                .collect(),
        };
        self.entries.push_back(entry);
    }

    fn text(&self, range: &Range<u32>) -> &str {
        &self.text[range.start as usize..range.end as usize]
    }

    fn envelope(&self, entry: &Entry) -> Envelope {
        let text = |range: &Range<u32>| self.text(range).to_owned();
        Envelope {
            id: EventId::from_text(self.text(&entry.id)),
            kind: entry.kind,
            time: entry.time,
            severity: entry.severity,
            session: entry
                .session
                .as_ref()
                .map(|at| SessionId(self.text(at).into())),
            server: entry
                .server
                .as_ref()
                .map(|at| ServerId(self.text(at).into())),
            pid: entry.pid,
            uid: entry.uid,
            presence: entry.presence,
            is_news: entry.is_news,
            title: text(&entry.title),
            sentence: text(&entry.sentence),
            json: text(&entry.json),
            truncated: entry.truncated,
            details: entry
                .details
                .iter()
                .map(|(name, value)| (*name, text(value)))
                .collect(),
        }
    }
}

impl History {
    /// Keeps the latest `max_records`, and no more than `max_bytes` of them.
    pub fn new(max_records: usize, max_bytes: usize) -> Self {
        Self {
            blocks: VecDeque::new(),
            spare: Vec::new(),
            records: 0,
            bytes: 0,
            max_records,
            max_bytes,
        }
    }

    /// Allocates all memory that it will need, and writes to it so that it is more than address space.
    pub fn taken_at_once(mut self) -> Self {
        let blocks = self.max_bytes / BLOCK;
        self.spare = vec![" ".repeat(BLOCK); blocks];
        self.spare.iter_mut().for_each(String::clear);
        self
    }

    /// A block with room for a record of this size, and for more if that is small.
    fn block(&mut self, size: usize) -> Block {
        let spare = self.spare.pop_if(|spare| spare.capacity() >= size);
        Block::new(spare.unwrap_or_else(|| String::with_capacity(BLOCK.max(size))))
    }

    /// Adds the latest record; the oldest make room for it.
    pub fn push(&mut self, record: &Envelope) {
        let size = record.size();
        let latest = match self.blocks.pop_back() {
            Some(block) if block.has_room(size) => block,
            full => {
                self.blocks.extend(full);
                self.block(size)
            }
        };
        self.blocks.push_back(latest);
        if let Some(latest) = self.blocks.back_mut() {
            latest.push(record);
        }
        self.records += 1;
        self.bytes += size;
        while self.records > self.max_records || self.bytes > self.max_bytes {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(block) = self.blocks.front_mut() else {
            return;
        };
        if let Some(oldest) = block.entries.pop_front() {
            self.records -= 1;
            self.bytes -= oldest.size;
        }
        if block.entries.is_empty()
            && let Some(Block { mut text, .. }) = self.blocks.pop_front()
            && text.capacity() == BLOCK
        {
            text.clear();
            self.spare.push(text);
        }
    }

    /// Everything kept, oldest first.
    fn all(&self) -> impl DoubleEndedIterator<Item = (&Block, &Entry)> {
        let blocks = self.blocks.iter();
        blocks.flat_map(|block| block.entries.iter().map(move |entry| (block, entry)))
    }

    /// The record with this id, while it is kept.
    pub fn get(&self, id: &str) -> Option<Arc<Envelope>> {
        self.all()
            .rev()
            .find(|(block, entry)| block.text(&entry.id) == id)
            .map(|(block, entry)| Arc::new(block.envelope(entry)))
    }

    /// Up to `limit` of the latest records after the one named `after` that `keep` accepts,
    /// oldest first. An id that is not (or no longer) known starts at the oldest that is.
    pub fn after(
        &self,
        after: &str,
        limit: usize,
        keep: impl Fn(&Envelope) -> bool,
    ) -> Vec<Arc<Envelope>> {
        let mut found: Vec<_> = self
            .all()
            .rev()
            .take_while(|(block, entry)| block.text(&entry.id) != after)
            .map(|(block, entry)| block.envelope(entry))
            .filter(|record| keep(record))
            .take(limit)
            .map(Arc::new)
            .collect();
        found.reverse();
        found
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Timestamp;
    use mcpinspect_engine::event::envelope::EventId;
    use mcpinspect_engine::event::testing::detected;

    use super::*;

    fn record(number: u64) -> Arc<Envelope> {
        let id = EventId::new(Timestamp(0), number);
        Arc::new(Envelope::new(&detected("files"), id, None, 4096).unwrap())
    }

    fn numbers(records: &[Arc<Envelope>]) -> Vec<&str> {
        records.iter().map(|record| record.id.as_str()).collect()
    }

    #[test]
    fn the_oldest_make_room_by_number() {
        let mut history = History::new(2, usize::MAX);
        (1..=3).for_each(|number| history.push(&record(number)));
        assert!(history.get("0-1").is_none());
        assert_eq!(numbers(&history.after("", 9, |_| true)), ["0-2", "0-3"]);
        assert_eq!(numbers(&history.after("0-2", 9, |_| true)), ["0-3"]);
        assert_eq!(
            numbers(&history.after("0-3", 9, |_| true)),
            Vec::<&str>::new()
        );
        assert_eq!(numbers(&history.after("0-1", 1, |_| true)), ["0-3"]);
        assert_eq!(numbers(&history.after("", 0, |_| true)), Vec::<&str>::new());
        assert_eq!(
            numbers(&history.after("", 9, |r| r.id.as_str() != "0-3")),
            ["0-2"]
        );
    }

    #[test]
    fn the_oldest_make_room_by_size() {
        let size = record(1).size();
        let mut history = History::new(100, 2 * size);
        (1..=3).for_each(|number| history.push(&record(number)));
        assert_eq!(numbers(&history.after("", 9, |_| true)), ["0-2", "0-3"]);
        let mut none = History::new(100, size - 1);
        none.push(&record(1));
        assert!(none.get("0-1").is_none());
        assert_eq!(none.bytes, 0);
    }

    #[test]
    fn records_are_what_they_were() {
        let mut history = History::new(4096, 1 << 20);
        let records: Vec<_> = (1..=300).map(record).collect();
        records.iter().for_each(|record| history.push(record));
        assert!(history.blocks.len() > 1, "one block is no test");
        assert_eq!(history.after("", 300, |_| true), records);
        assert_eq!(history.get("0-7").as_ref(), Some(&records[6]));
    }

    #[test]
    fn blocks_go_with_their_records() {
        let mut history = History::new(4096, 2 * BLOCK);
        (1..=2000).for_each(|number| history.push(&record(number)));
        assert!(history.blocks.len() <= 4, "{} blocks", history.blocks.len());
        let mut history = History::new(4096, 2 * BLOCK).taken_at_once();
        let taken = history.spare.len();
        (1..=2000).for_each(|number| history.push(&record(number)));
        let blocks = history.blocks.len() + history.spare.len();
        assert!((taken..=taken + 2).contains(&blocks), "{blocks} blocks");
        let mut one = History::new(4096, 8 * BLOCK);
        let mut large = (*record(1)).clone();
        large.json = "x".repeat(3 * BLOCK);
        one.push(&large);
        one.push(&record(2));
        assert_eq!(*one.get("0-1").unwrap(), large);
        assert!(one.get("0-2").is_some());
    }
}
