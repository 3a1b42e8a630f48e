//! Writes that are not on disk: those waiting for their turn, and those that failed.
//!
//! A failing disk must not stop the daemon. Writes are kept, in order, and retried; pins are
//! in memory meanwhile. Their size is bounded: above a number of bytes the oldest definitions give up
//! their texts and are kept as hashes, above a number of writes the oldest are given up, and both
//! are counted.

use std::collections::VecDeque;
use std::sync::Arc;

use mcpinspect_core::model::{DefinitionHash, Timestamp};
use mcpinspect_judge::registry::{
    ItemKey, Owner, ServerOf, StorageError, StorageHealth, StoredItem, Write,
};

/// Most failed writes to keep.
const MAX_UNSAVED: usize = 4096;

/// Most bytes that they occupy.
const MAX_UNSAVED_BYTES: usize = 16 << 20;

/// Nanoseconds between two attempts on a failing disk.
pub(super) const RETRY_AFTER: u64 = 5_000_000_000;

/// Writes in order, and the state of the disk.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    writes: VecDeque<Write>,
    /// Bytes that they occupy.
    bytes: usize,
    /// When and why the last attempt failed.
    failed: Option<(Timestamp, StorageError)>,
    lost: u64,
    texts_lost: u64,
}

impl Backlog {
    pub(super) fn extend(&mut self, writes: Vec<Write>) {
        self.bytes += writes.iter().map(Write::size).sum::<usize>();
        self.writes.extend(writes);
    }

    /// Drops the first `count` writes.
    fn drain(&mut self, count: usize) {
        let size: usize = self.writes.drain(..count).map(|write| write.size()).sum();
        self.bytes = self.bytes.saturating_sub(size);
    }

    /// While the disk fails: gives up what exceeds the limits. Returns how many writes that was.
    pub(super) fn give_up_excess(&mut self) -> usize {
        if !self.has_failed() {
            return 0;
        }
        if self.bytes > MAX_UNSAVED_BYTES {
            let mut excess = self.bytes - MAX_UNSAVED_BYTES;
            for write in &mut self.writes {
                let freed = write.give_up_text();
                self.texts_lost += u64::from(freed > 0);
                self.bytes -= freed;
                excess = excess.saturating_sub(freed);
                if excess == 0 {
                    break;
                }
            }
        }
        let excess = self.writes.len().saturating_sub(MAX_UNSAVED);
        self.drain(excess);
        self.lost += excess as u64;
        excess
    }

    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter()
    }

    /// Whether the last attempt failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether to leave the disk alone for now, because it failed a moment ago.
    pub(super) fn is_backing_off(&self, now: Timestamp) -> bool {
        self.failed.as_ref().is_some_and(|(failed_at, _)| {
            // A clock that was set back must not prolong the pause.
            now >= *failed_at && now.nanos_since(*failed_at) < RETRY_AFTER
        })
    }

    /// Notes that the first `count` writes are on disk.
    pub(super) fn stored(&mut self, count: usize) {
        self.drain(count);
        if self.failed.take().is_some() {
            tracing::info!(writes = count, "writing the tool registry works again");
        }
    }

    /// Notes that an attempt failed. Returns how many writes were given up.
    pub(super) fn failed(&mut self, error: StorageError, now: Timestamp) -> usize {
        if self.failed.is_none() {
            tracing::error!(%error, "cannot write the tool registry; pins are kept in memory until it can be written");
        }
        self.failed = Some((now, error));
        self.give_up_excess()
    }

    pub(super) fn health(&self) -> StorageHealth {
        let error = self.failed.as_ref().map(|(_, error)| error.to_string());
        StorageHealth {
            // Writes that merely wait for their turn are nothing to worry about.
            unsaved: if error.is_some() { self.len() } else { 0 },
            lost: self.lost,
            texts_lost: self.texts_lost,
            error,
        }
    }

    /// The text of a definition among these writes.
    pub(super) fn definition(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> Option<Arc<str>> {
        self.writes.iter().find_map(|write| match write {
            Write::Seen {
                owner,
                server: of,
                key: item,
                hash: seen,
                definition,
                ..
            } if *seen == hash && ServerOf::new(*owner, of) == server && item == key => {
                Some(Arc::clone(definition))
            }
            _ => None,
        })
    }

    /// The server whose definitions one of these writes copies to `server`.
    pub(super) fn former(&self, server: ServerOf<'_>) -> Option<Arc<str>> {
        self.writes.iter().find_map(|write| match write {
            Write::Named {
                owner,
                name,
                former,
                ..
            } if ServerOf::new(*owner, name) == server => former.clone(),
            _ => None,
        })
    }

    /// The items whose pin these writes may move.
    pub(super) fn moved_pins(&self) -> Vec<(Owner, Arc<str>, ItemKey)> {
        let moved = self.writes.iter().filter_map(|write| match write {
            Write::Seen {
                owner,
                server,
                key,
                pin: true,
                ..
            }
            | Write::Adopted {
                owner, server, key, ..
            } => Some((*owner, server, key)),
            Write::Decided(decision) => Some((decision.owner, &decision.server, &decision.key)),
            _ => None,
        });
        moved
            .map(|(owner, server, key)| (owner, Arc::clone(server), key.clone()))
            .collect()
    }
}

/// Cuts `decided` before the first item whose pin an unwritten write may still move: what the database
/// says about it is not final. Returns whether anything was cut.
pub(super) fn cut_at_moved(
    decided: &mut Vec<(i64, StoredItem)>,
    moved: &[(Owner, Arc<str>, ItemKey)],
) -> bool {
    let is_moved = |item: &StoredItem| {
        moved.iter().any(|(owner, server, key)| {
            *owner == item.owner && *server == item.server && *key == item.key
        })
    };
    let end = decided.iter().position(|(_, item)| is_moved(item));
    if let Some(end) = end {
        decided.truncate(end);
    }
    end.is_some()
}
