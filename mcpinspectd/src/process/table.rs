//! All processes at one moment, as far as their kinship and their cgroups go.

use super::procfs::{Proc, Stat};
use crate::model::Pid;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its pid.
    pub pid: Pid,
    /// Its parent; 0 where there is none.
    pub parent: Pid,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
    /// One letter: `T` for stopped, `Z` for one that is gone and not yet missed.
    pub state: char,
    /// Its path in the unified hierarchy (cgroup v2), as seen from here.
    pub cgroup: Option<String>,
}

/// The numbers of all processes that run now.
pub fn pids() -> Vec<Pid> {
    Proc::system()
        .and_then(|proc| proc.pids())
        .unwrap_or_default()
}

/// This process, by its number in `/proc`. The kernel's probes and all other processes use that number;
/// in a container with the host's `/proc` it differs from what `getpid` returns.
pub fn own() -> Pid {
    std::fs::read_link("/proc/self")
        .ok()
        .and_then(|link| link.to_str()?.parse().ok())
        .map_or_else(|| Pid(std::process::id()), Pid)
}

/// Every process that runs now. One that vanishes meanwhile is left out.
pub fn table() -> Vec<Row> {
    let Ok(proc) = Proc::system() else {
        return Vec::new();
    };
    let pids = proc.pids().unwrap_or_default();
    pids.into_iter()
        .filter_map(|pid| {
            let dir = proc.open(pid).ok()?;
            let Stat {
                comm: _,
                state,
                parent,
                start_time,
            } = Stat::parse(&dir.read("stat", 4096).ok()?)?;
            let cgroups = dir.read("cgroup", 16 * 1024).unwrap_or_default();
            Some(Row {
                pid,
                parent,
                start_time,
                state,
                cgroup: unified(&cgroups),
            })
        })
        .collect()
}

/// The path in the unified hierarchy out of `/proc/pid/cgroup`.
fn unified(file: &[u8]) -> Option<String> {
    let line = file
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"0::"))?;
    // A path that is no text is none that could be written to by name.
    std::str::from_utf8(line).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing test may panic")]
    use super::*;

    #[test]
    fn own_process_is_in_it() {
        let rows = table();
        let own = rows.iter().find(|row| row.pid.0 == std::process::id());
        let own = own.unwrap();
        assert_eq!(own.parent.0, std::os::unix::process::parent_id());
        assert!(rows.iter().any(|row| row.pid.0 == 1));
    }

    #[test]
    fn the_unified_line_counts() {
        let mixed = b"8:pids:/x\n1:name=systemd:/a.service\n0::/b/c\n";
        assert_eq!(unified(mixed).unwrap(), "/b/c");
        assert_eq!(unified(b"8:pids:/x\n"), None);
        assert_eq!(unified(b"0::/\xff\n"), None);
    }
}
