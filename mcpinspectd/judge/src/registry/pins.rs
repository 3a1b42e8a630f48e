//! The registry itself: every definition that was seen, compared with its pin.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mcpinspect_core::mcp::json;
use mcpinspect_core::model::{DefinitionHash, ItemKind, ServerId, SessionId, Timestamp};
use serde_json::value::RawValue;

use super::canonical;
use super::hashes::HashMemory;
use super::item::{ItemKey, PinStatus, Standing};
use super::kept_text::{KeptText, not_kept};
use super::limits::{RegistryLimits, Shortage};
use super::listed::Listed;
use super::memory::MemoryStorage;
use super::names::ServerNames;
use super::owner::{Owner, ServerOf, Sharing};
use super::storage::{Contents, Storage, StorageError, StorageHealth, StoredItem, Write};

mod adoption;

/// Most items to keep per server; any beyond that are reported but not pinned.
pub const MAX_ITEMS_PER_SERVER: usize = 4096;

/// Maximum length of an item's name, in bytes; longer ones are cut.
pub const MAX_NAME: usize = 1024;

/// A definition longer than this many bytes is hashed, but its text is not kept.
pub const MAX_DEFINITION: usize = canonical::MAX_TEXT;

/// Nanoseconds after which an unchanged definition's `last_seen` is rewritten.
const REFRESH_AFTER: u64 = 86_400_000_000_000;

/// Nanoseconds after which an item without a decision is removed, unless it is seen again: a year.
pub const EVICT_AFTER: u64 = 365 * 86_400_000_000_000;

/// Where and when definitions were seen.
#[derive(Clone, Copy, Debug)]
pub struct Sighting<'a> {
    /// Who owns the server's pins; see [`Registry::owner`].
    pub owner: Owner,
    /// The server that offers them.
    pub server: &'a ServerId,
    /// The session in which it does.
    pub session: &'a SessionId,
    /// When.
    pub time: Timestamp,
}

impl<'a> Sighting<'a> {
    fn server_of(self) -> ServerOf<'a> {
        ServerOf::new(self.owner, &self.server.0)
    }
}

/// What the registry knows about a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Its hash.
    pub hash: DefinitionHash,
    /// How it relates to the pin.
    pub status: PinStatus,
    /// What ran out, if it could not be kept.
    pub shortage: Option<Shortage>,
}

/// Every definition that a server ever offered, and the one that it is held to.
#[derive(Debug)]
pub struct Registry {
    pub(super) storage: Box<dyn Storage>,
    /// What each owner holds.
    pub(super) owners: BTreeMap<Owner, Holdings>,
    pub(super) items: usize,
    pub(super) limits: RegistryLimits,
    /// What signed lists approve.
    pub(super) listed: Listed,
    hashes: HashMemory,
    /// Names that were assigned, with their fingerprints.
    names: ServerNames,
    /// What was observed but not yet handed to the storage.
    writes: Vec<Write>,
    /// The last decision that the items above follow.
    followed: i64,
    /// The last decision that was taken out to be reported.
    pub(super) taken: i64,
    /// Whether there may be decisions that no event has reported.
    pub(super) untold: bool,
    /// The last error of reading, while it persists.
    read_error: Option<String>,
    /// When stale items were last looked for.
    evicted: Timestamp,
}

/// An owner's items, by server.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    pub(super) servers: HashMap<Arc<str>, HashMap<ItemKey, Item>>,
    pub(super) items: usize,
    /// Bytes of the items' texts.
    pub(super) bytes: u64,
    /// Until then, nothing in here can make room.
    pub(super) nothing_before: Timestamp,
}

/// An item in memory.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) pinned: Option<DefinitionHash>,
    pub(super) current: DefinitionHash,
    removed: bool,
    pub(super) last_seen: Timestamp,
    pub(super) decided: bool,
    /// Definitions that were recorded as approved by a list.
    pub(super) listed: Vec<DefinitionHash>,
    /// Its texts, least recently seen first.
    pub(super) texts: Vec<KeptText>,
}

