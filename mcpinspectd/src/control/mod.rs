//! What people may ask the running daemon to do, and how it is done.
//!
//! Three threads have a part in it. A caller on the bus waits on one that may block ([`Desk`], the
//! daemon's side of [`Control`]). The pipeline's own thread has the registry and knows who is in
//! session; it looks into the desk's tray between two batches of records ([`Service`]), so nothing
//! is shared and nothing is locked. Stopping processes needs neither, and is done where the caller
//! waits (see [`crate::contain`]).
//!
//! - here: what may be asked
//! - [`desk`]: from the caller to the pipeline and back
//! - [`service`]: what the pipeline does about it
//! - [`roster`]: who is in session, and which servers nobody listens to for now
//! - [`policy`]: which findings have a server contained without asking anybody
//! - [`suppression`]: the file of suppressions that were asked for

mod desk;
mod policy;
mod roster;
mod service;
pub mod suppression;

pub use desk::{Desk, Tray, desk};
pub use policy::ContainmentPolicy;
pub use roster::{Roster, Seat, Skipped};
pub use service::{Host, Reloaded, Service};
pub use suppression::{Suppression, SuppressionError};

use crate::contain::Contained;
use crate::model::ContainmentAction;
use crate::registry::DecisionKind;

/// A person's wish about servers and tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// What to think of a tool's current definition.
    Judge {
        /// Approve it, which pins it, or reject it, which keeps the pin.
        kind: DecisionKind,
        /// The server.
        server: String,
        /// The tool, as it is or as it is shown; empty for the server's own instructions, info or
        /// program, whichever has the hash.
        tool: String,
        /// The definition that was looked at, SHA-256 in hex; it must still be the current one.
        hash: String,
    },
    /// Say no more about this.
    Suppress {
        /// The server.
        server: String,
        /// The tool; empty for all of the server's.
        tool: String,
        /// The rule, or a category.
        rule: String,
        /// Why, for those who read the list later.
        reason: String,
        /// For how many days, 1 to 3650.
        days: u32,
    },
    /// Listen to this server, or look away until told otherwise or the daemon ends.
    SetMonitoring {
        /// The server; empty for all.
        server: String,
        /// Whether to listen.
        enabled: bool,
    },
    /// Read configuration and rules again.
    Reload,
}

/// Why a decision was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Nothing of that name is known.
    #[error("{0} is not known")]
    Unknown(String),
    /// What was asked for cannot be meant.
    #[error("{0}")]
    Invalid(String),
    /// What was decided on is not what is there now.
    #[error("{0}")]
    Stale(String),
    /// Carrying it out failed.
    #[error("{0}")]
    Failed(String),
}

/// How capture is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// In a word: `watching`, or `paused` where no server is listened to.
    pub state: String,
    /// Servers that are not listened to for now.
    pub paused: Vec<String>,
    /// Bytes that sessions' streams carried, by the kernel's count.
    pub bytes_written: u64,
    /// Bytes captured of them.
    pub bytes_captured: u64,
    /// Bytes known lost of them.
    pub bytes_lost: u64,
}

/// The daemon, as far as callers on the bus may move it. Called on a thread that may block.
pub trait Control: Send + Sync + 'static {
    /// How capture is doing now.
    ///
    /// # Errors
    /// The pipeline does not answer.
    fn status(&self) -> Result<Status, ControlError>;

    /// Carries out what `uid`, who was found entitled to it, has decided.
    ///
    /// # Errors
    /// Why it was not done; shown to the caller.
    fn decide(&self, decision: Decision, uid: u32) -> Result<(), ControlError>;

    /// Stops a server's processes, lets them go on, or ends them, because `uid` wants it.
    ///
    /// # Errors
    /// Why it was not done; shown to the caller.
    fn contain(
        &self,
        server: &str,
        measure: ContainmentAction,
        uid: u32,
    ) -> Result<Contained, ControlError>;
}
