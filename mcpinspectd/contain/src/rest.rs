//! Which signalled processes have not stopped.
//!
//! A process that was sent a signal need not have stopped: it may have to wait for a processor, be in the
//! middle of a fork, or have been continued by another process of its family.

use std::collections::HashMap;

use mcpinspect_core::model::{Pid, Process};
use mcpinspect_process::{ProcessRow, tracer};

/// The rows of `signalled` processes that have not stopped, in a table that was read after the signals.
///
/// A process that waits for its child to start a program (`vfork`) cannot be stopped before; it counts as stopped
/// if the child is. One that is held by a debugger counts as stopped if the debugger is.
pub(super) fn restless(
    rows: &[ProcessRow],
    signalled: impl Fn(&ProcessRow) -> bool,
) -> Vec<Process> {
    restless_of(rows, signalled, tracer)
}

fn restless_of(
    rows: &[ProcessRow],
    signalled: impl Fn(&ProcessRow) -> bool,
    tracer: impl Fn(Pid) -> Option<Pid>,
) -> Vec<Process> {
    let ours: HashMap<Pid, &ProcessRow> = rows
        .iter()
        .filter(|row| signalled(row))
        .map(|row| (row.pid, row))
        .collect();
    let stands = |pid: Pid| ours.get(&pid).is_some_and(|row| row.state == 'T');
    let awaits_child = |row: &ProcessRow| {
        let mut children = ours.values().filter(|child| child.parent == row.pid);
        children.any(|child| child.state == 'T')
    };
    let at_rest = |row: &ProcessRow| match row.state {
        'T' | 'Z' | 'X' => true,
        't' => tracer(row.pid).is_some_and(stands),
        'D' => awaits_child(row),
        _ => false,
    };
    let restless = ours.values().filter(|row| !at_rest(row));
    restless
        .map(|row| Process {
            pid: row.pid,
            start_time: row.start_time,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pid, parent, state.
    fn rows(processes: &[(u32, u32, char)]) -> Vec<ProcessRow> {
        let row = |&(pid, parent, state): &(u32, u32, char)| ProcessRow {
            pid: Pid(pid),
            parent: Pid(parent),
            start_time: u64::from(pid),
            uid: 1000,
            state,
            cgroup: None,
        };
        processes.iter().map(row).collect()
    }

    fn of(processes: &[(u32, u32, char)], tracer: Option<u32>) -> Vec<u32> {
        let restless = restless_of(&rows(processes), |row| row.pid.0 < 100, |_| tracer.map(Pid));
        let mut pids: Vec<u32> = restless.iter().map(|process| process.pid.0).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn what_runs_or_is_continued_does_not_stand() {
        assert_eq!(
            of(&[(10, 1, 'T'), (11, 10, 'R'), (12, 10, 'S')], None),
            [11, 12]
        );
        assert_eq!(
            of(&[(10, 1, 'T'), (11, 10, 'Z'), (100, 1, 'R')], None),
            [0; 0]
        );
    }

    #[test]
    fn a_parent_that_waits_for_a_stopped_child_stands() {
        assert_eq!(of(&[(10, 1, 'D'), (11, 10, 'T')], None), [0; 0]);
        assert_eq!(of(&[(10, 1, 'D'), (11, 10, 'R')], None), [10, 11]);
        assert_eq!(of(&[(10, 1, 'D')], None), [10]);
    }

    #[test]
    fn what_is_traced_stands_as_long_as_its_tracer_does() {
        let both = [(10, 1, 't'), (11, 1, 'T'), (100, 1, 'T')];
        assert_eq!(of(&both, Some(11)), [0; 0]);
        assert_eq!(of(&both, Some(100)), [10], "the tracer is another's");
        assert_eq!(of(&both, None), [10]);
    }
}
