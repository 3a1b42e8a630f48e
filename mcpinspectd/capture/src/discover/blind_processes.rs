//! Processes that move bytes in ways that the probes cannot see.

use std::collections::HashMap;

use mcpinspect_core::model::BlindMechanism;

/// Most processes remembered.
const PROCESSES_MAX: usize = 4096;

/// Processes that use a mechanism that does not tell which stream it concerns, such as
/// `io_uring`. At most [`PROCESSES_MAX`]: above that, all are forgotten, and those still active show up
/// again.
#[derive(Debug, Default)]
pub struct BlindProcesses {
    by_pid: HashMap<u32, BlindMechanism>,
    covered: u64,
}

impl BlindProcesses {
    /// Notes that a process uses such a mechanism.
    pub fn add(&mut self, pid: u32, mechanism: BlindMechanism) {
        if self.by_pid.len() >= PROCESSES_MAX {
            self.by_pid.clear();
        }
        self.by_pid.insert(pid, mechanism);
    }

    /// The mechanism that a process uses.
    pub fn mechanism_of(&self, pid: u32) -> Option<BlindMechanism> {
        self.by_pid.get(&pid).copied()
    }

    /// Counts bytes that moved unseen at one end of a stream and were seen at the other.
    pub fn count_covered(&mut self) {
        self.covered += 1;
    }

    /// How many times that was counted.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// Forgets a process: it now runs another program.
    pub fn forget(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_processes_is_remembered() {
        let mut blind = BlindProcesses::default();
        for pid in 0..PROCESSES_MAX as u32 {
            blind.add(pid, BlindMechanism::IoUring);
        }
        assert_eq!(blind.mechanism_of(7), Some(BlindMechanism::IoUring));
        blind.forget(7);
        assert_eq!(blind.mechanism_of(7), None);
        blind.add(5000, BlindMechanism::Compat);
        blind.add(5001, BlindMechanism::Compat);
        assert_eq!(blind.mechanism_of(5001), Some(BlindMechanism::Compat));
        assert!(blind.by_pid.len() < PROCESSES_MAX);
    }
}
