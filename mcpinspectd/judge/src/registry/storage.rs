//! Where the registry keeps what must outlive it.
//!
//! The registry decides in memory and tells a [`Storage`] what to write. A pin must be durable before
//! it is reported, so a storage keeps one promise: what [`Storage::record`] took over is
//! written before any event reported afterwards leaves the process. One storage keeps it by writing
//! at once, another by holding such events back until its own thread has written.

use std::fmt;
use std::sync::Arc;

use mcpinspect_core::model::{DefinitionHash, Timestamp};

use super::item::{Decision, DefinitionVersion, ItemDecision, ItemKey, ItemView, ServerUsage};
use super::kept_text::{KeptText, not_kept};
use super::owner::{Owner, ServerOf};

/// Definitions to keep per item in addition to those that are pinned, current or decided on; the least
/// recently seen goes first. Also the number of a policy's decisions to keep per item.
pub const MAX_VERSIONS: usize = 64;

/// A storage failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StorageError(pub String);

/// The state of the storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageHealth {
    /// Writes that failed and will be retried.
    pub unsaved: usize,
    /// Writes that were given up.
    pub lost: u64,
    /// Definitions whose texts were given up; only their hashes are written.
    pub texts_lost: u64,
    /// The last error, while it persists.
    pub error: Option<String>,
}

/// One thing to write.
#[derive(Clone, Debug)]
pub enum Write {
    /// A definition was seen for the first time, or again after a while.
    Seen {
        /// Whose.
        owner: Owner,
        /// The server.
        server: Arc<str>,
        /// The item.
        key: ItemKey,
        /// The definition's hash.
        hash: DefinitionHash,
        /// The definition's text.
        definition: Arc<str>,
        /// When it was seen.
        time: Timestamp,
        /// The session in which it was seen.
        session: Arc<str>,
        /// Whether it becomes the item's pin, provided that the item has none.
        pin: bool,
    },
    /// A complete listing lacked the item.
    Removed {
        /// Whose.
        owner: Owner,
        /// The server.
        server: Arc<str>,
        /// The item.
        key: ItemKey,
        /// When it was listed.
        time: Timestamp,
    },
    /// An owner takes over another's item: its pin and decisions, and of its definitions the one that
    /// the owner has shown.
    Adopted {
        /// Who takes it over.
        owner: Owner,
        /// Whose it is, and stays.
        from: Owner,
        /// The server.
        server: Arc<str>,
        /// The item.
        key: ItemKey,
        /// The definition that was shown.
        hash: DefinitionHash,
    },
    /// A server has this name from now on.
    Named {
        /// Whose.
        owner: Owner,
        /// The name.
        name: Arc<str>,
        /// The fingerprint of the server's identity.
        fingerprint: Arc<str>,
        /// The name that the server had before. Its items, with the pinned and current definitions,
        /// are copied to the new name unless it already has them.
        former: Option<Arc<str>>,
        /// When it was assigned.
        time: Timestamp,
    },
    /// An item without a decision was not seen for a year.
    Evicted {
        /// Whose.
        owner: Owner,
        /// The server.
        server: Arc<str>,
        /// The item.
        key: ItemKey,
    },
    /// The policy or a list decided something, or a person about several items at once.
    Decided(DecisionWrite),
    /// An event reported a decision. Must not be written before that event was emitted.
    Reported {
        /// The decision's number.
        decision: i64,
    },
}

impl Write {
    /// Gives up the text of a definition, unless it is short. Returns how many bytes that freed.
    pub fn give_up_text(&mut self) -> usize {
        let Self::Seen { definition, .. } = self else {
            return 0;
        };
        let note = not_kept(definition.len());
        let freed = definition.len().saturating_sub(note.len());
        if freed > 0 {
            *definition = note;
        }
        freed
    }

    /// Bytes of memory it occupies, roughly.
    pub fn size(&self) -> usize {
        let text = match self {
            Self::Seen { definition, .. } => definition.len(),
            _ => 0,
        };
        size_of::<Self>() + text
    }
}

