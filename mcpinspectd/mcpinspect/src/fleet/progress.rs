//! Shows how far reading has got, on a terminal.

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mcpinspect_fleet::collect::Progress;

/// Most collections are read before this, and a bar would only flicker.
const PATIENCE: u32 = 5;
const STEP: Duration = Duration::from_millis(100);

/// Does `work`, and meanwhile shows how far it has got, if standard error is a terminal.
pub fn shown<T>(progress: &Progress, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(progress, &is_over));
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        done
    })
}

fn watch(progress: &Progress, is_over: &AtomicBool) {
    let style = ProgressStyle::with_template(
        "{bar:30} {percent:>3} %  {bytes} of {total_bytes}, {msg} entries, {eta} left",
    );
    let bar =
        ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut steps = 0;
    while !is_over.load(Ordering::Relaxed) {
        thread::park_timeout(STEP);
        steps += 1;
        if steps < PATIENCE {
            continue;
        }
        let read = progress.read.load(Ordering::Relaxed);
        bar.set_length(progress.total.load(Ordering::Relaxed).max(read));
        bar.set_message(progress.entries.load(Ordering::Relaxed).to_string());
        bar.set_position(read);
    }
    bar.finish_and_clear();
}
