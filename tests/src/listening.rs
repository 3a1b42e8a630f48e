//! A program that listens, and reports on its first line where.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::places;

/// It listens while this value lives.
pub struct Listening {
    child: Child,
    /// Where, as an HTTP URL.
    pub url: String,
}

impl Listening {
    /// Starts a program, and waits until it listens.
    ///
    /// # Errors
    ///
    /// If it does not start, or its first line is not a URL.
    pub fn start(command: &mut Command) -> Result<Self> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn()?;
        let output = child.stdout.take().context("its output")?;
        let mut listening = Self {
            child,
            url: String::new(),
        };
        BufReader::new(output).read_line(&mut listening.url)?;
        listening.url.truncate(listening.url.trim_end().len());
        ensure!(
            listening.url.starts_with("http://"),
            "{command:?} does not listen: {:?}",
            listening.url
        );
        Ok(listening)
    }

    /// A guard in front of the server at a URL.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn guard(upstream: &str, policy: &Path, log: impl AsRef<OsStr>) -> Result<Self> {
        Self::guard_of(&["--upstream", upstream], policy, log)
    }

    /// A guard that acts as a proxy for its clients.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn forward_proxy(policy: &Path, log: impl AsRef<OsStr>) -> Result<Self> {
        Self::guard_of(&["--forward"], policy, log)
    }

    fn guard_of(servers: &[&str], policy: &Path, log: impl AsRef<OsStr>) -> Result<Self> {
        let mut guard = Command::new(places::program("mcpinspect")?);
        guard.args(["guard", "--listen", "127.0.0.1:0"]);
        guard.args(servers).arg("--policy").arg(policy);
        Self::start(guard.arg("--log").arg(log))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may already be gone; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
