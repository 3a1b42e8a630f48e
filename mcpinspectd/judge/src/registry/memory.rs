//! A storage that ends with the process: for `tap`, for tests, and for programs that judge messages
//! without remembering anything.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use mcpinspect_core::model::{DefinitionHash, Timestamp};

use super::item::{
    DecidedBy, Decision, DecisionKind, DefinitionVersion, ItemDecision, ItemKey, ItemView,
    ServerUsage,
};
use super::kept_text::KeptText;
use super::owner::{Owner, ServerOf};
use super::storage::{
    Contents, DecisionDone, DecisionWrite, MAX_VERSIONS, Storage, StorageError, StorageHealth,
    StoredItem, Write,
};

/// Keeps everything in memory, by the rules of the database.
#[derive(Debug, Default)]
pub struct MemoryStorage {
    items: BTreeMap<SortKey, Item>,
    names: Vec<(Owner, Arc<str>, Arc<str>)>,
    /// The last number given to a decision.
    last_decision: i64,
    /// Whether a decision was made since [`Storage::has_changed`] was called.
    decided: bool,
}

/// Orders items as lists show them: by server, by owner, by the word of the kind, by name.
type SortKey = (Arc<str>, Owner, &'static str, Box<str>);

#[derive(Debug)]
struct Item {
    key: ItemKey,
    pinned: Option<DefinitionHash>,
    pinned_at: Option<Timestamp>,
    pinned_by: Option<DecidedBy>,
    current: DefinitionHash,
    removed_at: Option<Timestamp>,
    forgotten: bool,
    versions: Vec<DefinitionVersion>,
    decisions: Vec<NumberedDecision>,
}

#[derive(Debug)]
struct NumberedDecision {
    number: i64,
    reported: bool,
    decision: Decision,
}

fn sort_key(server: ServerOf<'_>, key: &ItemKey) -> SortKey {
    let kind = key.kind.as_str();
    (server.server.into(), server.owner, kind, key.name.clone())
}

impl MemoryStorage {
    fn item(&self, server: ServerOf<'_>, key: &ItemKey) -> Option<&Item> {
        self.items.get(&sort_key(server, key))
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::Seen {
                owner,
                server,
                key,
                hash,
                definition,
                time,
                session,
                pin,
            } => {
                let sort_key = sort_key(ServerOf::new(owner, &server), &key);
                let item = self.items.entry(sort_key).or_insert(Item {
                    key,
                    pinned: None,
                    pinned_at: None,
                    pinned_by: None,
                    current: hash,
                    removed_at: None,
                    forgotten: false,
                    versions: Vec::new(),
                    decisions: Vec::new(),
                });
                item.seen(hash, definition, time, session, pin);
            }
            Write::Removed {
                owner,
                server,
                key,
                time,
            } => {
                let sort_key = sort_key(ServerOf::new(owner, &server), &key);
                if let Some(item) = self.items.get_mut(&sort_key) {
                    item.removed_at = Some(time);
                }
            }
            Write::Adopted {
                owner,
                from,
                server,
                key,
                hash,
            } => {
                let old = self
                    .items
                    .get(&sort_key(ServerOf::new(from, &server), &key));
                if let Some(copy) = old.map(|old| old.adopted(hash)) {
                    let sort_key = sort_key(ServerOf::new(owner, &server), &key);
                    self.items.entry(sort_key).or_insert(copy);
                }
            }
            Write::Named {
                owner,
                name,
                fingerprint,
                former,
                ..
            } => {
                if let Some(former) = former {
                    self.inherit(ServerOf::new(owner, &former), &name);
                }
                let is_new =
                    |(by, known, _): &(Owner, Arc<str>, Arc<str>)| *by != owner || *known != name;
                if self.names.iter().all(is_new) {
                    self.names.push((owner, name, fingerprint));
                }
            }
            Write::Evicted { owner, server, key } => {
                let sort_key = sort_key(ServerOf::new(owner, &server), &key);
                let goes = |item: &Item| !item.is_decided() || owner == Owner::Earlier;
                if self.items.get(&sort_key).is_some_and(goes) {
                    self.items.remove(&sort_key);
                }
            }
            Write::Decided(decision) => {
                self.write_decision(decision);
            }
            Write::Reported { decision } => {
                let mut decisions = self.items.values_mut().flat_map(|item| &mut item.decisions);
                if let Some(found) = decisions.find(|found| found.number == decision) {
                    found.reported = true;
                }
            }
        }
    }

    /// The items that lists show.
    fn shown(&self) -> impl Iterator<Item = (&Arc<str>, Owner, &Item)> {
        let is_shown = |(server, owner, kind, name): &SortKey| {
            let is_the_same = |(of, by, other, called): &SortKey| {
                of == server && *by != Owner::Earlier && other == kind && called == name
            };
            *owner != Owner::Earlier || !self.items.keys().any(is_the_same)
        };
        let known = self.items.iter().filter(|(_, item)| !item.forgotten);
        known
            .filter(move |(sort_key, _)| is_shown(sort_key))
            .map(|((server, owner, ..), item)| (server, *owner, item))
    }

    fn inherit(&mut self, from: ServerOf<'_>, to: &Arc<str>) {
        let ServerOf { owner, server } = from;
        let old = self
            .items
            .iter()
            .filter(|((of, by, ..), item)| **of == *server && *by == owner && !item.forgotten);
        let copies: Vec<_> = old
            .map(|(_, item)| (sort_key(ServerOf::new(owner, to), &item.key), item.copy()))
            .collect();
        for (sort_key, copy) in copies {
            self.items.entry(sort_key).or_insert(copy);
        }
    }

    /// Stores a decision. Returns whether there is such an item.
    fn write_decision(&mut self, write: DecisionWrite) -> bool {
        let DecisionWrite {
            owner,
            server,
            key,
            decision,
            pin,
        } = write;
        let server = ServerOf::new(owner, &server);
        if decision.kind == DecisionKind::Forget && owner != Owner::Earlier {
            self.items
                .remove(&sort_key(server.of(Owner::Earlier), &key));
        }
        let Some(item) = self.items.get_mut(&sort_key(server, &key)) else {
            return false;
        };
        if decision.kind == DecisionKind::Forget {
            item.forgotten = true;
            item.versions.clear();
        }
        if let Some(pin) = pin {
            item.pinned = pin;
            item.pinned_by = pin.map(|_| decision.by);
            item.pinned_at = pin.map(|_| decision.time);
        }
        self.last_decision += 1;
        self.decided = true;
        let is_policy = decision.by == DecidedBy::Policy;
        item.decisions.push(NumberedDecision {
            number: self.last_decision,
            reported: false,
            decision,
        });
        if is_policy {
            item.prune_decisions();
        }
        true
    }
}

