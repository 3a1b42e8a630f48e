//! Every definition that a server ever offered, and the one that it is held to.
//!
//! A tool is pinned on first use: the hash of its definition (SHA-256 over the canonical JSON of *all*
//! its fields) is what later listings are compared with. A *rug pull* is a definition that differs from
//! the pin. The pin does not follow: it stays until a person approves the change, so a change shows up
//! in every session until then. A server's instructions, its name and version, and its program are held
//! to their first definition in the same way. Each user has pins of their own.
//!
//! Frequent decisions are made in memory: an unchanged definition costs the hash of its
//! bytes and two look-ups. What must outlive the process goes to a [`Storage`], which has it on disk
//! before any event about it is emitted. This module does no I/O; `store` implements the storage in SQLite.
//!
//! - `pins`: the registry, and how it judges a definition
//! - `decide`: what people and the policy decide about items
//! - `query`: reading the registry
//! - `listed`, `follow_lists`: what signed lists approve for many machines, and what follows from it here
//! - `room`: how much is kept for each owner, and what goes first
//! - `names`: which name belongs to which server
//! - `replaced`: when a name has passed to another server
//! - [`owner`]: whose pins they are
//! - [`canonical`], [`diff`]: definitions as text, and the differences between two
//! - `storage`, `memory`: what the registry needs stored, and a storage in memory

pub mod canonical;
mod decide;
pub mod diff;
mod follow_lists;
mod hashes;
mod item;
mod kept_text;
mod limits;
mod listed;
mod memory;
mod names;
pub mod owner;
mod pins;
mod query;
mod replaced;
mod room;
mod storage;
mod vendor;

pub use self::decide::{Attribution, DecideError};
pub use self::item::{
    Comparison, DecidedBy, Decision, DecisionKind, DefinitionVersion, ItemDecision, ItemKey,
    ItemView, PinStatus, ServerUsage, Standing,
};
pub use self::kept_text::KeptText;
pub use self::limits::{RegistryLimits, Shortage};
pub use self::listed::Listed;
pub use self::memory::MemoryStorage;
pub use self::names::ServerNames;
pub use self::owner::{Owner, ServerOf, Sharing};
pub use self::pins::{
    EVICT_AFTER, MAX_DEFINITION, MAX_ITEMS_PER_SERVER, MAX_NAME, Observation, Registry, Sighting,
};
pub use self::replaced::Replaced;
pub use self::room::MAKES_ROOM_AFTER;
pub use self::storage::{
    Contents, DecisionDone, DecisionWrite, MAX_VERSIONS, Storage, StorageError, StorageHealth,
    StoredItem, Write,
};
pub use self::vendor::vendor;
