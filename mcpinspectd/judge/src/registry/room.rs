//! Room for pins, which users share.
//!
//! Useless servers cost a hostile user nothing, so what the registry keeps is bounded for each
//! owner, in items and in bytes of definitions. An owner whose share is used up makes room:
//! undecided items go, least recently seen first, once they have been unseen for a month.
//! What is in use stays, so that a new server cannot push out the pins of another. If all owners
//! together have used up everything, the one who holds the most makes room for one who holds less.

use std::sync::Arc;

use mcpinspect_core::model::{DefinitionHash, Timestamp};

use super::item::ItemKey;
use super::kept_text::KeptText;
use super::limits::Shortage;
use super::owner::{Owner, ServerOf};
use super::pins::{Item, MAX_ITEMS_PER_SERVER, Registry};
use super::storage::{MAX_VERSIONS, Write};

/// Nanoseconds for which an item must be unseen before it makes room for another of its owner: 30 days.
pub const MAKES_ROOM_AFTER: u64 = 30 * 86_400_000_000_000;

/// Items that make room at once.
const AT_ONCE: usize = 64;

impl Item {
    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> u64 {
        self.texts.iter().map(|text| text.bytes()).sum()
    }

    /// Notes that a definition was seen whose text is kept. Returns whether it was.
    fn sees_known(&mut self, hash: DefinitionHash) -> bool {
        let Some(at) = self.texts.iter().position(|text| text.is_of(hash)) else {
            return false;
        };
        // Least recently seen first.
        self.texts[at..].rotate_left(1);
        true
    }

    /// Keeps a text, and gives up the oldest as the storage does. Returns how many bytes that freed.
    fn keep(&mut self, text: KeptText) -> u64 {
        self.texts.push(text);
        if self.texts.len() <= MAX_VERSIONS + 2 {
            return 0;
        }
        let pinned = self.pinned;
        let old = self
            .texts
            .iter()
            .position(|text| !pinned.is_some_and(|pinned| text.is_of(pinned)));
        old.map_or(0, |old| self.texts.remove(old).bytes())
    }
}

impl Registry {
    /// Makes sure that there is room for another item of a server.
    pub(super) fn make_room(
        &mut self,
        server: ServerOf<'_>,
        now: Timestamp,
    ) -> Result<(), Shortage> {
        let of_server = self.items_by_key(server).map_or(0, |items| items.len());
        if of_server >= MAX_ITEMS_PER_SERVER {
            return Err(Shortage::ServerItems);
        }
        let of_owner = self.held(server.owner).0;
        if of_owner >= self.limits.items_of_one && !self.evict_from(server.owner, now) {
            return Err(Shortage::OwnerItems);
        }
        let is_full = self.items >= self.limits.items;
        if is_full && !self.evict_from_largest(server.owner, |(items, _)| items as u64) {
            return Err(Shortage::AllItems);
        }
        Ok(())
    }

    /// Notes the text of an item's definition. Returns whether there is room to keep it.
    pub(super) fn make_room_for_text(
        &mut self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
        bytes: usize,
        now: Timestamp,
    ) -> bool {
        if self
            .item_mut(server, key)
            .is_none_or(|item| item.sees_known(hash))
        {
            return true;
        }
        let text = KeptText::new(hash, bytes);
        let fits = |held: u64, limit: u64| held + text.bytes() <= limit;
        let limits = self.limits;
        let of_owner = self.held(server.owner).1;
        if !fits(of_owner, limits.bytes_of_one) {
            self.evict_from(server.owner, now);
            if !fits(self.held(server.owner).1, limits.bytes_of_one) {
                return false;
            }
        }
        if !fits(self.bytes(), limits.bytes) {
            self.evict_from_largest(server.owner, |(_, bytes)| bytes);
            if !fits(self.bytes(), limits.bytes) {
                return false;
            }
        }
        let freed = self.item_mut(server, key).map(|item| item.keep(text));
        if let (Some(freed), Some(holdings)) = (freed, self.owners.get_mut(&server.owner)) {
            holdings.bytes = (holdings.bytes + text.bytes()).saturating_sub(freed);
        }
        true
    }

    /// Items and bytes of an owner.
    fn held(&self, owner: Owner) -> (usize, u64) {
        let holdings = self.owners.get(&owner);
        holdings.map_or((0, 0), |held| (held.items, held.bytes))
    }

    /// Bytes of definitions of all owners.
    pub(super) fn bytes(&self) -> u64 {
        self.owners.values().map(|held| held.bytes).sum()
    }

    /// Makes an owner give up items. Returns whether that is possible.
    fn evict_from(&mut self, owner: Owner, now: Timestamp) -> bool {
        let Some(holdings) = self.owners.get(&owner) else {
            return false;
        };
        if now < holdings.nothing_before {
            return false;
        }
        let mut candidates = self.undecided(owner);
        let goes = |seen: &Timestamp| now.nanos_since(*seen) >= MAKES_ROOM_AFTER;
        let oldest = candidates.first().map_or(now, |(seen, ..)| *seen);
        candidates.retain(|(seen, ..)| goes(seen));
        if candidates.is_empty() {
            // Whatever is seen meanwhile is even younger.
            if let Some(holdings) = self.owners.get_mut(&owner) {
                holdings.nothing_before = Timestamp(oldest.0.saturating_add(MAKES_ROOM_AFTER));
            }
            return false;
        }
        self.evict_oldest(owner, candidates);
        true
    }

    /// Makes the owner who holds the most give up items for one who holds less. Returns whether that is possible.
    fn evict_from_largest(&mut self, asking: Owner, size: impl Fn((usize, u64)) -> u64) -> bool {
        let sizes = self
            .owners
            .keys()
            .map(|owner| (size(self.held(*owner)), *owner));
        let Some((largest, owner)) = sizes.max() else {
            return false;
        };
        let own = size(self.held(asking));
        if owner == asking || largest <= own {
            return false;
        }
        let count = usize::try_from((largest - own) / 2).unwrap_or(AT_ONCE);
        let mut candidates = self.undecided(owner);
        candidates.truncate(count.max(1));
        let is_possible = !candidates.is_empty();
        self.evict_oldest(owner, candidates);
        is_possible
    }

    /// The items of an owner without a decision, least recently seen first.
    fn undecided(&self, owner: Owner) -> Vec<(Timestamp, Arc<str>, ItemKey)> {
        let mut undecided = Vec::new();
        for (server, items) in self
            .owners
            .get(&owner)
            .into_iter()
            .flat_map(|held| &held.servers)
        {
            let of_server = items
                .iter()
                .filter(|(_, item)| !item.decided || owner == Owner::Earlier);
            undecided.extend(
                of_server.map(|(key, item)| (item.last_seen, Arc::clone(server), key.clone())),
            );
        }
        // The maps have no order, and equal inputs must lead to equal writes.
        undecided.sort_unstable();
        undecided
    }

    fn evict_oldest(&mut self, owner: Owner, candidates: Vec<(Timestamp, Arc<str>, ItemKey)>) {
        for (_, server, key) in candidates.into_iter().take(AT_ONCE) {
            self.remove(ServerOf::new(owner, &server), &key);
            self.record(Write::Evicted { owner, server, key });
        }
    }
}
