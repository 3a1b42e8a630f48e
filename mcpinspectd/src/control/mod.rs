//! What people may ask the running daemon to do.
//!
//! Three threads take part. A caller on the bus waits on one that may block: [`ControlHandle`] is the
//! daemon's side of [`Control`]. The pipeline's own thread holds the registry and knows the sessions;
//! it answers from the [`ControlQueue`] (see [`crate::pipeline`]). Stopping processes needs neither,
//! and is done where the caller waits, or on a thread for what the policy requests (see
//! [`crate::contain`]).
//!
//! - here: what may be asked
//! - `handle`: from the caller to the pipeline and back
//! - `containment`: what the policy has contained, on a thread of its own
//! - [`lessons`]: what people's decisions taught, in the same file
//! - [`suppression`]: the file of suppressions that were asked for

mod containment;
mod handle;
pub mod lessons;
pub mod suppression;

pub use containment::{ContainmentJob, ContainmentThread};
pub use handle::{ControlHandle, ControlQueue, ControlRequest, ServerSessions, channel};
pub use suppression::{Suppression, SuppressionError};

use crate::contain::Contained;
use crate::model::{ContainmentAction, DefinitionHash, Process, ServerId, ServerSide, SessionId};
use crate::query::{Answer, QueryError};
use crate::recall::{Question, RecallError, Viewer};
use crate::registry::{DecisionKind, Standing};

/// What a person can decide about servers and tools.
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

/// Who asks, by the credentials that the bus vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Their user id.
    pub uid: u32,
    /// Whether they may read about, and decide on, other users' servers.
    pub reads_all: bool,
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

/// The two parties of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionParties {
    /// The session.
    pub session: SessionId,
    /// Its server.
    pub server_id: ServerId,
    /// The server's process, where known.
    pub server: Option<Process>,
    /// The client's process, where known.
    pub client: Option<Process>,
    /// What was started as its server.
    pub server_side: ServerSide,
}

/// A tool that a caller asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolForm {
    /// Its name.
    pub name: String,
    /// The hash of its definition; that of the one that was seen last if it is `None`.
    pub hash: Option<DefinitionHash>,
}

/// How capture is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureStatus {
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
    fn status(&self) -> Result<CaptureStatus, ControlError>;

    /// Carries out what `caller`, who was found entitled to it, has decided. It concerns their own servers;
    /// those of the one other user who has a server of that name only if they may decide on them.
    ///
    /// # Errors
    /// Why it was not done; shown to the caller.
    fn decide(&self, decision: Decision, caller: Caller) -> Result<(), ControlError>;

    /// How tools of a server that runs as `uid` relate to what was accepted of them, without recording that
    /// they were seen: one answer for each, in order. `None` where nothing is pinned.
    ///
    /// # Errors
    /// The pipeline does not answer.
    fn check_tools(
        &self,
        uid: Option<u32>,
        server: &str,
        tools: Vec<ToolForm>,
    ) -> Result<Vec<Option<Standing>>, ControlError>;

    /// Stops a server's processes, lets them go on, or ends them, because `uid` wants it.
    ///
    /// # Errors
    /// Why it was not done; shown to the caller.
    fn contain(
        &self,
        server: &str,
        action: ContainmentAction,
        uid: u32,
    ) -> Result<Contained, ControlError>;

    /// Answers a question about recorded messages; `viewer` says whose may be read.
    ///
    /// # Errors
    /// See [`RecallError`]. Without a store, nothing was recorded.
    fn recall(&self, _: &Question, _viewer: Viewer) -> Result<Vec<String>, RecallError> {
        Err(RecallError::Nothing)
    }

    /// Runs a query over what was recorded; `viewer` says whose may be read.
    ///
    /// # Errors
    /// See [`QueryError`].
    fn query(&self, _sql: &str, _viewer: Viewer) -> Result<Answer, QueryError> {
        Err(QueryError::failed(
            "this run of the daemon answers no queries",
        ))
    }
}
