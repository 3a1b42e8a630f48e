//! What a server offers in a session, and what of it was reported.

use std::collections::{HashMap, HashSet};

use crate::model::{DefinitionHash, ItemKind};
use crate::registry::ItemKey;
use crate::session::listing::Listings;

/// Definitions of one session that are remembered as told. A session that shows more starts over.
const MAX_TOLD: usize = 16_384;

/// What a server offers in a session.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    pub(super) listings: Listings,
    told: HashSet<(ItemKind, DefinitionHash)>,
    changes_told: HashMap<ItemKey, u16>,
    removals_told: HashSet<Box<str>>,
    /// Whether the server's program is of the vendor that was accepted, once that is known.
    pub(super) same_vendor: Option<bool>,
    /// Changes that a policy accepts if it is.
    pub(super) waiting: Vec<(ItemKey, DefinitionHash)>,
}

impl Definitions {
    /// Notes that messages were lost.
    pub(super) fn gap(&mut self) {
        self.listings.gap();
    }

    /// Whether this definition is to be told.
    pub(super) fn is_news(&mut self, kind: ItemKind, hash: DefinitionHash) -> bool {
        if self.told.len() >= MAX_TOLD {
            self.told.clear();
            self.changes_told.clear();
        }
        self.told.insert((kind, hash))
    }

    /// The number of a change of this item, from 1.
    pub(super) fn count_change(&mut self, key: &ItemKey) -> u16 {
        let told = self.changes_told.entry(key.clone()).or_default();
        *told = told.saturating_add(1);
        *told
    }

    /// Whether the removal of this tool is to be reported.
    pub(super) fn is_new_removal(&mut self, name: &str) -> bool {
        self.removals_told.len() < MAX_TOLD && self.removals_told.insert(name.into())
    }
}