impl Item {
    /// How a definition with this hash relates to what was accepted.
    fn standing(&self, hash: DefinitionHash) -> Standing {
        match self.pinned {
            Some(pinned) if pinned != hash => Standing::Changed,
            Some(_) if self.decided => Standing::Accepted,
            _ => Standing::FirstUse,
        }
    }
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

    /// An empty registry that ends with the process.
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
            owners: BTreeMap::new(),
            items: 0,
            limits: RegistryLimits::default(),
            listed: Listed::default(),
            hashes: HashMemory::default(),
            names: ServerNames::known(names, Sharing::default()),
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

    /// Sets which users share pins and names. By default none do.
    #[must_use]
    pub fn with_sharing(mut self, sharing: Sharing) -> Self {
        self.names.set_sharing(sharing);
        self
    }

    /// The registry with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: RegistryLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Who owns the pins of servers that run as `uid`; `None` if that is unknown.
    pub fn owner(&self, uid: Option<u32>) -> Owner {
        self.names.sharing().owner(uid)
    }

    fn insert(&mut self, stored: StoredItem) {
        let StoredItem {
            owner,
            server,
            key,
            pinned,
            current,
            removed,
            last_seen,
            forgotten,
            decided,
            listed,
            texts,
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
            listed,
            texts,
        };
        let holdings = self.owners.entry(owner).or_default();
        holdings.bytes += item.bytes();
        let items = holdings.servers.entry(server).or_default();
        match items.insert(key, item) {
            Some(before) => holdings.bytes = holdings.bytes.saturating_sub(before.bytes()),
            None => {
                holdings.items += 1;
                self.items += 1;
            }
        }
    }

    /// The state of the storage.
    pub fn health(&self) -> StorageHealth {
        let health = self.storage.health();
        StorageHealth {
            error: health.error.or_else(|| self.read_error.clone()),
            ..health
        }
    }

