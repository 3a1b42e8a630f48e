//! Names of servers, and items that pass from one name or owner to another.
//!
//! A server keeps its pins when it gets a better name, and a user keeps those from before pins had owners.
//! Neither may reveal what another user's server offered.

use std::sync::Arc;

use mcpinspect_core::model::{DefinitionHash, ServerIdentity, Timestamp};
use serde_json::value::RawValue;

use super::{Item, Registry, Sighting};
use crate::registry::item::ItemKey;
use crate::registry::owner::{Owner, ServerOf};
use crate::registry::storage::{StoredItem, Write};

impl Registry {
    /// Records that a server has its name from now on, unless the name belongs to another. A server that
    /// had a different name before starts with the items of that name, which keeps them too: another server
    /// may have used it. Call [`Self::save`] afterwards.
    pub fn assign_name(&mut self, owner: Owner, server: &ServerIdentity, time: Timestamp) {
        // A server that was not identified has that name once, and never again.
        if server.name_source == "unknown" {
            return;
        }
        self.claim_name(owner, server, time);
        // What was pinned under the former name before pins had owners can be taken over under this one.
        if let Some(former) = &server.former
            && self.names.knows(Owner::Earlier, &former.server_id.0)
        {
            self.claim_name(Owner::Earlier, server, time);
        }
    }

    fn claim_name(&mut self, owner: Owner, server: &ServerIdentity, time: Timestamp) {
        let name = &server.server_id.0;
        let fingerprint: Arc<str> = server.fingerprint.as_str().into();
        let former = server.former.as_ref().filter(|former| {
            let claimed = self.names.fingerprint(owner, &former.server_id.0);
            claimed.is_some_and(|claimed| **claimed == *former.fingerprint)
        });
        let former = former.map(|former| Arc::clone(&former.server_id.0));
        if !self.names.claim(owner, name, &fingerprint) {
            return;
        }
        if let Some(former) = &former {
            self.inherit(ServerOf::new(owner, former), name, time);
        }
        self.writes.push(Write::Named {
            owner,
            name: Arc::clone(name),
            fingerprint,
            former,
            time,
        });
    }

    /// Copies the items of a server to another of the same owner, except those that it has.
    fn inherit(&mut self, from: ServerOf<'_>, to: &Arc<str>, time: Timestamp) {
        let items = self.items_by_key(from).cloned().unwrap_or_default();
        let own = ServerOf::new(from.owner, to);
        for (key, item) in items {
            if self.item(own, &key).is_some() {
                continue;
            }
            if self.make_room(own, time).is_err() {
                return;
            }
            self.insert(StoredItem {
                owner: from.owner,
                server: Arc::clone(to),
                key,
                pinned: item.pinned,
                current: item.current,
                removed: item.removed,
                last_seen: item.last_seen,
                forgotten: false,
                // The decisions stay with the former name.
                decided: false,
                listed: Vec::new(),
                texts: item.texts,
            });
        }
    }

    /// Whose item an owner without one takes over when showing a definition with this hash: that of
    /// [`Owner::Earlier`], and for those who share, the one that any of them had before. Nothing may be
    /// learned from it, so the definition has to be the pinned one, or the last one seen if that is
    /// not the pinned one: then the change stays one until it is decided on.
    pub(super) fn adoptable(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> Option<(Owner, &Item)> {
        let shares = |owner: Owner| {
            let sharing = self.names.sharing();
            server.owner == Owner::Shared && owner.uid().is_some_and(|uid| sharing.covers(uid))
        };
        if server.owner == Owner::Earlier {
            return None;
        }
        let others = self.owners.keys().copied();
        let others = others.filter(|other| *other == Owner::Earlier || shares(*other));
        let mut found = others.filter_map(|other| Some((other, self.item(server.of(other), key)?)));
        found.find(|(_, item)| {
            item.pinned
                .is_some_and(|pinned| pinned == hash || item.current == hash)
        })
    }

    /// Takes over another owner's item. If the pin differs from the definition shown, its text stays
    /// where it is, so that no user reads what another had.
    pub(super) fn adopt(
        &mut self,
        sighting: Sighting<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
        definition: &RawValue,
    ) {
        let server = sighting.server_of();
        let Some((from, item)) = self.adoptable(server, key, hash) else {
            return;
        };
        let (pinned, decided) = (item.pinned, item.decided);
        let listed = item.listed.clone();
        let name = Arc::clone(&sighting.server.0);
        self.insert(StoredItem {
            owner: server.owner,
            server: Arc::clone(&name),
            key: key.clone(),
            pinned,
            current: hash,
            removed: false,
            last_seen: sighting.time,
            forgotten: false,
            decided,
            listed,
            texts: Vec::new(),
        });
        self.writes.push(Write::Adopted {
            owner: server.owner,
            from,
            server: name,
            key: key.clone(),
            hash,
        });
        self.record_seen(
            sighting,
            key.clone(),
            hash,
            definition,
            pinned == Some(hash),
        );
    }
}
