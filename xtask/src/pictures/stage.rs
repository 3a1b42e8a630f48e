//! What a picture needs while it is made: programs that end, folders that go away, patience.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::run;

/// One of the programs just built.
pub(super) fn program(name: &str) -> Command {
    Command::new(run::built("debug", name))
}

/// A program that ends with this value.
pub(super) struct Running(Child);

impl Running {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary folder that goes away with this value.
pub(super) struct Directory(PathBuf);

impl Directory {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn make(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until something is the case.
pub(super) fn eventually(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        ensure!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