/// A decision to write.
#[derive(Clone, Debug)]
pub struct DecisionWrite {
    /// Whose.
    pub owner: Owner,
    /// The server.
    pub server: Arc<str>,
    /// The item.
    pub key: ItemKey,
    /// The decision.
    pub decision: Decision,
    /// Where the pin moves, if it does; to nowhere for `unpin`.
    pub pin: Option<Option<DefinitionHash>>,
}

/// What the registry keeps in memory about an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredItem {
    /// Whose.
    pub owner: Owner,
    /// The server.
    pub server: Arc<str>,
    /// The item.
    pub key: ItemKey,
    /// The accepted definition.
    pub pinned: Option<DefinitionHash>,
    /// The definition seen last.
    pub current: DefinitionHash,
    /// Whether a complete listing lacked it.
    pub removed: bool,
    /// When `current` was seen last.
    pub last_seen: Timestamp,
    /// Whether it was forgotten: it is gone until it is seen again.
    pub forgotten: bool,
    /// Whether a person or the policy decided on it.
    pub decided: bool,
    /// The definitions that were recorded as approved by a list.
    pub listed: Vec<DefinitionHash>,
    /// The kept texts, least recently seen first. Empty if only its pin is
    /// requested.
    pub texts: Vec<KeptText>,
}

/// Everything that the registry keeps in memory.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// All items.
    pub items: Vec<StoredItem>,
    /// The servers' names by owner, with the fingerprints that they belong to, oldest first.
    pub names: Vec<(Owner, Arc<str>, Arc<str>)>,
    /// The number of the last decision; 0 if there is none.
    pub last_decision: i64,
}

/// Receives the result of a decision: whether there is such an item.
pub type DecisionDone = Box<dyn FnOnce(Result<bool, StorageError>) + Send>;

/// Keeps the registry's contents.
pub trait Storage: fmt::Debug + Send {
    /// Reads everything that the registry keeps in memory.
    fn load(&mut self) -> Result<Contents, StorageError>;

    /// Takes over writes, in order. Never fails: a write that cannot be done is kept and
    /// retried, and [`Storage::health`] reports it. With no writes, retries those that are due.
    fn record(&mut self, writes: Vec<Write>, now: Timestamp);

    /// Whether everything recorded was written or at least tried. Until then, [`Storage::versions`],
    /// [`Storage::decisions`] and [`Storage::items`] may lack the latest.
    fn is_settled(&self) -> bool;

    /// The state of the storage.
    fn health(&self) -> StorageHealth;

    /// Writes a person's decision and then calls `done`. What was recorded earlier is written first.
    fn decide(&mut self, decision: DecisionWrite, done: DecisionDone);

    /// Whether there may be decisions since the last call, by this process or another. Cheap: the
    /// registry asks before it looks at a listing.
    fn has_changed(&mut self) -> Result<bool, StorageError>;

    /// The items of all decisions after the one numbered `decision`, as they are now, each with the
    /// number of its decision, oldest first.
    fn decided_after(&mut self, decision: i64) -> Result<Vec<(i64, StoredItem)>, StorageError>;

    /// The first `limit` decisions after the one numbered `decision` that no event has reported, with
    /// their numbers, oldest first.
    fn untold(
        &mut self,
        decision: i64,
        limit: usize,
    ) -> Result<Vec<(i64, ItemDecision)>, StorageError>;

    /// The text of an item's definition, recorded or stored.
    fn definition(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> Result<Option<Arc<str>>, StorageError>;

    /// All stored definitions of an item, oldest first.
    fn versions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> Result<Vec<DefinitionVersion>, StorageError>;

    /// All stored decisions on an item, oldest first.
    fn decisions(&self, server: ServerOf<'_>, key: &ItemKey)
    -> Result<Vec<Decision>, StorageError>;

    /// All stored items, of one server if given, ordered by server, owner, kind and name. Items of
    /// [`Owner::Earlier`] are left out if another owner has an item of that name by now.
    fn items(&self, server: Option<&str>) -> Result<Vec<ItemView>, StorageError>;

    /// What is stored for each server, ordered by server and owner.
    fn usage(&self) -> Result<Vec<ServerUsage>, StorageError>;
}