impl Item {
    fn seen(
        &mut self,
        hash: DefinitionHash,
        definition: Arc<str>,
        time: Timestamp,
        session: Arc<str>,
        pin: bool,
    ) {
        self.current = hash;
        self.removed_at = None;
        self.forgotten = false;
        if pin && self.pinned.is_none() {
            self.pinned = Some(hash);
            self.pinned_at = Some(time);
        }
        match self.versions.iter_mut().find(|known| known.hash == hash) {
            Some(known) => known.last_seen = time,
            None => self.versions.push(DefinitionVersion {
                hash,
                definition,
                first_seen: time,
                first_session: session.to_string(),
                last_seen: time,
            }),
        }
        if !pin {
            self.prune_versions();
        }
    }

    /// A copy for a server that starts with this one's pin: without its history.
    fn copy(&self) -> Self {
        let versions = self.versions.iter();
        let is_needed = |version: &&DefinitionVersion| {
            Some(version.hash) == self.pinned || version.hash == self.current
        };
        Self {
            key: self.key.clone(),
            versions: versions.filter(is_needed).cloned().collect(),
            decisions: Vec::new(),
            ..*self
        }
    }

    /// A copy for an owner who takes this one over and has shown the definition with this hash.
    fn adopted(&self, hash: DefinitionHash) -> Self {
        let shown = self.versions.iter().filter(|version| version.hash == hash);
        let reported = self.decisions.iter().map(|numbered| NumberedDecision {
            number: numbered.number,
            reported: true,
            decision: numbered.decision.clone(),
        });
        Self {
            key: self.key.clone(),
            current: hash,
            removed_at: None,
            versions: shown.cloned().collect(),
            decisions: reported.collect(),
            ..*self
        }
    }

