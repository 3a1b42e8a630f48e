//! What the kernel reports about a process's threads.

use anyhow::{Context, Result};

/// Names and nice values from the text of `/proc/PID/task/*/stat`, see `proc_pid_stat(5)`.
pub fn priorities(stats: &str) -> Result<Vec<(String, i32)>> {
    let thread = |line: &str| {
        let (_, rest) = line.split_once('(')?;
        let (name, rest) = rest.rsplit_once(") ")?;
        // The nice value is the 19th field, and the state after the name is the third.
        let nice = rest.split(' ').nth(19 - 3)?.parse().ok()?;
        Some((name.to_owned(), nice))
    };
    let lines = stats.lines();
    lines
        .map(|line| thread(line).with_context(|| format!("not a thread: {line}")))
        .collect()
}
