//! What the suites share: requirements, programs, mount namespaces and waiting.
#![allow(dead_code, reason = "each suite uses its part")]

pub mod bus;
pub mod control;
pub mod desktop;
pub mod folder;
pub mod recorded;
pub mod running;

use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use mcpinspect_tests::places;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Programs and the Debian packages that have them; `cargo xtask test` reads the same list.
const PROGRAMS: &[(&str, &str)] = include!("programs.in");

/// Fails the test if a program is missing, and names the package to install. A skipped test would
/// look like one that passed.
pub fn require(programs: &[&str]) {
    let missing: Vec<_> = programs.iter().filter(|name| !installed(name)).collect();
    let packages: Vec<_> = PROGRAMS
        .iter()
        .filter(|(program, _)| missing.contains(&program))
        .map(|(_, package)| *package)
        .collect();
    assert!(
        missing.is_empty(),
        "{missing:?} missing: run `cargo xtask test`, which installs what tests need, or \
         `apt-get install {}`",
        packages.join(" ")
    );
}

/// Fails the test unless it runs as root.
pub fn require_root() {
    assert!(
        nix::unistd::Uid::effective().is_root(),
        "this test needs root: `cargo xtask test` runs it through sudo, and `--unit` leaves it out"
    );
}

/// The path of a program of this workspace.
pub fn built(program: &str) -> String {
    let path = places::program(program).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The name by which this program knows a test in this module, as `module_path!` names it.
pub fn own_name(module: &str, test: &str) -> String {
    let (_, module) = module.split_once("::").unwrap();
    format!("{module}::{test}")
}

/// Whether a program is in `PATH`, or at its absolute path.
fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Runs a program until it exits.
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

/// Runs `test` on a thread with a mount namespace of its own, where it may replace the machine's
/// files. Needs root.
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

/// Mounts `source` over `target`, for this thread and the threads that it starts.
pub fn put_in_place(source: &Path, target: &str) {
    let none: Option<&str> = None;
    mount(Some(source), target, none, MsFlags::MS_BIND, none).unwrap();
}

/// Mounts an empty directory over `target`.
pub fn empty(target: &str) {
    let none: Option<&str> = None;
    std::fs::create_dir_all(target).unwrap();
    mount(Some("tmpfs"), target, Some("tmpfs"), MsFlags::empty(), none).unwrap();
}

/// Polls `probe` until it returns a value.
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
