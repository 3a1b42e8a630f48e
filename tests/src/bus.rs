//! A private system bus for a daemon and the programs that call it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::places;

/// How long the bus may take to listen.
const LIMIT: Duration = Duration::from_secs(10);

/// What programs look at to find the system bus.
pub const VARIABLE: &str = "DBUS_SYSTEM_BUS_ADDRESS";

/// The rules of the system bus, and ours.
const RULES: &str = include_str!("../system-bus.conf");

/// A running bus.
pub struct Bus {
    directory: TempDir,
    daemon: Child,
}

impl Bus {
    /// Starts one with the system bus's rules and the packaged policy.
    pub fn start() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("bus-").tempdir()?;
        let socket = directory.path().join("socket");
        let policy = places::repository().join("packaging/org.mcpinspect1.conf");
        let rules = RULES
            .replace("SOCKET", &socket.display().to_string())
            .replace("POLICY", &policy.display().to_string());
        let configuration = directory.path().join("bus.conf");
        std::fs::write(&configuration, rules)?;
        let daemon = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", configuration.display()))
            .args(["--nofork", "--nopidfile", "--nosyslog"])
            .stdin(Stdio::null())
            .spawn()
            .context("dbus-daemon")?;
        let bus = Self { directory, daemon };
        let deadline = Instant::now() + LIMIT;
        while std::os::unix::net::UnixStream::connect(bus.socket()).is_err() {
            ensure!(Instant::now() < deadline, "the bus does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(bus)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Its D-Bus address.
    pub fn address(&self) -> String {
        format!("unix:path={}", self.socket().display())
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
