//! The registry itself: every definition that was seen, compared with its pin.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::canonical;
use super::hashes::HashMemory;
use super::item::{ItemKey, PinStatus};
use super::memory::MemoryStorage;
use super::names::ServerNames;
use super::storage::{Contents, Storage, StorageError, StorageHealth, StoredItem, Write};
use crate::mcp::json;
use crate::model::{DefinitionHash, ItemKind, ServerId, ServerIdentity, SessionId, Timestamp};

/// Most items that are kept of one server; more are reported and not pinned.
pub const MAX_ITEMS_PER_SERVER: usize = 4096;

/// Most items that are kept of all servers.
pub const MAX_ITEMS: usize = 65_536;

/// Length to which an item's name is cut, in bytes.
pub const MAX_NAME: usize = 1024;

/// A definition longer than this many bytes is hashed, but its text is not kept.
pub const MAX_DEFINITION: usize = canonical::MAX_TEXT;

/// Nanoseconds after which an unchanged definition's `last_seen` is written anew.
const REFRESH_AFTER: u64 = 86_400_000_000_000;

/// Nanoseconds after which an item without a decision is removed, unless it is seen again: a year.
pub const EVICT_AFTER: u64 = 365 * 86_400_000_000_000;

/// Where and when definitions were seen.
#[derive(Clone, Copy, Debug)]
pub struct Sighting<'a> {
    /// The server that offers them.
    pub server: &'a ServerId,
    /// The session in which it does.
    pub session: &'a SessionId,
    /// When.
    pub time: Timestamp,
}

/// What the registry knows about a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Its hash.
    pub hash: DefinitionHash,
    /// How it relates to the pin.
    pub status: PinStatus,
}

/// Every definition that a server ever offered, and the one that it is held to.
#[derive(Debug)]
pub struct Registry {
    pub(super) storage: Box<dyn Storage>,
    servers: HashMap<Arc<str>, HashMap<ItemKey, Item>>,
    items: usize,
    hashes: HashMemory,
    /// Names that were assigned, with their fingerprints.
    names: HashMap<Arc<str>, Arc<str>>,
    /// What was observed and not handed to the storage yet.
    writes: Vec<Write>,
    /// The last decision that the items above follow.
    followed: i64,
    /// The last decision that was taken out to be told.
    pub(super) taken: i64,
    /// Whether there may be decisions that no event has told of.
    pub(super) untold: bool,
    /// The last error of reading, while it persists.
    read_error: Option<String>,
    /// When stale items were last looked for.
    evicted: Timestamp,
}

/// An item in memory.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) pinned: Option<DefinitionHash>,
    pub(super) current: DefinitionHash,
    removed: bool,
    last_seen: Timestamp,
    pub(super) decided: bool,
}

