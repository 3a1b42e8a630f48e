//! Ends the threads that write what a session leaves behind.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the end of the guard waits for what is still to be written or posted.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits for threads to end, but not forever.
pub fn wait_for(threads: &[JoinHandle<()>]) {
    let until = Instant::now() + PATIENCE;
    while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}
