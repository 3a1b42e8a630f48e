//! What a caller on the bus may ask the daemon to *do*.
//!
//! The bus knows who is calling and whether that person may; the daemon knows what approving means.
//! This is the line between them.

/// A person's wish about servers and tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The tool's current definition is fine: pin it.
    Approve {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The definition that was looked at, SHA-256 in hex; it must still be the current one.
        hash: String,
    },
    /// The tool's current definition is not fine: keep the pin, keep telling.
    Reject {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The definition that was looked at.
        hash: String,
    },
    /// Say no more about this.
    Suppress {
        /// The server.
        server: String,
        /// The tool; empty for all of the server's.
        tool: String,
        /// The rule.
        rule: String,
        /// Why, for those who read the list later.
        reason: String,
        /// For how many days; zero is not accepted.
        days: u32,
    },
    /// Watch this server, or look away.
    SetMonitoring {
        /// The server.
        server: String,
        /// Whether to watch it.
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
    /// In words, such as `watching` or `no_kernel_support`.
    pub state: String,
    /// Bytes that streams carried, by the kernel's count.
    pub bytes_written: u64,
    /// Bytes captured of them.
    pub bytes_captured: u64,
    /// Bytes known lost of them.
    pub bytes_lost: u64,
}

/// The daemon, as far as callers on the bus may move it. Called on a thread that may block.
pub trait Control: Send + Sync + 'static {
    /// How capture is doing now.
    fn status(&self) -> Status;

    /// Carries out what `uid`, who was found entitled to it, has decided.
    ///
    /// # Errors
    /// Why it was not done; shown to the caller.
    fn decide(&self, decision: Decision, uid: u32) -> Result<(), ControlError>;
}
