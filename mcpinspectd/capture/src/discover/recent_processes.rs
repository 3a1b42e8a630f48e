//! Something about processes that may matter later.
//!
//! Most processes turn out to have nothing to do with MCP. So what is known about them is kept for a while, and for
//! a limited number of them.

use std::collections::HashMap;
use std::time::Duration;

use mcpinspect_core::model::BootTime;

/// Most processes to remember.
const PROCESSES_MAX: usize = 1024;
/// Time to remember one.
const REMEMBERED: Duration = Duration::from_secs(600);

/// What is known about each process.
#[derive(Debug)]
pub struct RecentProcesses<K> {
    by_pid: HashMap<u32, (BootTime, K)>,
}

impl<K> Default for RecentProcesses<K> {
    fn default() -> Self {
        Self {
            by_pid: HashMap::new(),
        }
    }
}

impl<K> RecentProcesses<K> {
    /// Notes a process. If there is no room, earlier ones make way.
    pub fn add(&mut self, pid: u32, known: K, now: BootTime) {
        if self.by_pid.len() >= PROCESSES_MAX {
            self.by_pid
                .retain(|_, (since, _)| now.since(*since) < REMEMBERED);
        }
        if self.by_pid.len() >= PROCESSES_MAX
            && let Some(oldest) = self
                .by_pid
                .iter()
                .min_by_key(|(pid, (since, _))| (*since, **pid))
        {
            let oldest = *oldest.0;
            self.by_pid.remove(&oldest);
        }
        self.by_pid.insert(pid, (now, known));
    }

    /// All of them.
    pub fn pids(&self) -> Vec<u32> {
        self.by_pid.keys().copied().collect()
    }

    /// What is known about one of them.
    pub fn get(&self, pid: u32) -> Option<&K> {
        self.by_pid.get(&pid).map(|(_, known)| known)
    }

    /// The same, to add to it.
    pub fn get_mut(&mut self, pid: u32) -> Option<&mut K> {
        self.by_pid.get_mut(&pid).map(|(_, known)| known)
    }

    /// Forgets one. Returns what was known about it.
    pub fn remove(&mut self, pid: u32) -> Option<K> {
        self.by_pid.remove(&pid).map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_processes_are_remembered() {
        let mut recent = RecentProcesses::default();
        for pid in 0..2000 {
            recent.add(pid, pid + 1, BootTime(pid.into()));
        }
        assert_eq!(recent.pids().len(), PROCESSES_MAX);
        assert!(recent.pids().contains(&1999) && !recent.pids().contains(&0));
        assert_eq!(recent.get(1999), Some(&2000));
        assert_eq!(recent.remove(1999), Some(2000));
        assert!(!recent.pids().contains(&1999));
    }
}
