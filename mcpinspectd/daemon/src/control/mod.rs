//! What people may ask the running daemon to do.
//!
//! Three threads take part. A caller on the bus waits on one that may block: [`ControlHandle`] is the
//! daemon's side of [`Control`]. The pipeline's own thread holds the registry and knows the sessions;
//! it answers from the [`ControlQueue`] (see [`crate::pipeline`]). Stopping processes needs neither,
//! and is done where the caller waits, or on a separate thread for what the policy requests (see
//! [`mcpinspect_contain`]).
//!
//! - here: what may be asked
//! - `handle`: from the caller to the pipeline and back
//! - `containment`: what the policy wants contained, on a separate thread

mod containment;
mod handle;

use mcpinspect_contain::Contained;
use mcpinspect_core::model::{
    ContainmentAction, DefinitionHash, Process, ServerId, ServerSide, SessionId,
};
use mcpinspect_engine::answer::{Answer, QueryError};
use mcpinspect_engine::history::{HistoryError, HistoryQuery, Viewer};
use mcpinspect_judge::registry::{DecisionKind, Standing};

pub use containment::{ContainmentJob, ContainmentThread};
pub use handle::{ControlHandle, ControlQueue, ControlRequest, ServerSessions, channel};

/// What a person can decide about servers and tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A judgement of a tool's current definition.
    Judge {
        /// Approve it, which pins it, or reject it, which keeps the pin.
        kind: DecisionKind,
        /// The server.
        server: String,
        /// The tool, by its real or displayed name; empty for the server's own instructions, info or
        /// program, whichever has the hash.
        tool: String,
        /// The definition that was reviewed, SHA-256 in hex; it must still be the current one.
        hash: String,
    },
    /// Stop reporting this.
    Suppress {
        /// The server.
        server: String,
        /// The tool; empty for all of the server's.
        tool: String,
        /// The rule, or a category.
        rule: String,
        /// Why, for later readers of the list.
        reason: String,
        /// For how many days, 1 to 3650.
        days: u32,
    },
    /// Monitor this server, or pause until told otherwise or the daemon ends.
    SetMonitoring {
        /// The server; empty for all.
        server: String,
        /// Whether to monitor it.
        enabled: bool,
    },
    /// Reread configuration and rules.
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
    /// The request makes no sense.
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
    /// The server's process, if known.
    pub server: Option<Process>,
    /// The client's process, if known.
    pub client: Option<Process>,
    /// What was started as its server.
    pub server_side: ServerSide,
}

/// A tool that a caller asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolForm {
    /// Its name.
    pub name: String,
    /// The hash of its definition; `None` means the one last seen.
    pub hash: Option<DefinitionHash>,
}

/// How capture is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureStatus {
    /// In a word: `watching`, or `paused` if all servers are paused.
    pub state: String,
    /// Servers that are paused for now.
    pub paused: Vec<String>,
    /// Bytes that sessions' streams carried, by the kernel's count.
    pub bytes_written: u64,
    /// Bytes captured of them.
    pub bytes_captured: u64,
    /// Bytes known lost of them.
    pub bytes_lost: u64,
}

/// The parts of the daemon that callers on the bus may control. Called on a thread that may block.
pub trait Control: Send + Sync + 'static {
    /// How capture is doing now.
    ///
    /// # Errors
    /// The pipeline does not answer.
    fn status(&self) -> Result<CaptureStatus, ControlError>;

    /// Carries out what `caller`, who was found to be entitled to it, has decided. It concerns their own servers;
    /// those of the one other user who has a server of that name only if they may decide on them.
    ///
    /// # Errors
    /// Why it was not done; shown to the caller.
    fn decide(&self, decision: Decision, caller: Caller) -> Result<(), ControlError>;

    /// How tools of a server that runs as `uid` relate to what was accepted, without recording that
    /// they were seen: one answer per tool, in order. `None` if nothing is pinned.
    ///
    /// # Errors
    /// The pipeline does not answer.
    fn check_tools(
        &self,
        uid: Option<u32>,
        server: &str,
        tools: Vec<ToolForm>,
    ) -> Result<Vec<Option<Standing>>, ControlError>;

    /// Freezes, thaws or kills a server's processes, because `uid` wants it.
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
    /// See [`HistoryError`]. Without a store, nothing was recorded.
    fn query_history(
        &self,
        _: &HistoryQuery,
        _viewer: Viewer,
    ) -> Result<Vec<String>, HistoryError> {
        Err(HistoryError::Nothing)
    }

    /// Runs a query over what was recorded; `viewer` says whose may be read.
    ///
    /// # Errors
    /// See [`QueryError`].
    fn query(&self, _sql: &str, _viewer: Viewer) -> Result<Answer, QueryError> {
        Err(QueryError::failed("this daemon does not answer queries"))
    }
}
