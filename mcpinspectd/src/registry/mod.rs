//! Every definition that a server ever offered, and the one that it is held to.
//!
//! A tool is pinned on first use: its definition's hash (SHA-256 over the canonical JSON of *all* its
//! fields) is what later listings are compared with. A *rug pull* is a definition that differs from
//! the pin. The pin does not follow: it stays until a person approves the change, so a change shows
//! in every session until then. A server's instructions and its name and version are held to their
//! first sight the same way.
//!
//! What is decided often is decided in memory: an unchanged definition costs the hash of its bytes and
//! two look-ups. What must not be lost is on disk before its event leaves (see [`store`]). Where the
//! disk fails, memory goes on and the writes are tried again.

pub mod canonical;
mod decide;
pub mod diff;
mod hashes;
pub mod item;
pub mod listing;
mod open;
mod store;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::value::RawValue;

pub use self::decide::{DecideError, Who};
use self::hashes::HashMemory;
pub use self::item::{
    By, Comparison, Decided, Decision, ItemKey, ItemView, Standing, Verb, Version,
};
pub use self::open::OpenError;
use self::store::{Store, Write};
use crate::mcp::json;
use crate::model::{DefinitionHash, ItemKind};
use crate::model::{ServerId, ServerIdentity, SessionId, Timestamp};
use crate::process::identity::NameBook;

/// Items of one server that are kept; more are reported and not pinned.
pub const MAX_ITEMS_PER_SERVER: usize = 4096;

/// Items of all servers that are kept.
pub const MAX_ITEMS: usize = 65_536;

/// How much of an item's name counts, in bytes.
pub const MAX_NAME: usize = 1024;

/// A definition above this many bytes is hashed, and its text is not kept.
pub const MAX_DEFINITION: usize = 1 << 20;

/// Writes that wait for the disk to work again. Above that, the oldest are dropped: pins stay in
/// memory until the daemon ends.
const MAX_UNSAVED: usize = 4096;

/// How long to leave a disk alone that does not work, in nanoseconds.
const RETRY_AFTER: u64 = 5_000_000_000;

/// Seen again after this long, a definition's `last_seen` is written anew, in nanoseconds.
const REFRESH_AFTER: u64 = 86_400_000_000_000;

/// Definitions seen at one time.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The server that offers them.
    pub server: &'a ServerId,
    /// The session in which it does.
    pub session: &'a SessionId,
    /// When.
    pub time: Timestamp,
}

/// How a definition that was seen stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Its hash.
    pub hash: DefinitionHash,
    /// How it stands to the pin.
    pub standing: Standing,
}

/// How the registry's disk is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Writes that wait to be done.
    pub unsaved: usize,
    /// Writes that were given up.
    pub lost: u64,
    /// What the database said last, where it did not do what it was asked.
    pub error: Option<String>,
}

/// The registry.
#[derive(Debug)]
pub struct Registry {
    store: Store,
    servers: HashMap<Arc<str>, HashMap<ItemKey, Item>>,
    items: usize,
    data_version: i64,
    hashes: HashMemory,
    /// Names that were given out, with their fingerprints.
    names: HashMap<Arc<str>, Arc<str>>,
    /// Whether there may be decisions that are no events yet.
    undelivered: bool,
    /// The last decision that was taken out.
    delivered: i64,
    unsaved: Vec<Write>,
    retry_at: Timestamp,
    health: Health,
}

/// An item at hand.
#[derive(Clone, Debug)]
struct Item {
    pinned: Option<DefinitionHash>,
    current: DefinitionHash,
    removed: bool,
    last_seen: Timestamp,
}

