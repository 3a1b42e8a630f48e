//! Reading the registry: for people's commands, and for callers that ask the daemon.

use mcpinspect_core::model::DefinitionHash;
use serde_json::value::RawValue;

use super::decide::DecideError;
use super::diff;
use super::item::{Comparison, Decision, DefinitionVersion, ItemKey, ItemView, ServerUsage};
use super::owner::{Owner, ServerOf};
use super::pins::Registry;
use super::storage::StorageError;

impl Registry {
    /// Whether everything observed is stored. Until then, the lists below may lack the latest;
    /// comparisons and texts never do.
    pub fn is_settled(&self) -> bool {
        self.storage.is_settled()
    }

    /// All items, ordered by server, owner, kind and name.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub fn list(&self) -> Result<Vec<ItemView>, StorageError> {
        self.storage.items(None)
    }

    /// What is stored for each server, ordered by server and owner.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub fn usage(&self) -> Result<Vec<ServerUsage>, StorageError> {
        self.storage.usage()
    }

    /// The items of one server, ordered by owner, kind and name.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub fn list_server(&self, server: &str) -> Result<Vec<ItemView>, StorageError> {
        self.storage.items(Some(server))
    }

    /// Whose items of a server are known, apart from those without an owner.
    pub fn owners<'a>(&'a self, server: &'a str) -> impl Iterator<Item = Owner> + 'a {
        let owners = self.owners_with(server);
        owners.filter(|owner| *owner != Owner::Earlier)
    }

    /// All definitions seen for an item, oldest first.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub fn versions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> Result<Vec<DefinitionVersion>, StorageError> {
        self.storage.versions(server, key)
    }

    /// All decisions on an item, oldest first.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub fn decisions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> Result<Vec<Decision>, StorageError> {
        self.storage.decisions(server, key)
    }

    /// Compares two definitions of an item: by default the pinned one and the one seen last. For callers
    /// that may read everything.
    ///
    /// # Errors
    /// If there is no such item or definition, or the storage cannot be read.
    pub fn compare(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        previous: Option<DefinitionHash>,
        new: Option<DefinitionHash>,
    ) -> Result<Comparison, DecideError> {
        let item = self.item(server, key).ok_or(DecideError::UnknownItem)?;
        let previous = previous.or(item.pinned).unwrap_or(item.current);
        let new = new.unwrap_or(item.current);
        let definition = |hash| {
            let own = self.definition(server, key, hash)?;
            // The text of a pin that was taken over while something else was shown.
            let text = match own {
                None => self.definition(server.of(Owner::Earlier), key, hash)?,
                own => own,
            };
            text.ok_or(DecideError::UnknownDefinition { hash })
        };
        let changes = diff::diff(&definition(previous)?, &definition(new)?);
        Ok(Comparison {
            previous,
            new,
            changes,
        })
    }

    /// The text of a definition that was seen, if it is available.
    pub fn text(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> Option<Box<RawValue>> {
        self.definition(server, key, hash).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read a pinned definition");
            None
        })
    }

    fn definition(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> Result<Option<Box<RawValue>>, StorageError> {
        let text = self.storage.definition(server, key, hash)?;
        Ok(text.and_then(|text| RawValue::from_string(text.to_string()).ok()))
    }
}
