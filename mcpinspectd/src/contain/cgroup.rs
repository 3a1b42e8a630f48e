//! Freezing and killing a control group as a whole (cgroup v2).
//!
//! The kernel does it at once for everything inside, also for what is forked meanwhile, and nothing
//! inside can undo it. Writing there takes more than a capability: the hierarchy must be mounted for
//! writing where this runs, which it is not under the shipped unit.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Measure;

/// Where the unified hierarchy is mounted: alone, or beside the old ones.
const PLACES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// How long the kernel may take to freeze everything inside. A process in the middle of a write to a
/// slow disk takes its time.
const PATIENCE: Duration = Duration::from_secs(2);

/// The directory of a control group, where it is there.
fn directory(cgroup: &str) -> Option<PathBuf> {
    let inside = cgroup.trim_start_matches('/');
    PLACES
        .iter()
        .map(|place| Path::new(place).join(inside))
        .find(|directory| directory.join("cgroup.freeze").exists())
}

/// Whether it was told to be frozen.
pub fn is_frozen(cgroup: &str) -> bool {
    directory(cgroup)
        .and_then(|directory| std::fs::read_to_string(directory.join("cgroup.freeze")).ok())
        .is_some_and(|text| text.trim() == "1")
}

/// Does it, and waits until it is done.
///
/// # Errors
/// There is no such group, or it may not be written here.
pub fn apply(cgroup: &str, measure: Measure) -> io::Result<()> {
    let directory = directory(cgroup).ok_or(io::ErrorKind::NotFound)?;
    let (file, value) = match measure {
        Measure::Freeze => ("cgroup.freeze", "1"),
        Measure::Thaw => ("cgroup.freeze", "0"),
        Measure::Kill => ("cgroup.kill", "1"),
    };
    std::fs::write(directory.join(file), value)?;
    let done = match measure {
        Measure::Freeze => "frozen 1",
        Measure::Thaw => "frozen 0",
        Measure::Kill => "populated 0",
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A group that is gone has nothing in it.
        match std::fs::read_to_string(directory.join("cgroup.events")) {
            Ok(events) if !events.lines().any(|line| line == done) => {}
            Ok(_) | Err(_) => return Ok(()),
        }
        if Instant::now() >= deadline {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the kernel has not done it yet",
            ));
        }
        sleep(Duration::from_millis(1));
    }
}
