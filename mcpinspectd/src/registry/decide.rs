//! What people decide about items, and how the daemon hears of it.
//!
//! A decision is made by whoever has the registry open: the daemon for a caller on the bus, or a
//! person's command for itself. It is written with the pin that it moves, in one transaction. The
//! daemon takes out each decision once to make an event of it, whoever made it and whether or not
//! the daemon was running then, so that the record of who accepted what has no holes.

use super::item::{By, Decided, Decision, ItemKey, Verb};
use super::store::Write;
use super::{Registry, json};
use crate::model::DefinitionHash;
use crate::model::Timestamp;

/// How much of a reason is kept, in bytes.
const MAX_REASON: usize = 1024;

/// Decisions that are taken out at one time.
const MAX_TAKEN: usize = 64;

/// Why a decision was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such item.
    #[error("no such item is known")]
    UnknownItem,
    /// The item never had such a definition.
    #[error("{hash} is not a definition that was seen of this item")]
    UnknownDefinition {
        /// The hash that was given.
        hash: DefinitionHash,
    },
    /// The database does not do it.
    #[error("the tool registry could not be written: {0}")]
    Storage(#[from] rusqlite::Error),
}

/// Who decides, when, and why.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    /// The person, or the policy.
    pub by: By,
    /// When.
    pub time: Timestamp,
    /// Why, in that person's words; for a policy, what it was satisfied with.
    pub reason: &'a str,
}

impl Registry {
    /// Does what `verb` says about an item and its definition of `hash`, or else the one that was
    /// seen last. Returns that definition's hash.
    ///
    /// # Errors
    /// Where there is no such item or definition, or it cannot be written.
    pub fn decide(
        &mut self,
        server: &str,
        key: &ItemKey,
        verb: Verb,
        hash: Option<DefinitionHash>,
        by: Who<'_>,
    ) -> Result<DefinitionHash, DecideError> {
        if !self.unsaved.is_empty() {
            self.retry_at = Timestamp(0);
            self.save(by.time);
        }
        self.refresh();
        let item = self
            .servers
            .get_mut(server)
            .and_then(|items| items.get_mut(key))
            .ok_or(DecideError::UnknownItem)?;
        let hash = hash.unwrap_or(item.current);
        if self.store.definition(server, key, hash)?.is_none() {
            return Err(DecideError::UnknownDefinition { hash });
        }
        let pin = match verb {
            Verb::Approve | Verb::Pin => Some(Some(hash)),
            Verb::Unpin => Some(None),
            Verb::Reject => None,
        };
        let decision = Decision {
            verb,
            hash: Some(hash),
            by: by.by,
            time: by.time,
            reason: json::cut(by.reason, MAX_REASON).to_owned(),
        };
        if !self.store.decide(server, key, &decision, pin)? {
            return Err(DecideError::UnknownItem);
        }
        if let Some(pin) = pin {
            item.pinned = pin;
        }
        self.undelivered = true;
        Ok(hash)
    }

    /// The decisions that have not been taken out yet, oldest first; some of them, where there are
    /// many. Costs a look at a counter where there are none. Call [`Self::save`] once they are told:
    /// what is taken out and not saved is taken out again after a restart.
    pub fn take_decisions(&mut self) -> Vec<Decided> {
        self.refresh();
        if !self.undelivered {
            return Vec::new();
        }
        match self.store.untold(self.delivered, MAX_TAKEN) {
            Ok(decisions) => {
                self.undelivered = decisions.len() == MAX_TAKEN;
                decisions
                    .into_iter()
                    .map(|(decision, decided)| {
                        self.delivered = decision;
                        self.unsaved.push(Write::Told { decision });
                        decided
                    })
                    .collect()
            }
            Err(error) => {
                self.failed(&error);
                Vec::new()
            }
        }
    }
}
