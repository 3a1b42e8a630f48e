//! Definitions that signed lists approve: decided elsewhere, for many machines.
//!
//! A list never moves a pin. A definition that it approves counts as accepted for as long as the list
//! says so, and one that it no longer approves stands where it would stand without the list. So
//! nothing has to be undone when an approval is withdrawn, and the order of events does not matter.

use std::collections::{BTreeMap, HashMap};

use mcpinspect_core::model::DefinitionHash;

use super::item::ItemKey;

/// Why a definition that no list mentions any more is not approved.
const GONE: &str = "no list approves it any more";

/// What the signed lists of this machine say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    servers: HashMap<Box<str>, HashMap<ItemKey, BTreeMap<DefinitionHash, ListVerdict>>>,
}

/// What a list decides about a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ListVerdict {
    /// By whom it is approved, and why.
    Approved(String),
    /// Who revoked the approval, and why.
    Revoked(String),
}

impl Listed {
    /// Adds an approval; `why` says by whom.
    pub fn approve(&mut self, server: &str, key: ItemKey, hash: DefinitionHash, why: String) {
        self.at(server, key)
            .insert(hash, ListVerdict::Approved(why));
    }

    /// Adds why something is no longer approved. An approval on another list counts more.
    pub fn revoke(&mut self, server: &str, key: ItemKey, hash: DefinitionHash, why: String) {
        let verdicts = self.at(server, key);
        verdicts.entry(hash).or_insert(ListVerdict::Revoked(why));
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    fn at(&mut self, server: &str, key: ItemKey) -> &mut BTreeMap<DefinitionHash, ListVerdict> {
        let items = self.servers.entry(server.into()).or_default();
        items.entry(key).or_default()
    }

    fn verdict(&self, server: &str, key: &ItemKey, hash: DefinitionHash) -> Option<&ListVerdict> {
        self.servers.get(server)?.get(key)?.get(&hash)
    }

    /// By whom a definition is approved, if it is.
    pub fn approval(&self, server: &str, key: &ItemKey, hash: DefinitionHash) -> Option<&str> {
        match self.verdict(server, key, hash)? {
            ListVerdict::Approved(why) => Some(why),
            ListVerdict::Revoked(_) => None,
        }
    }

    /// Why a definition is not approved.
    pub(super) fn refusal(&self, server: &str, key: &ItemKey, hash: DefinitionHash) -> String {
        match self.verdict(server, key, hash) {
            Some(ListVerdict::Revoked(why)) => why.clone(),
            _ => GONE.to_owned(),
        }
    }
}
