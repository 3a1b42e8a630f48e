//! Loops that keep processors busy while something else is tested.

use std::process::{Child, Command};

use anyhow::Result;

/// Uses a processor until it is dropped.
pub struct Busy(Child);

impl Busy {
    /// Starts one loop.
    pub fn start() -> Result<Self> {
        let child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // A failed test leaves nothing running.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
