//! The agent's own program, which an upgrade replaces in every session while it runs.
//!
//! A package can restart what belongs to the system; the agents belong to the people who are logged
//! in. An upgrade restarts the daemon once its files are in place, and the agents hear that.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names what runs, also when it has no path any more.
const RUNNING: &str = "/proc/self/exe";

/// Where this program was started from.
#[derive(Debug)]
pub struct Program(PathBuf);

impl Program {
    /// To be called before it can have been replaced. None where it has no path.
    pub fn running() -> Option<Self> {
        std::env::current_exe().ok().map(Self)
    }

    /// Whether another file stands in its place.
    pub fn was_replaced(&self) -> bool {
        let file = |path: &Path| {
            let metadata = path.metadata().ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        let (now, running) = (file(&self.0), file(Path::new(RUNNING)));
        now.is_some() && now != running
    }

    /// Becomes the program that stands in its place. Returns where that fails.
    pub fn renew(&self, arguments: impl IntoIterator<Item = OsString>) -> io::Error {
        Command::new(&self.0).args(arguments).exec()
    }
}
