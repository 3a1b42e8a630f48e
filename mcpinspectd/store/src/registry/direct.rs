//! A storage that writes at once: for a person's commands, tests and benchmarks.

use std::sync::Arc;

use mcpinspect_core::model::{DefinitionHash, Timestamp};
use mcpinspect_judge::registry::{
    Contents, Decision, DecisionDone, DecisionWrite, DefinitionVersion, ItemDecision, ItemKey,
    ItemView, ServerOf, ServerUsage, Storage, StorageError, StorageHealth, StoredItem, Write,
};

use super::backlog::{Backlog, cut_at_moved};
use super::database::{Commit as _, Database};
use super::values::failed;

/// Writes on the calling thread. What was recorded is on disk when [`Storage::record`] returns.
#[derive(Debug)]
pub(super) struct DirectStorage {
    database: Database,
    backlog: Backlog,
    /// The data version when last checked, which only other connections change.
    data_version: i64,
    /// Whether this connection wrote a decision since then.
    decided: bool,
}

impl DirectStorage {
    pub(super) fn new(database: Database) -> Result<Self, StorageError> {
        Ok(Self {
            data_version: database.data_version().map_err(failed)?,
            database,
            backlog: Backlog::default(),
            decided: false,
        })
    }

    fn flush(&mut self, now: Timestamp) -> Result<(), StorageError> {
        let result = self.database.write(&mut self.backlog.iter());
        match &result {
            Ok(()) => self.backlog.stored(self.backlog.len()),
            Err(error) => {
                self.backlog.failed(error.clone(), now);
            }
        }
        result
    }

    #[cfg(test)]
    pub(super) fn database(&self) -> &Database {
        &self.database
    }
}

impl Storage for DirectStorage {
    fn load(&mut self) -> Result<Contents, StorageError> {
        self.database.load().map_err(failed)
    }

    fn record(&mut self, writes: Vec<Write>, now: Timestamp) {
        self.decided |= writes
            .iter()
            .any(|write| matches!(write, Write::Decided(_)));
        self.backlog.extend(writes);
        self.backlog.give_up_excess();
        if !self.backlog.is_empty() && !self.backlog.is_backing_off(now) {
            // A failure is part of the storage's health.
            let _ = self.flush(now);
        }
    }

    fn is_settled(&self) -> bool {
        true
    }

    fn health(&self) -> StorageHealth {
        self.backlog.health()
    }

    fn decide(&mut self, decision: DecisionWrite, done: DecisionDone) {
        let recorded = match self.backlog.is_empty() {
            true => Ok(()),
            false => self.flush(decision.decision.time),
        };
        let result = recorded.and_then(|()| self.database.decide(&decision));
        self.decided |= result.is_ok();
        done(result);
    }

    fn has_changed(&mut self) -> Result<bool, StorageError> {
        let before = std::mem::replace(
            &mut self.data_version,
            self.database.data_version().map_err(failed)?,
        );
        Ok(std::mem::take(&mut self.decided) || before != self.data_version)
    }

    fn decided_after(&mut self, decision: i64) -> Result<Vec<(i64, StoredItem)>, StorageError> {
        let mut decided = self.database.decided_after(decision).map_err(failed)?;
        self.decided |= cut_at_moved(&mut decided, &self.backlog.moved_pins());
        Ok(decided)
    }

    fn untold(
        &mut self,
        decision: i64,
        limit: usize,
    ) -> Result<Vec<(i64, ItemDecision)>, StorageError> {
        self.database.untold(decision, limit).map_err(failed)
    }

    fn definition(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> Result<Option<Arc<str>>, StorageError> {
        if let Some(text) = self.backlog.definition(server, key, hash) {
            return Ok(Some(text));
        }
        let former = self.backlog.former(server);
        self.database
            .definition(server, former.as_deref(), key, hash)
            .map_err(failed)
    }

    fn versions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> Result<Vec<DefinitionVersion>, StorageError> {
        self.database.versions(server, key).map_err(failed)
    }

    fn decisions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> Result<Vec<Decision>, StorageError> {
        self.database.decisions(server, key).map_err(failed)
    }

    fn items(&self, server: Option<&str>) -> Result<Vec<ItemView>, StorageError> {
        self.database.items(server).map_err(failed)
    }

    fn usage(&self) -> Result<Vec<ServerUsage>, StorageError> {
        self.database.usage().map_err(failed)
    }
}
