//! Processes that use an unsupported TLS library.
//!
//! Most have nothing to do with MCP: browsers, package managers. One that does is reported, even
//! if that shows only later.

use std::collections::HashMap;

/// Most processes to remember.
const PROCESSES_MAX: usize = 1024;
/// Nanoseconds to remember one.
const REMEMBERED: u64 = 600_000_000_000;

/// The processes not reported yet, and what is known about each.
#[derive(Debug)]
pub struct UnseenTls<K> {
    by_pid: HashMap<u32, (u64, K)>,
}

impl<K> Default for UnseenTls<K> {
    fn default() -> Self {
        Self {
            by_pid: HashMap::new(),
        }
    }
}

impl<K> UnseenTls<K> {
    /// Notes a process. If there is no room, earlier ones make way.
    pub fn add(&mut self, pid: u32, known: K, now: u64) {
        if self.by_pid.len() >= PROCESSES_MAX {
            self.by_pid
                .retain(|_, (since, _)| now.saturating_sub(*since) < REMEMBERED);
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

    /// Removes one that was reported. Returns what is known about it.
    pub fn remove(&mut self, pid: u32) -> Option<K> {
        self.by_pid.remove(&pid).map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_processes_are_remembered() {
        let mut unseen = UnseenTls::default();
        for pid in 0..2000 {
            unseen.add(pid, pid + 1, u64::from(pid));
        }
        assert_eq!(unseen.pids().len(), PROCESSES_MAX);
        assert!(unseen.pids().contains(&1999) && !unseen.pids().contains(&0));
        assert_eq!(unseen.remove(1999), Some(2000));
        assert!(!unseen.pids().contains(&1999));
    }
}