impl Registry {
    /// Opens the registry at `path`, or makes it.
    ///
    /// # Errors
    /// Where the file cannot be used as it is; [`OpenError`] says what to do. Never starts over by
    /// itself: that would accept every tool as it is now.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::with_connection(open::create(path)?, path)
    }

    /// Opens the registry at `path`, which another process made, to read it and to decide.
    ///
    /// # Errors
    /// Where there is none, or it cannot be used as it is.
    pub fn open_existing(path: &Path) -> Result<Self, OpenError> {
        Self::with_connection(open::existing(path)?, path)
    }

    /// Opens the registry at `path`, which another process made, to read it. Everything that would
    /// write fails.
    ///
    /// # Errors
    /// Where there is none, or it cannot be used as it is.
    pub fn open_read_only(path: &Path) -> Result<Self, OpenError> {
        Self::with_connection(open::read_only(path)?, path)
    }

    /// A registry that is gone with the process.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn in_memory() -> Result<Self, OpenError> {
        Self::with_connection(open::in_memory()?, Path::new(":memory:"))
    }

    fn with_connection(connection: Connection, path: &Path) -> Result<Self, OpenError> {
        Self::with_store(Store::new(connection)).map_err(|source| OpenError::Unusable {
            path: path.to_owned(),
            source,
        })
    }

    fn with_store(store: Store) -> rusqlite::Result<Self> {
        let mut registry = Self {
            data_version: store.data_version()?,
            store,
            servers: HashMap::new(),
            items: 0,
            hashes: HashMemory::default(),
            names: HashMap::new(),
            undelivered: true,
            delivered: 0,
            unsaved: Vec::new(),
            retry_at: Timestamp(0),
            health: Health::default(),
        };
        registry.load()?;
        let names = registry.store.names()?.into_iter();
        registry.names = names
            .map(|(name, fingerprint)| (name.into(), fingerprint.into()))
            .collect();
        Ok(registry)
    }

    fn load(&mut self) -> rusqlite::Result<()> {
        let rows = self.store.load()?;
        self.servers.clear();
        self.items = rows.len();
        for row in rows {
            let server = self.servers.entry(row.server.into()).or_default();
            let item = Item {
                pinned: row.pinned,
                current: row.current,
                removed: row.removed,
                last_seen: row.last_seen,
            };
            server.insert(row.key, item);
        }
        Ok(())
    }

    /// How the disk is doing.
    pub fn health(&self) -> Health {
        Health {
            unsaved: self.unsaved.len(),
            ..self.health.clone()
        }
    }

    /// Takes in what other processes have decided since; call it before a batch of [`Self::observe`].
    pub fn refresh(&mut self) {
        match self.store.data_version() {
            Ok(version) if version == self.data_version => {}
            // Memory knows more than the disk until the rest is written.
            Ok(_) if !self.unsaved.is_empty() => {}
            Ok(version) => match self.load() {
                Ok(()) => {
                    self.data_version = version;
                    self.undelivered = true;
                }
                Err(error) => self.failed(&error),
            },
            Err(error) => self.failed(&error),
        }
    }

    /// The servers' names that were given out, with the fingerprints that they belong to.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names
            .iter()
            .map(|(name, fingerprint)| (&**name, &**fingerprint))
    }

    /// Notes that a server has its name from now on, unless the name is another's. Call
    /// [`Self::save`] after it.
    pub fn name_given(&mut self, server: &ServerIdentity, time: Timestamp) {
        let name = &server.server_id.0;
        if self.names.contains_key(name) || self.names.len() >= NameBook::MAX_NAMES {
            return;
        }
        let fingerprint: Arc<str> = server.fingerprint.as_str().into();
        self.names.insert(name.clone(), fingerprint.clone());
        self.unsaved.push(Write::Named {
            name: name.clone(),
            fingerprint,
            time,
        });
    }

    /// Takes in one definition. Call [`Self::save`] after the last one of a listing.
    pub fn observe(
        &mut self,
        sight: Sight<'_>,
        kind: ItemKind,
        name: &str,
        definition: &RawValue,
    ) -> Observation {
        let hash = self.hashes.hash(definition);
        let key = ItemKey {
            kind,
            name: json::cut(name, MAX_NAME).into(),
        };
        let server = sight.server.0.as_ref();
        let known = self
            .servers
            .get_mut(server)
            .and_then(|items| items.get_mut(&key));
        let Some(item) = known else {
            if !self.has_room(server) {
                return Observation {
                    hash,
                    standing: Standing::NoRoom,
                };
            }
            let item = Item {
                pinned: Some(hash),
                current: hash,
                removed: false,
                last_seen: sight.time,
            };
            self.servers
                .entry(server.into())
                .or_default()
                .insert(key.clone(), item);
            self.items += 1;
            self.note_seen(sight, key, hash, definition, true);
            return Observation {
                hash,
                standing: Standing::New,
            };
        };
        let pin = item.pinned.is_none();
        let pinned = *item.pinned.get_or_insert(hash);
        let news = pin
            || item.removed
            || item.current != hash
            || sight.time.nanos_since(item.last_seen) >= REFRESH_AFTER;
        let standing = if pinned == hash {
            Standing::AsPinned
        } else {
            Standing::Changed { pinned }
        };
        if news {
            item.current = hash;
            item.removed = false;
            item.last_seen = sight.time;
            self.note_seen(sight, key, hash, definition, pin);
        }
        Observation { hash, standing }
    }

    fn has_room(&self, server: &str) -> bool {
        self.items < MAX_ITEMS
            && self
                .servers
                .get(server)
                .is_none_or(|items| items.len() < MAX_ITEMS_PER_SERVER)
    }

    fn note_seen(
        &mut self,
        sight: Sight<'_>,
        key: ItemKey,
        hash: DefinitionHash,
        definition: &RawValue,
        pin: bool,
    ) {
        let definition = if definition.get().len() <= MAX_DEFINITION {
            definition.get().into()
        } else {
            serde_json::Value::from(format!(
                "definition of {} bytes, not kept",
                definition.get().len()
            ))
            .to_string()
            .into()
        };
        self.unsaved.push(Write::Seen {
            server: sight.server.0.clone(),
            key,
            hash,
            definition,
            time: sight.time,
            session: sight.session.0.clone(),
            pin,
        });
    }

    /// Notes that a complete listing had the tools `listed` and no others. Returns those that are
    /// missing now and were not before, with their pinned (or else last) hash.
    pub fn listed(
        &mut self,
        sight: Sight<'_>,
        listed: &HashSet<Box<str>>,
    ) -> Vec<(Box<str>, DefinitionHash)> {
        let mut removed = Vec::new();
        let Some(items) = self.servers.get_mut(&sight.server.0) else {
            return removed;
        };
        for (key, item) in items {
            if key.kind == ItemKind::Tool && !item.removed && !listed.contains(&key.name) {
                item.removed = true;
                removed.push((key.name.clone(), item.pinned.unwrap_or(item.current)));
            }
        }
        // The map has no order, and equal inputs are to give equal events.
        removed.sort();
        for (name, _) in &removed {
            self.unsaved.push(Write::Removed {
                server: sight.server.0.clone(),
                key: ItemKey::tool(name),
                time: sight.time,
            });
        }
        removed
    }

    /// Writes what was seen since the last time. Where the disk fails, it is tried again later.
    pub fn save(&mut self, now: Timestamp) {
        if self.unsaved.is_empty() || (self.health.error.is_some() && now < self.retry_at) {
            return;
        }
        match self.store.write(self.unsaved.iter()) {
            Ok(()) => {
                if self.health.error.take().is_some() {
                    tracing::info!(
                        writes = self.unsaved.len(),
                        "the tool registry is written again"
                    );
                }
                self.unsaved = Vec::new();
            }
            Err(error) => {
                self.retry_at = Timestamp(now.0.saturating_add(RETRY_AFTER));
                self.failed(&error);
                let excess = self.unsaved.len().saturating_sub(MAX_UNSAVED);
                self.unsaved.drain(..excess);
                self.health.lost += excess as u64;
            }
        }
    }

    fn failed(&mut self, error: &rusqlite::Error) {
        if self.health.error.is_none() {
            tracing::error!(%error, "the tool registry cannot be used; pins are kept in memory until it can");
        }
        self.health.error = Some(error.to_string());
    }

    /// All items, in the order of their names.
    ///
    /// # Errors
    /// Where the database cannot be read.
    pub fn list(&self) -> rusqlite::Result<Vec<ItemView>> {
        self.store.views()
    }

    /// All definitions that were seen of an item, oldest first.
    ///
    /// # Errors
    /// Where the database cannot be read.
    pub fn versions(&self, server: &str, key: &ItemKey) -> rusqlite::Result<Vec<Version>> {
        self.store.versions(server, key)
    }

    /// All decisions on an item, oldest first.
    ///
    /// # Errors
    /// Where the database cannot be read.
    pub fn decisions(&self, server: &str, key: &ItemKey) -> rusqlite::Result<Vec<Decision>> {
        self.store.decisions(server, key)
    }

    /// The items of a server, in no order.
    pub fn keys(&self, server: &str) -> impl Iterator<Item = &ItemKey> {
        self.servers.get(server).into_iter().flat_map(HashMap::keys)
    }

    /// The hash of the definition that was seen last of an item, unless it is gone.
    pub fn current(&self, server: &str, key: &ItemKey) -> Option<DefinitionHash> {
        let item = self.servers.get(server)?.get(key)?;
        (!item.removed).then_some(item.current)
    }

    /// How many servers and items are known.
    pub fn size(&self) -> (usize, usize) {
        (self.servers.len(), self.items)
    }

    /// What differs between two definitions of an item: by default the pinned one and the one that
    /// was seen last.
    ///
    /// # Errors
    /// Where there is no such item or definition, or the database cannot be read.
    pub fn compare(
        &self,
        server: &str,
        key: &ItemKey,
        previous: Option<DefinitionHash>,
        new: Option<DefinitionHash>,
    ) -> Result<Comparison, DecideError> {
        let item = self
            .servers
            .get(server)
            .and_then(|items| items.get(key))
            .ok_or(DecideError::UnknownItem)?;
        let previous = previous.or(item.pinned).unwrap_or(item.current);
        let new = new.unwrap_or(item.current);
        let definition = |hash| {
            self.definition(server, key, hash)?
                .ok_or(DecideError::UnknownDefinition { hash })
        };
        let changes = diff::diff(&definition(previous)?, &definition(new)?);
        Ok(Comparison {
            previous,
            new,
            changes,
        })
    }

    /// The text of a definition that was seen, where it is at hand.
    pub fn text(
        &self,
        server: &ServerId,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> Option<Box<RawValue>> {
        self.definition(&server.0, key, hash)
            .unwrap_or_else(|error| {
                tracing::error!(%error, "a pinned definition cannot be read");
                None
            })
    }

    /// The text of a definition, on disk or on its way there.
    fn definition(
        &self,
        server: &str,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> rusqlite::Result<Option<Box<RawValue>>> {
        let waiting = self.unsaved.iter().find_map(|write| match write {
            Write::Seen {
                server: of,
                key: item,
                hash: seen,
                definition,
                ..
            } if *seen == hash && &**of == server && item == key => Some(definition.to_string()),
            _ => None,
        });
        let text = match waiting {
            Some(text) => Some(text),
            None => self.store.definition(server, key, hash)?,
        };
        Ok(text.and_then(|text| RawValue::from_string(text).ok()))
    }
}

#[cfg(test)]
mod tests;
