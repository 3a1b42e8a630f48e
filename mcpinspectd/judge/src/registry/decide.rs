//! What people decide about items, and how the daemon learns of it.
//!
//! A decision is made by any process that has the registry open: the daemon for a caller on the bus,
//! or a person's command for itself. It is written in one transaction with the pin that it moves. Every
//! process follows the decisions that it finds written, including its own; and the daemon takes out each
//! decision once to make an event of it, whichever process made it and whether or not the daemon was
//! running at the time, so that the record of who accepted what has no gaps.

use std::sync::mpsc::sync_channel;

use mcpinspect_core::mcp::json;
use mcpinspect_core::model::{DefinitionHash, Timestamp};

use super::item::{DecidedBy, Decision, DecisionKind, ItemDecision, ItemKey};
use super::owner::ServerOf;
use super::pins::Registry;
use super::storage::{DecisionWrite, StorageError, Write};

/// Maximum length of a reason, in bytes; longer ones are cut.
const MAX_REASON: usize = 1024;

/// Most decisions to take out at once.
const MAX_TAKEN: usize = 64;

/// Why a decision was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such item.
    #[error("unknown item")]
    UnknownItem,
    /// The item never had such a definition.
    #[error("no definition of this item with hash {hash} was ever seen")]
    UnknownDefinition {
        /// The hash that was given.
        hash: DefinitionHash,
    },
    /// The storage failed.
    #[error("cannot write the tool registry: {0}")]
    Storage(#[from] StorageError),
}

/// Who decides, when, and why.
#[derive(Clone, Copy, Debug)]
pub struct Attribution<'a> {
    /// The person, or the policy.
    pub by: DecidedBy,
    /// When.
    pub time: Timestamp,
    /// Why, in that person's words; for a policy, the condition that was met.
    pub reason: &'a str,
}

impl Registry {
    /// Carries out a decision about an item and its definition with this `hash`, by default the one
    /// seen last. Returns that definition's hash once the decision is stored.
    ///
    /// # Errors
    /// If there is no such item or definition, or the decision cannot be stored.
    pub fn decide(
        &mut self,
        server: ServerOf<'_>,
        key: &ItemKey,
        kind: DecisionKind,
        hash: Option<DefinitionHash>,
        by: Attribution<'_>,
    ) -> Result<DefinitionHash, DecideError> {
        let (done, result) = sync_channel(1);
        self.decide_then(server, key, kind, hash, by, move |decided| {
            // The receiver is below.
            let _ = done.send(decided);
        });
        let result = result.recv().unwrap_or_else(|_| {
            let error = StorageError("the storage was closed".to_owned());
            Err(error.into())
        });
        self.follow();
        result
    }

    /// Like [`Self::decide`], but does not wait until the decision is stored: calls `done` then, possibly
    /// on another thread. The pin moves when [`Self::refresh`] finds the decision stored.
    pub fn decide_then(
        &mut self,
        server: ServerOf<'_>,
        key: &ItemKey,
        kind: DecisionKind,
        hash: Option<DefinitionHash>,
        by: Attribution<'_>,
        done: impl FnOnce(Result<DefinitionHash, DecideError>) + Send + 'static,
    ) {
        self.save(by.time);
        self.refresh();
        let hash = match self.decidable(server, key, hash) {
            Ok(hash) => hash,
            Err(error) => return done(Err(error)),
        };
        let write = write(server, key, kind, hash, by);
        self.storage.decide(
            write,
            Box::new(move |stored| {
                done(match stored {
                    Ok(true) => Ok(hash),
                    Ok(false) => Err(DecideError::UnknownItem),
                    Err(error) => Err(error.into()),
                });
            }),
        );
    }

    /// Accepts a definition that was just observed, because the policy does. The decision is stored
    /// like an observation: if the storage fails, memory goes on and the write is retried.
    ///
    /// # Errors
    /// If there is no such item.
    pub fn accept(
        &mut self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
        time: Timestamp,
        reason: &str,
    ) -> Result<(), DecideError> {
        let item = self.item_mut(server, key).ok_or(DecideError::UnknownItem)?;
        item.pinned = Some(hash);
        item.decided = true;
        let by = Attribution {
            by: DecidedBy::Policy,
            time,
            reason,
        };
        let write = write(server, key, DecisionKind::Approve, hash, by);
        self.record(Write::Decided(write));
        self.save(time);
        Ok(())
    }

    /// Forgets all items of a server in one transaction, and returns how many there were.
    ///
    /// # Errors
    /// If the server has no items, or the decision cannot be stored.
    pub fn forget_server(
        &mut self,
        server: ServerOf<'_>,
        by: Attribution<'_>,
    ) -> Result<usize, DecideError> {
        self.refresh();
        let items: Vec<_> = self
            .items_of(server)
            .map(|(key, item)| (key.clone(), item.current))
            .collect();
        if items.is_empty() {
            return Err(DecideError::UnknownItem);
        }
        for (key, hash) in &items {
            let write = write(server, key, DecisionKind::Forget, *hash, by);
            self.record(Write::Decided(write));
        }
        self.save(by.time);
        if let Some(error) = self.health().error {
            return Err(StorageError(error).into());
        }
        self.follow();
        Ok(items.len())
    }

    /// The definition that a decision concerns, if there is such an item and definition.
    fn decidable(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: Option<DefinitionHash>,
    ) -> Result<DefinitionHash, DecideError> {
        let item = self.item(server, key).ok_or(DecideError::UnknownItem)?;
        let hash = hash.unwrap_or(item.current);
        match self.storage.definition(server, key, hash)? {
            Some(_) => Ok(hash),
            None => Err(DecideError::UnknownDefinition { hash }),
        }
    }

    /// The decisions that have not been taken out yet, oldest first; at most the first 64. Costs only a look
    /// at a counter if there are none. Call [`Self::save`] after reporting them: decisions that were
    /// taken out but not saved are taken out again after a restart.
    pub fn take_decisions(&mut self) -> Vec<ItemDecision> {
        self.refresh();
        if !self.untold {
            return Vec::new();
        }
        let decisions = self.storage.untold(self.taken, MAX_TAKEN);
        let Some(decisions) = self.read(decisions) else {
            return Vec::new();
        };
        self.untold = decisions.len() == MAX_TAKEN;
        decisions
            .into_iter()
            .map(|(decision, decided)| {
                self.taken = decision;
                self.record(Write::Reported { decision });
                decided
            })
            .collect()
    }
}

fn write(
    server: ServerOf<'_>,
    key: &ItemKey,
    kind: DecisionKind,
    hash: DefinitionHash,
    by: Attribution<'_>,
) -> DecisionWrite {
    let pin = match kind {
        DecisionKind::Approve | DecisionKind::Pin => Some(Some(hash)),
        DecisionKind::Unpin | DecisionKind::Forget => Some(None),
        DecisionKind::Reject | DecisionKind::Revoke => None,
    };
    DecisionWrite {
        owner: server.owner,
        server: server.server.into(),
        key: key.clone(),
        decision: Decision {
            kind,
            hash: Some(hash),
            by: by.by,
            time: by.time,
            reason: json::cut(by.reason, MAX_REASON).to_owned(),
        },
        pin,
    }
}
