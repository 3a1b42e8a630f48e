//! What shows how the daemon is: its memory by the kernel's account, and its word to the service manager.

use std::fmt;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mcpinspect_tests::daemon::Daemon;

use crate::attackers::Attackers;

/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often what was seen is printed.
const REPORT: Duration = Duration::from_secs(60);

/// The service manager's end of `sd_notify(3)`.
pub struct Manager {
    socket: UnixDatagram,
    address: PathBuf,
    /// When the watchdog was last fed.
    fed: Instant,
}

impl Manager {
    /// One that listens there.
    pub fn bind(address: &Path) -> Result<Self> {
        let socket = UnixDatagram::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            address: address.to_owned(),
            fed: Instant::now(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> &Path {
        &self.address
    }

    /// The longest time without a word to the watchdog that has come to light since the last call.
    fn silence(&mut self) -> Result<Duration> {
        let mut longest = Duration::ZERO;
        let mut message = [0; 4096];
        loop {
            let length = match self.socket.recv(&mut message) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            };
            let text = message.get(..length).unwrap_or_default();
            if text
                .split(|&byte| byte == b'\n')
                .any(|line| line == b"WATCHDOG=1")
            {
                longest = longest.max(self.fed.elapsed());
                self.fed = Instant::now();
            }
        }
        Ok(longest.max(self.fed.elapsed()))
    }
}

/// What was seen of the daemon so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Since the beginning.
    time: Duration,
    /// Resident memory in kB.
    resident: u64,
    /// The most that it ever was.
    pub peak: u64,
    /// The longest that the watchdog was not fed.
    pub silence: Duration,
    /// Attacks that came to their end.
    attacks: u64,
}

impl fmt::Display for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:>4} min: {:>7} kB resident, {:>7} kB at most; silent for {:.1} s at most; {} attacks",
            self.time.as_secs() / 60,
            self.resident,
            self.peak,
            self.silence.as_secs_f64(),
            self.attacks
        )
    }
}

/// Looks on until `end`, and prints what it sees once a minute. Fails if the daemon ends.
pub fn until(
    end: Instant,
    daemon: &mut Daemon,
    manager: &mut Manager,
    attackers: &Attackers,
) -> Result<Seen> {
    let begun = Instant::now();
    manager.fed = begun;
    let mut seen = Seen::default();
    let mut report = begun + REPORT;
    while Instant::now() < end {
        std::thread::sleep(LOOK);
        daemon.lives()?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid()))?;
        seen = Seen {
            time: begun.elapsed(),
            resident: kilobytes(&status, "VmRSS:")?,
            peak: kilobytes(&status, "VmHWM:")?,
            silence: seen.silence.max(manager.silence()?),
            attacks: attackers.done(),
        };
        if Instant::now() >= report {
            report += REPORT;
            println!("{seen}");
        }
    }
    Ok(seen)
}

fn kilobytes(status: &str, field: &str) -> Result<u64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .with_context(|| format!("no {field} in its status"))?;
    let number = value.trim().trim_end_matches(" kB");
    number.parse().with_context(|| format!("{field}{value}"))
}
