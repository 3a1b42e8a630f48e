//! The agent's own executable, which an upgrade replaces while the agent runs.
//!
//! A package can restart system services, but not the agents in people's sessions. An upgrade restarts
//! the daemon once all files are in place; the agents notice that and re-execute themselves.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The running executable, even after its path was removed.
const RUNNING: &str = "/proc/self/exe";

/// The path that this program was started from.
#[derive(Debug)]
pub struct Executable(PathBuf);

impl Executable {
    /// The running executable. Call this at startup, before an upgrade can replace the file.
    pub fn running() -> Option<Self> {
        std::env::current_exe().ok().map(Self)
    }

    /// Whether a different file is at its path now.
    pub fn was_replaced(&self) -> bool {
        let file = |path: &Path| {
            let metadata = path.metadata().ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        let (now, running) = (file(&self.0), file(Path::new(RUNNING)));
        now.is_some() && now != running
    }

    /// Replaces this process with the program at its path, whose standard input is `input`. Returns only on failure.
    pub fn re_execute(
        &self,
        arguments: impl IntoIterator<Item = OsString>,
        input: File,
    ) -> io::Error {
        Command::new(&self.0).args(arguments).stdin(input).exec()
    }
}