    /// Drops definitions above [`MAX_VERSIONS`]: a server that changes with every listing must not
    /// fill the memory.
    fn prune_versions(&mut self) {
        let decided: HashSet<_> = self
            .decisions
            .iter()
            .filter_map(|numbered| numbered.decision.hash)
            .collect();
        let mut others: Vec<_> = self
            .versions
            .iter()
            .filter(|version| {
                Some(version.hash) != self.pinned
                    && version.hash != self.current
                    && !decided.contains(&version.hash)
            })
            .map(|version| (version.last_seen, version.hash))
            .collect();
        if others.len() > MAX_VERSIONS {
            others.sort_unstable();
            others.truncate(others.len() - MAX_VERSIONS);
            let dropped: HashSet<_> = others.into_iter().map(|(_, hash)| hash).collect();
            self.versions
                .retain(|version| !dropped.contains(&version.hash));
        }
    }

    /// Drops decisions by a policy above [`MAX_VERSIONS`]. A person's decisions stay.
    fn prune_decisions(&mut self) {
        let is_policy = |numbered: &NumberedDecision| numbered.decision.by == DecidedBy::Policy;
        let policy = self.decisions.iter().filter(|one| is_policy(one)).count();
        let mut excess = policy.saturating_sub(MAX_VERSIONS);
        self.decisions.retain(|numbered| {
            if excess == 0 || !is_policy(numbered) {
                return true;
            }
            excess -= 1;
            !numbered.reported
        });
    }

    /// Whether a person or the policy decided on it.
    fn is_decided(&self) -> bool {
        let mut decisions = self.decisions.iter();
        decisions.any(|one| one.decision.by != DecidedBy::List)
    }

    /// The standing approval of a definition by a list.
    fn listing(&self, hash: DefinitionHash) -> Option<&Decision> {
        let decisions = self.decisions.iter().map(|one| &one.decision);
        let mut by_list = decisions.filter(|decision| decision.by == DecidedBy::List);
        let last = by_list.rfind(|decision| decision.hash == Some(hash))?;
        (last.kind == DecisionKind::Approve).then_some(last)
    }

    fn listed(&self) -> Vec<DefinitionHash> {
        let hashes = self.decisions.iter().filter_map(|one| one.decision.hash);
        let mut listed: Vec<_> = hashes
            .filter(|hash| self.listing(*hash).is_some())
            .collect();
        listed.sort_unstable();
        listed.dedup();
        listed
    }

    fn stored(&self, server: &Arc<str>, owner: Owner) -> StoredItem {
        let current = self.versions.iter().find(|one| one.hash == self.current);
        let texts = self.versions.iter();
        let texts = texts.map(|version| KeptText::new(version.hash, version.definition.len()));
        StoredItem {
            owner,
            server: Arc::clone(server),
            key: self.key.clone(),
            pinned: self.pinned,
            current: self.current,
            removed: self.removed_at.is_some(),
            last_seen: current.map(|version| version.last_seen).unwrap_or_default(),
            forgotten: self.forgotten,
            decided: self.is_decided(),
            listed: self.listed(),
            texts: texts.collect(),
        }
    }

    fn view(&self, server: &Arc<str>, owner: Owner) -> ItemView {
        let first_seen = self.versions.iter().map(|version| version.first_seen).min();
        ItemView {
            owner,
            server: server.to_string(),
            key: self.key.clone(),
            pinned: self.pinned,
            pinned_at: self.pinned_at,
            pinned_by: self.pinned_by,
            current: self.current,
            removed_at: self.removed_at,
            first_seen: first_seen.unwrap_or_default(),
            last_seen: self.stored(server, owner).last_seen,
            last_decision: self.decisions.last().map(|one| one.decision.clone()),
            listed: self.listing(self.current).map(|one| one.reason.clone()),
        }
    }
}

impl Storage for MemoryStorage {
    fn load(&mut self) -> Result<Contents, StorageError> {
        Ok(Contents {
            items: self
                .items
                .iter()
                .filter(|(_, item)| !item.forgotten)
                .map(|((server, owner, ..), item)| item.stored(server, *owner))
                .collect(),
            names: self.names.clone(),
            last_decision: self.last_decision,
        })
    }