    /// Follows the decisions made since the last call, by this process or another. Call this before a
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
            let server = ServerOf::new(stored.owner, &stored.server);
            if stored.forgotten {
                self.remove(server, &stored.key);
                // Or it would be taken over again.
                self.remove(server.of(Owner::Earlier), &stored.key);
                continue;
            }
            match self.item_mut(server, &stored.key) {
                Some(item) => {
                    item.pinned = stored.pinned;
                    item.decided |= stored.decided;
                }
                // Another process added it.
                None => self.insert(stored),
            }
        }
    }

    pub(super) fn remove(&mut self, server: ServerOf<'_>, key: &ItemKey) {
        let Some(holdings) = self.owners.get_mut(&server.owner) else {
            return;
        };
        let Some(items) = holdings.servers.get_mut(server.server) else {
            return;
        };
        if let Some(item) = items.remove(key) {
            self.items -= 1;
            holdings.items -= 1;
            holdings.bytes = holdings.bytes.saturating_sub(item.bytes());
        }
        if items.is_empty() {
            holdings.servers.remove(server.server);
        }
    }

    /// Removes items without a decision that were not seen for [`EVICT_AFTER`], so that old servers
    /// do not fill the registry, and those that no one has taken over in that time. Checks at most
    /// once a day. Returns how many items it removed.
    pub fn evict(&mut self, now: Timestamp) -> usize {
        if now.nanos_since(self.evicted) < REFRESH_AFTER {
            return 0;
        }
        self.evicted = now;
        let mut stale: Vec<(Owner, Arc<str>, ItemKey)> = Vec::new();
        for (owner, holdings) in &self.owners {
            for (server, items) in &holdings.servers {
                let old = items.iter().filter(|(_, item)| {
                    (!item.decided || *owner == Owner::Earlier)
                        && now.nanos_since(item.last_seen) >= EVICT_AFTER
                });
                stale.extend(old.map(|(key, _)| (*owner, Arc::clone(server), key.clone())));
            }
        }
        // The map has no order, and equal inputs must lead to equal writes.
        stale.sort_unstable();
        let count = stale.len();
        for (owner, server, key) in stale {
            self.remove(ServerOf::new(owner, &server), &key);
            self.writes.push(Write::Evicted { owner, server, key });
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
                    tracing::error!(%error, "cannot read the tool registry; decisions made elsewhere are not noticed");
                }
                self.read_error = Some(error.to_string());
                None
            }
        }
    }

    pub(super) fn items_by_key(&self, server: ServerOf<'_>) -> Option<&HashMap<ItemKey, Item>> {
        self.owners.get(&server.owner)?.servers.get(server.server)
    }

    pub(super) fn item(&self, server: ServerOf<'_>, key: &ItemKey) -> Option<&Item> {
        self.items_by_key(server)?.get(key)
    }

    pub(super) fn item_mut(&mut self, server: ServerOf<'_>, key: &ItemKey) -> Option<&mut Item> {
        let holdings = self.owners.get_mut(&server.owner)?;
        holdings.servers.get_mut(server.server)?.get_mut(key)
    }

    /// The owners who have items of a server.
    pub(super) fn owners_with<'a>(&'a self, server: &'a str) -> impl Iterator<Item = Owner> + 'a {
        let with = self.owners.iter();
        with.filter(move |(_, holdings)| holdings.servers.contains_key(server))
            .map(|(owner, _)| *owner)
    }

    /// The assigned names, to assign more.
    pub fn server_names(&self) -> &ServerNames {
        &self.names
    }

    /// Takes in one definition. Call [`Self::save`] after the last one of a listing. An item that its owner
    /// does not have yet may be taken over from another: see [`owner`](super::owner).
    pub fn observe(
        &mut self,
        sighting: Sighting<'_>,
        kind: ItemKind,
        name: &str,
        definition: &RawValue,
    ) -> Observation {
        let hash = self.hashes.hash(definition);
        let key = key_of(kind, name);
        let server = sighting.server_of();
        if self.item(server, &key).is_none() {
            if let Err(shortage) = self.make_room(server, sighting.time) {
                return Observation {
                    hash,
                    status: PinStatus::NoRoom,
                    shortage: Some(shortage),
                };
            }
            self.adopt(sighting, &key, hash, definition);
        }
        let Some(item) = self.item_mut(server, &key) else {
            self.insert(StoredItem {
                owner: sighting.owner,
                server: Arc::clone(&sighting.server.0),
                key: key.clone(),
                pinned: Some(hash),
                current: hash,
                removed: false,
                last_seen: sighting.time,
                forgotten: false,
                decided: false,
                listed: Vec::new(),
                texts: Vec::new(),
            });
            let shortage = self.record_seen(sighting, key.clone(), hash, definition, true);
            self.meet(server, &key, hash, sighting.time);
            return Observation {
                hash,
                status: PinStatus::New,
                shortage,
            };
        };
        let pin = item.pinned.is_none();
        let pinned = *item.pinned.get_or_insert(hash);
        let has_news = pin
            || item.removed
            || item.current != hash
            || sighting.time.nanos_since(item.last_seen) >= REFRESH_AFTER;
        let mut shortage = None;
        if has_news {
            item.current = hash;
            item.removed = false;
            item.last_seen = sighting.time;
            shortage = self.record_seen(sighting, key.clone(), hash, definition, pin);
        }
        let is_listed = self.meet(server, &key, hash, sighting.time);
        Observation {
            hash,
            status: match is_listed {
                true => PinStatus::AsPinned,
                false => status_of(hash, pinned),
            },
            shortage,
        }
    }

    /// How a definition with this hash relates to what was accepted of a tool; without a hash, the one
    /// last seen. Records nothing: for callers that have to know before the definition is passed
    /// on. `None` means that nothing is pinned.
    pub fn check(
        &self,
        server: ServerOf<'_>,
        tool: &str,
        hash: Option<DefinitionHash>,
    ) -> Option<Standing> {
        let key = key_of(ItemKind::Tool, tool);
        if hash.is_some_and(|hash| self.is_listed(server, &key, hash)) {
            return Some(Standing::Accepted);
        }
        let item = self.item(server, &key);
        let item = item.or_else(|| Some(self.adoptable(server, &key, hash?)?.1))?;
        item.pinned?;
        match hash {
            Some(hash) => Some(item.standing(hash)),
            None => self.standing(server, &key),
        }
    }

    fn record_seen(
        &mut self,
        sighting: Sighting<'_>,
        key: ItemKey,
        hash: DefinitionHash,
        definition: &RawValue,
        pin: bool,
    ) -> Option<Shortage> {
        let text = definition.get();
        let is_short = text.len() <= MAX_DEFINITION;
        let (server, time) = (sighting.server_of(), sighting.time);
        let fits = is_short && self.make_room_for_text(server, &key, hash, text.len(), time);
        let definition = match fits {
            true => text.into(),
            false => not_kept(text.len()),
        };
        self.writes.push(Write::Seen {
            owner: sighting.owner,
            server: sighting.server.0.clone(),
            key,
            hash,
            definition,
            time: sighting.time,
            session: sighting.session.0.clone(),
            pin,
        });
        (is_short && !fits).then_some(Shortage::Bytes)
    }

    /// Records that a complete listing contained the tools in `listed` and no others. Returns the
    /// tools that are missing for the first time, each with its pinned (or else last) hash.
    pub fn listed(
        &mut self,
        sighting: Sighting<'_>,
        listed: impl Fn(&str) -> bool,
    ) -> Vec<(Box<str>, DefinitionHash)> {
        let mut removed = Vec::new();
        let holdings = self.owners.get_mut(&sighting.owner);
        let Some(items) = holdings.and_then(|held| held.servers.get_mut(&sighting.server.0)) else {
            return removed;
        };
        for (key, item) in items {
            if key.kind == ItemKind::Tool && !item.removed && !listed(&key.name) {
                item.removed = true;
                removed.push((key.name.clone(), item.pinned.unwrap_or(item.current)));
            }
        }
        // The map has no order, and equal inputs must lead to equal events.
        removed.sort();
        for (name, _) in &removed {
            self.writes.push(Write::Removed {
                owner: sighting.owner,
                server: sighting.server.0.clone(),
                key: ItemKey::tool(name),
                time: sighting.time,
            });
        }
        removed
    }

    /// Hands what was observed since the last call to the storage, before it is reported.
    pub fn save(&mut self, now: Timestamp) {
        self.storage.record(std::mem::take(&mut self.writes), now);
    }

    pub(super) fn record(&mut self, write: Write) {
        self.writes.push(write);
    }

    pub(super) fn items_of(&self, server: ServerOf<'_>) -> impl Iterator<Item = (&ItemKey, &Item)> {
        self.items_by_key(server).into_iter().flatten()
    }

    /// The items of a server, in no particular order.
    pub fn keys(&self, server: ServerOf<'_>) -> impl Iterator<Item = &ItemKey> {
        self.items_of(server).map(|(key, _)| key)
    }

    /// The hash of an item's last seen definition, unless the item is gone.
    pub fn current(&self, server: ServerOf<'_>, key: &ItemKey) -> Option<DefinitionHash> {
        let item = self.item(server, key)?;
        (!item.removed).then_some(item.current)
    }

    /// How the last seen definition of a tool relates to what was accepted.
    pub fn standing(&self, server: ServerOf<'_>, key: &ItemKey) -> Option<Standing> {
        let item = self.item(server, key)?;
        Some(match self.is_listed(server, key, item.current) {
            true => Standing::Accepted,
            false => item.standing(item.current),
        })
    }

    /// The number of known servers and items. A server that two users have counts twice.
    pub fn size(&self) -> (usize, usize) {
        let servers = self.owners.values().map(|held| held.servers.len()).sum();
        (servers, self.items)
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
