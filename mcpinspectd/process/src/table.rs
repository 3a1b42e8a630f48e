//! All processes at one moment: parents, states and cgroups.

use mcpinspect_core::model::Pid;

use super::procfs::{self, Proc, ProcDir, Stat, real_uid};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    /// Its pid.
    pub pid: Pid,
    /// Its parent; 0 if there is none.
    pub parent: Pid,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
    /// Its real user id.
    pub uid: u32,
    /// One letter: `T` if stopped, `Z` if all of its threads have exited.
    pub state: char,
    /// Its path in the unified hierarchy (cgroup v2), as seen from this process.
    pub cgroup: Option<String>,
}

/// The numbers of all processes running now.
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

/// Every process running now. A process that ends meanwhile is left out.
pub fn table() -> Vec<ProcessRow> {
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
                threads,
                start_time,
            } = Stat::parse(&dir.read("stat", 4096).ok()?)?;
            // A main thread that has exited is a zombie, but the others may run on.
            let state = match (state, threads) {
                ('Z', 2..) => state_of_a_thread(&dir).unwrap_or(state),
                _ => state,
            };
            let uid = real_uid(&dir.read("status", 4096).ok()?)?;
            let cgroups = dir.read("cgroup", 16 * 1024).unwrap_or_default();
            Some(ProcessRow {
                pid,
                parent,
                start_time,
                uid,
                state,
                cgroup: unified(&cgroups),
            })
        })
        .collect()
}

/// The process that debugs another one now, if any does.
pub fn tracer(pid: Pid) -> Option<Pid> {
    let dir = Proc::system().ok()?.open(pid).ok()?;
    procfs::tracer(&dir.read("status", 4096).ok()?)
}

/// The state of a process's first thread that is not a zombie.
fn state_of_a_thread(dir: &ProcDir) -> Option<char> {
    let threads = dir.threads().ok()?;
    threads.into_iter().find_map(|thread| {
        let stat = dir.read(&format!("task/{thread}/stat"), 4096).ok()?;
        Some(Stat::parse(&stat)?.state).filter(|state| *state != 'Z')
    })
}

/// The path in the unified hierarchy from `/proc/pid/cgroup`.
fn unified(file: &[u8]) -> Option<String> {
    let line = file
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"0::"))?;
    // A path that is not UTF-8 cannot be written to by name.
    std::str::from_utf8(line).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_contains_this_process() {
        let rows = table();
        let own = rows.iter().find(|row| row.pid.0 == std::process::id());
        let own = own.unwrap();
        assert_eq!(own.parent.0, std::os::unix::process::parent_id());
        assert!(rows.iter().any(|row| row.pid.0 == 1));
    }

    #[test]
    fn only_the_unified_line_counts() {
        let mixed = b"8:pids:/x\n1:name=systemd:/a.service\n0::/b/c\n";
        assert_eq!(unified(mixed).unwrap(), "/b/c");
        assert_eq!(unified(b"8:pids:/x\n"), None);
        assert_eq!(unified(b"0::/\xff\n"), None);
    }
}