impl Registry {
    /// Opens the registry that `storage` holds.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub fn new(mut storage: Box<dyn Storage>) -> Result<Self, StorageError> {
        let contents = storage.load()?;
        Ok(Self::with(storage, contents))
    }

    /// An empty registry that is gone with the process.
    pub fn in_memory() -> Self {
        Self::with(Box::new(MemoryStorage::default()), Contents::default())
    }

    fn with(storage: Box<dyn Storage>, contents: Contents) -> Self {
        let Contents {
            items,
            names,
            last_decision,
        } = contents;
        let mut registry = Self {
            storage,
            servers: HashMap::new(),
            items: 0,
            hashes: HashMemory::default(),
            names: names.into_iter().collect(),
            writes: Vec::new(),
            followed: last_decision,
            taken: 0,
            untold: true,
            read_error: None,
            evicted: Timestamp(0),
        };
        for item in items {
            registry.insert(item);
        }
        registry
    }

    fn insert(&mut self, stored: StoredItem) {
        let StoredItem {
            server,
            key,
            pinned,
            current,
            removed,
            last_seen,
            forgotten,
            decided,
        } = stored;
        if forgotten {
            return;
        }
        let item = Item {
            pinned,
            current,
            removed,
            last_seen,
            decided,
        };
        let items = self.servers.entry(server).or_default();
        self.items += usize::from(items.insert(key, item).is_none());
    }

    /// How the storage is doing.
    pub fn health(&self) -> StorageHealth {
        let health = self.storage.health();
        StorageHealth {
            error: health.error.or_else(|| self.read_error.clone()),
            ..health
        }
    }

    /// Follows the decisions made since the last call, by this process or another. Call it before a
    /// batch of [`Self::observe`].
    pub fn refresh(&mut self) {
        let changed = self.storage.has_changed();
        if self.read(changed) == Some(true) {
            self.follow();
        }
    }

    /// Moves the pins in memory to where decisions moved them in the storage.
    pub(super) fn follow(&mut self) {
        let decided = self.storage.decided_after(self.followed);
        for (number, stored) in self.read(decided).unwrap_or_default() {
            self.followed = number;
            self.untold = true;
            if stored.forgotten {
                self.remove(&stored.server, &stored.key);
                continue;
            }
            match self.item_mut(&stored.server, &stored.key) {
                Some(item) => {
                    item.pinned = stored.pinned;
                    item.decided = true;
                }
                // Another process added it.
                None => self.insert(stored),
            }
        }
    }

    fn remove(&mut self, server: &str, key: &ItemKey) {
        let Some(items) = self.servers.get_mut(server) else {
            return;
        };
        self.items -= usize::from(items.remove(key).is_some());
        if items.is_empty() {
            self.servers.remove(server);
        }
    }

    /// Removes items without a decision that were not seen for [`EVICT_AFTER`], so that servers of the
    /// past do not fill the registry. Looks at most once a day. Returns how many items it removed.
    pub fn evict(&mut self, now: Timestamp) -> usize {
        if now.nanos_since(self.evicted) < REFRESH_AFTER {
            return 0;
        }
        self.evicted = now;
        let mut stale: Vec<(Arc<str>, ItemKey)> = Vec::new();
        for (server, items) in &self.servers {
            let old = items.iter().filter(|(_, item)| {
                !item.decided && now.nanos_since(item.last_seen) >= EVICT_AFTER
            });
            stale.extend(old.map(|(key, _)| (Arc::clone(server), key.clone())));
        }
        // The map has no order, and equal inputs must lead to equal writes.
        stale.sort_unstable();
        let count = stale.len();
        for (server, key) in stale {
            self.remove(&server, &key);
            self.writes.push(Write::Evicted { server, key });
        }
        count
    }

    /// What was read, unless that failed; a failure is logged once and reported as ill health.
    pub(super) fn read<T>(&mut self, result: Result<T, StorageError>) -> Option<T> {
        match result {
            Ok(value) => {
                self.read_error = None;
                Some(value)
            }
            Err(error) => {
                if self.read_error.is_none() {
                    tracing::error!(%error, "the tool registry cannot be read; decisions made elsewhere are not seen");
                }
                self.read_error = Some(error.to_string());
                None
            }
        }
    }

    pub(super) fn item(&self, server: &str, key: &ItemKey) -> Option<&Item> {
        self.servers.get(server)?.get(key)
    }

    pub(super) fn item_mut(&mut self, server: &str, key: &ItemKey) -> Option<&mut Item> {
        self.servers.get_mut(server)?.get_mut(key)
    }

    /// Assigned server names with the fingerprints that they belong to.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names
            .iter()
            .map(|(name, fingerprint)| (&**name, &**fingerprint))
    }

    /// The assigned names, to assign more.
    pub fn server_names(&self) -> ServerNames {
        let owned = |(name, fingerprint): (&str, &str)| (name.to_owned(), fingerprint.to_owned());
        ServerNames::known(self.names().map(owned))
    }

    /// Records that a server has its name from now on, unless the name belongs to another. A server that
    /// was called differently before starts with the items of that name, which keeps them: what else was
    /// called so may be another server. Call [`Self::save`] afterwards.
    pub fn assign_name(&mut self, server: &ServerIdentity, time: Timestamp) {
        let name = &server.server_id.0;
        if self.names.contains_key(name) || self.names.len() >= ServerNames::MAX_NAMES {
            return;
        }
        let former = server.former.as_ref().filter(|former| {
            let owner = self.names.get(&former.server_id.0);
            owner.is_some_and(|owner| **owner == *former.fingerprint)
        });
        let former = former.map(|former| Arc::clone(&former.server_id.0));
        if let Some(former) = &former {
            self.inherit(former, name);
        }
        let fingerprint: Arc<str> = server.fingerprint.as_str().into();
        self.names.insert(name.clone(), fingerprint.clone());
        self.writes.push(Write::Named {
            name: name.clone(),
            fingerprint,
            former,
            time,
        });
    }

    /// Copies the items of a server to another, except those that it has.
    fn inherit(&mut self, from: &str, to: &Arc<str>) {
        let items = self.servers.get(from).cloned().unwrap_or_default();
        for (key, item) in items {
            if !self.has_room(to) {
                return;
            }
            let own = self.servers.entry(Arc::clone(to)).or_default();
            if let Entry::Vacant(place) = own.entry(key) {
                // The decisions stay with the former name.
                place.insert(Item {
                    decided: false,
                    ..item
                });
                self.items += 1;
            }
        }
    }

    /// Takes in one definition. Call [`Self::save`] after the last one of a listing.
    pub fn observe(
        &mut self,
        sighting: Sighting<'_>,
        kind: ItemKind,
        name: &str,
        definition: &RawValue,
    ) -> Observation {
        let hash = self.hashes.hash(definition);
        let key = key_of(kind, name);
        let server = &sighting.server.0;
        let has_room = self.has_room(server);
        let Some(item) = self.item_mut(server, &key) else {
            if !has_room {
                return Observation {
                    hash,
                    status: PinStatus::NoRoom,
                };
            }
            self.insert(StoredItem {
                server: Arc::clone(server),
                key: key.clone(),
                pinned: Some(hash),
                current: hash,
                removed: false,
                last_seen: sighting.time,
                forgotten: false,
                decided: false,
            });
            self.record_seen(sighting, key, hash, definition, true);
            return Observation {
                hash,
                status: PinStatus::New,
            };
        };
        let pin = item.pinned.is_none();
        let pinned = *item.pinned.get_or_insert(hash);
        let has_news = pin
            || item.removed
            || item.current != hash
            || sighting.time.nanos_since(item.last_seen) >= REFRESH_AFTER;
        if has_news {
            item.current = hash;
            item.removed = false;
            item.last_seen = sighting.time;
            self.record_seen(sighting, key, hash, definition, pin);
        }
        Observation {
            hash,
            status: status_of(hash, pinned),
        }
    }

    /// Compares a definition with its pin and records nothing: for callers that have to know before
    /// the definition is passed on. [`PinStatus::New`] means that nothing is pinned.
    pub fn check(
        &mut self,
        server: &ServerId,
        kind: ItemKind,
        name: &str,
        definition: &RawValue,
    ) -> Observation {
        let hash = self.hashes.hash(definition);
        let pinned = self
            .item(&server.0, &key_of(kind, name))
            .and_then(|item| item.pinned);
        Observation {
            hash,
            status: pinned.map_or(PinStatus::New, |pinned| status_of(hash, pinned)),
        }
    }

    fn has_room(&self, server: &str) -> bool {
        self.items < MAX_ITEMS
            && self
                .servers
                .get(server)
                .is_none_or(|items| items.len() < MAX_ITEMS_PER_SERVER)
    }

    fn record_seen(
        &mut self,
        sighting: Sighting<'_>,
        key: ItemKey,
        hash: DefinitionHash,
        definition: &RawValue,
        pin: bool,
    ) {
        let text = definition.get();
        let definition = match text.len() <= MAX_DEFINITION {
            true => text.into(),
            false => {
                let note = format!("definition of {} bytes, not kept", text.len());
                serde_json::Value::from(note).to_string().into()
            }
        };
        self.writes.push(Write::Seen {
            server: sighting.server.0.clone(),
            key,
            hash,
            definition,
            time: sighting.time,
            session: sighting.session.0.clone(),
            pin,
        });
    }

    /// Records that a complete listing contained the tools that are `listed` and no others. Returns the
    /// tools that are missing for the first time, each with its pinned (or else last) hash.
    pub fn listed(
        &mut self,
        sighting: Sighting<'_>,
        listed: impl Fn(&str) -> bool,
    ) -> Vec<(Box<str>, DefinitionHash)> {
        let mut removed = Vec::new();
        let Some(items) = self.servers.get_mut(&sighting.server.0) else {
            return removed;
        };
        for (key, item) in items {
            if key.kind == ItemKind::Tool && !item.removed && !listed(&key.name) {
                item.removed = true;
                removed.push((key.name.clone(), item.pinned.unwrap_or(item.current)));
            }
        }
        // The map has no order, and equal inputs must give equal events.
        removed.sort();
        for (name, _) in &removed {
            self.writes.push(Write::Removed {
                server: sighting.server.0.clone(),
                key: ItemKey::tool(name),
                time: sighting.time,
            });
        }
        removed
    }

    /// Hands what was observed since the last call to the storage, before anyone is told about it.
    pub fn save(&mut self, now: Timestamp) {
        self.storage.record(std::mem::take(&mut self.writes), now);
    }

    pub(super) fn record(&mut self, write: Write) {
        self.writes.push(write);
    }

    pub(super) fn items_of(&self, server: &str) -> impl Iterator<Item = (&ItemKey, &Item)> {
        self.servers.get(server).into_iter().flatten()
    }

    /// The items of a server, in no particular order.
    pub fn keys(&self, server: &str) -> impl Iterator<Item = &ItemKey> {
        self.servers.get(server).into_iter().flat_map(HashMap::keys)
    }

    /// The hash of an item's definition that was seen last, unless the item is gone.
    pub fn current(&self, server: &str, key: &ItemKey) -> Option<DefinitionHash> {
        let item = self.item(server, key)?;
        (!item.removed).then_some(item.current)
    }

    /// The number of known servers and items.
    pub fn size(&self) -> (usize, usize) {
        (self.servers.len(), self.items)
    }
}

fn key_of(kind: ItemKind, name: &str) -> ItemKey {
    ItemKey {
        kind,
        name: json::cut(name, MAX_NAME).into(),
    }
}

fn status_of(hash: DefinitionHash, pinned: DefinitionHash) -> PinStatus {
    match pinned == hash {
        true => PinStatus::AsPinned,
        false => PinStatus::Changed { pinned },
    }
}
