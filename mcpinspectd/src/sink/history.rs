//! The latest events, kept in memory for those who may ask: a signal on the bus carries an id, and
//! this is where the id leads to.

use std::collections::VecDeque;
use std::sync::Arc;

use super::record::Record;

/// A ring of records, bounded in number and in bytes.
#[derive(Debug)]
pub struct History {
    records: VecDeque<Arc<Record>>,
    bytes: usize,
    max_records: usize,
    max_bytes: usize,
}

impl History {
    /// Keeps the latest `max_records`, and no more than `max_bytes` of them.
    pub fn new(max_records: usize, max_bytes: usize) -> Self {
        Self {
            records: VecDeque::new(),
            bytes: 0,
            max_records,
            max_bytes,
        }
    }

    /// Adds the latest record; the oldest make room for it.
    pub fn push(&mut self, record: Arc<Record>) {
        self.bytes += record.size();
        self.records.push_back(record);
        while self.records.len() > self.max_records || self.bytes > self.max_bytes {
            let Some(oldest) = self.records.pop_front() else {
                break;
            };
            self.bytes -= oldest.size();
        }
    }

    /// The record with this id, while it is kept.
    pub fn get(&self, id: &str) -> Option<Arc<Record>> {
        self.records
            .iter()
            .rev()
            .find(|record| record.id.as_str() == id)
            .cloned()
    }

    /// Up to `limit` of the latest records after the one named `after` that `keep` lets through,
    /// oldest first. An id that is not (or no longer) known starts at the oldest that is.
    pub fn after(
        &self,
        after: &str,
        limit: usize,
        keep: impl Fn(&Record) -> bool,
    ) -> Vec<Arc<Record>> {
        let start = self
            .records
            .iter()
            .rposition(|record| record.id.as_str() == after);
        let mut found: Vec<_> = self
            .records
            .iter()
            .skip(start.map_or(0, |at| at + 1))
            .rev()
            .filter(|record| keep(record))
            .take(limit)
            .cloned()
            .collect();
        found.reverse();
        found
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing test may panic")]
    use super::*;
    use crate::model::Timestamp;
    use crate::sink::record::EventId;
    use crate::sink::testing::detected;

    fn record(number: u64) -> Arc<Record> {
        let id = EventId::new(Timestamp(0), number);
        Arc::new(Record::new(&detected("files"), id, None, 4096).unwrap())
    }

    fn numbers(records: &[Arc<Record>]) -> Vec<&str> {
        records.iter().map(|record| record.id.as_str()).collect()
    }

    #[test]
    fn the_oldest_make_room_by_number() {
        let mut history = History::new(2, usize::MAX);
        (1..=3).for_each(|number| history.push(record(number)));
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
        (1..=3).for_each(|number| history.push(record(number)));
        assert_eq!(numbers(&history.after("", 9, |_| true)), ["0-2", "0-3"]);
        let mut none = History::new(100, size - 1);
        none.push(record(1));
        assert!(none.get("0-1").is_none());
        assert_eq!(none.bytes, 0);
    }
}
