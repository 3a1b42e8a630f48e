//! What the sinks' integration tests share: needs that are met or reported, programs, waiting.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod bus;

use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Whether `needs` are all met. In CI an unmet one is a failure, elsewhere the test says so and
/// is left out.
pub fn ready(needs: &[(&str, bool)]) -> bool {
    let missing: Vec<_> = needs
        .iter()
        .filter(|(_, met)| !met)
        .map(|(need, _)| *need)
        .collect();
    if missing.is_empty() {
        return true;
    }
    let missing = missing.join(", ");
    assert!(
        std::env::var_os("CI").is_none(),
        "cannot run here, and CI must: no {missing}"
    );
    eprintln!("not run: no {missing}");
    false
}

pub fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// Whether a program of this name can be started.
pub fn have(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Whether a program of this name is found, for those that know no `--version`.
pub fn installed(program: &str) -> bool {
    run("sh", &["-c", &format!("command -v {program}")])
        .status
        .success()
}

/// Runs a program to its end.
pub fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"))
}

/// Standard output of a program that must succeed.
pub fn stdout(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs `test` on a thread with a mount namespace of its own, where it may put files in the place of
/// the machine's. Needs root.
pub fn in_own_mounts(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Puts `source` in the place of `target`, for this thread and those that it starts.
pub fn put_in_place(source: &Path, target: &str) {
    let none: Option<&str> = None;
    mount(Some(source), target, none, MsFlags::MS_BIND, none).unwrap();
}

/// Puts an empty directory in the place of `target`.
pub fn empty(target: &str) {
    let none: Option<&str> = None;
    std::fs::create_dir_all(target).unwrap();
    mount(Some("tmpfs"), target, Some("tmpfs"), MsFlags::empty(), none).unwrap();
}

/// Waits until `probe` answers with something.
pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "never happened: {what}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}