    fn record(&mut self, writes: Vec<Write>, _now: Timestamp) {
        for write in writes {
            self.write(write);
        }
    }

    fn is_settled(&self) -> bool {
        true
    }

    fn health(&self) -> StorageHealth {
        StorageHealth::default()
    }

    fn decide(&mut self, decision: DecisionWrite, done: DecisionDone) {
        done(Ok(self.write_decision(decision)));
    }

    fn has_changed(&mut self) -> Result<bool, StorageError> {
        Ok(std::mem::take(&mut self.decided))
    }

    fn decided_after(&mut self, decision: i64) -> Result<Vec<(i64, StoredItem)>, StorageError> {
        let mut found: Vec<_> = self
            .items
            .iter()
            .flat_map(|((server, owner, ..), item)| {
                let numbers = item.decisions.iter().map(|numbered| numbered.number);
                numbers.map(move |number| (number, item.stored(server, *owner)))
            })
            .filter(|(number, _)| *number > decision)
            .collect();
        found.sort_unstable_by_key(|(number, _)| *number);
        Ok(found)
    }

    fn untold(
        &mut self,
        decision: i64,
        limit: usize,
    ) -> Result<Vec<(i64, ItemDecision)>, StorageError> {
        let mut found: Vec<_> = self
            .items
            .iter()
            .flat_map(|((server, owner, ..), item)| {
                let untold = item
                    .decisions
                    .iter()
                    .filter(|numbered| !numbered.reported && numbered.number > decision);
                untold.map(move |numbered| {
                    let decided = ItemDecision {
                        owner: *owner,
                        server: server.to_string(),
                        key: item.key.clone(),
                        decision: numbered.decision.clone(),
                    };
                    (numbered.number, decided)
                })
            })
            .collect();
        found.sort_unstable_by_key(|(number, _)| *number);
        found.truncate(limit);
        Ok(found)
    }

    fn definition(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> Result<Option<Arc<str>>, StorageError> {
        let versions = self.item(server, key).map(|item| &item.versions);
        Ok(versions
            .into_iter()
            .flatten()
            .find(|version| version.hash == hash)
            .map(|version| Arc::clone(&version.definition)))
    }

    fn versions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> Result<Vec<DefinitionVersion>, StorageError> {
        let item = self.item(server, key);
        let mut versions = item.map(|item| item.versions.clone()).unwrap_or_default();
        versions.sort_by_key(|version| version.first_seen);
        Ok(versions)
    }

    fn decisions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> Result<Vec<Decision>, StorageError> {
        let item = self.item(server, key);
        Ok(item
            .into_iter()
            .flat_map(|item| &item.decisions)
            .map(|numbered| numbered.decision.clone())
            .collect())
    }

    fn items(&self, server: Option<&str>) -> Result<Vec<ItemView>, StorageError> {
        Ok(self
            .shown()
            .filter(|(of, _, _)| server.is_none_or(|server| ***of == *server))
            .map(|(server, owner, item)| item.view(server, owner))
            .collect())
    }

    fn usage(&self) -> Result<Vec<ServerUsage>, StorageError> {
        let mut usage: Vec<ServerUsage> = Vec::new();
        for (server, owner, item) in self.shown() {
            let seen = item.versions.iter();
            let first_seen = seen.clone().map(|version| version.first_seen).min();
            let last_seen = seen.clone().map(|version| version.last_seen).max();
            let one = ServerUsage {
                owner,
                server: server.to_string(),
                items: 1,
                decided: u64::from(item.is_decided()),
                versions: item.versions.len() as u64,
                definition_bytes: seen.map(|version| version.definition.len() as u64).sum(),
                first_seen: first_seen.unwrap_or_default(),
                last_seen: last_seen.unwrap_or_default(),
            };
            let is_same =
                |last: &&mut ServerUsage| last.server == one.server && last.owner == owner;
            match usage.last_mut().filter(is_same) {
                Some(last) => {
                    last.items += one.items;
                    last.decided += one.decided;
                    last.versions += one.versions;
                    last.definition_bytes += one.definition_bytes;
                    last.first_seen = last.first_seen.min(one.first_seen);
                    last.last_seen = last.last_seen.max(one.last_seen);
                }
                None => usage.push(one),
            }
        }
        Ok(usage)
    }
}
