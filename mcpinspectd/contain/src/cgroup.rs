//! Freezing and killing a control group as a whole (cgroup v2).
//!
//! The kernel does it at once for everything inside, even for what is forked meanwhile, and nothing
//! inside can undo it. Writing there takes more than a capability: the hierarchy must be mounted for
//! writing where this runs, which it is not under the shipped unit. There, the system's service
//! manager is asked, which freezes its units in the same way and then also knows that it did. A
//! group of a user's own service manager is neither ours to write nor its to freeze: only signals remain.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mcpinspect_core::model::ContainmentAction;

use super::service_manager;

/// Where the unified hierarchy is mounted: alone, or beside the old ones.
const MOUNT_POINTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// How long the kernel may take to freeze everything inside. A process in the middle of a write to a
/// slow disk takes its time.
const PATIENCE: Duration = Duration::from_secs(2);

/// The directory of a control group, if it exists.
fn directory(cgroup: &str) -> Option<PathBuf> {
    let inside = cgroup.trim_start_matches('/');
    MOUNT_POINTS
        .iter()
        .map(|mount_point| Path::new(mount_point).join(inside))
        .find(|directory| directory.join("cgroup.freeze").exists())
}

/// Whether it was ordered to freeze.
pub fn is_frozen(cgroup: &str) -> bool {
    directory(cgroup)
        .and_then(|directory| std::fs::read_to_string(directory.join("cgroup.freeze")).ok())
        .is_some_and(|text| text.trim() == "1")
}

/// The unit of the system's service manager that a control group is.
fn unit(cgroup: &str) -> Option<&str> {
    let users = |part: &str| part.starts_with("user@") && part.ends_with(".service");
    let (above, name) = cgroup.rsplit_once('/')?;
    let is_unit = name.ends_with(".service") || name.ends_with(".scope");
    // What is below a unit is its own business.
    let below_another = above
        .split('/')
        .any(|part| users(part) || part.ends_with(".service") || part.ends_with(".scope"));
    (is_unit && !below_another).then_some(name)
}

/// Does it, and waits until it is done.
///
/// # Errors
/// There is no such group, or it cannot be written here.
pub fn apply(cgroup: &str, measure: ContainmentAction) -> io::Result<()> {
    let directory = directory(cgroup).ok_or(io::ErrorKind::NotFound)?;
    let (file, value) = match measure {
        ContainmentAction::Freeze => ("cgroup.freeze", "1"),
        ContainmentAction::Thaw => ("cgroup.freeze", "0"),
        ContainmentAction::Kill => ("cgroup.kill", "1"),
    };
    if let Err(error) = std::fs::write(directory.join(file), value) {
        let unit = unit(cgroup).filter(|_| measure != ContainmentAction::Kill);
        service_manager::ask(cgroup, unit.ok_or(error)?, measure)?;
    }
    let done = match measure {
        ContainmentAction::Freeze => "frozen 1",
        ContainmentAction::Thaw => "frozen 0",
        ContainmentAction::Kill => "populated 0",
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A group that is gone contains nothing.
        match std::fs::read_to_string(directory.join("cgroup.events")) {
            Ok(events) if !events.lines().any(|line| line == done) => {}
            Ok(_) | Err(_) => return Ok(()),
        }
        if Instant::now() >= deadline {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the kernel has not finished in time",
            ));
        }
        sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_units_of_the_systems_manager_are_its_to_freeze() {
        for (cgroup, expected) in [
            ("/system.slice/mcp-files.service", Some("mcp-files.service")),
            ("/machine.slice/box.scope", Some("box.scope")),
            (
                "/user.slice/user-1000.slice/session-2.scope",
                Some("session-2.scope"),
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service",
                Some("user@1000.service"),
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/mcp.scope",
                None,
            ),
            ("/system.slice/docker.service/below", None),
            ("/system.slice/docker.service/below.scope", None),
            ("/system.slice", None),
            ("/", None),
        ] {
            assert_eq!(unit(cgroup), expected, "{cgroup}");
        }
    }

    #[test]
    fn a_group_that_is_not_there_cannot_be_frozen() {
        let error = apply("/no-such-group.service", ContainmentAction::Freeze);
        assert_eq!(
            error.map_err(|error| error.kind()),
            Err(io::ErrorKind::NotFound)
        );
        assert!(!is_frozen("/no-such-group.service"));
    }
}
