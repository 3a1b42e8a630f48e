//! What the machine must offer for the probes to run, checked before anything is loaded.
//!
//! Each check has an outcome and, where something is missing, one sentence on what to do. The daemon
//! runs those that take no time at its start and stops at the first that fails: a user who is not root learns
//! that from a sentence instead of a verifier's log.

mod check;
mod kernel;
mod pid_namespace;
mod privilege;
mod tls;

use std::path::{Path, PathBuf};

use crate::capture::Options;

pub use check::{Check, Outcome};

/// The settings that the checks depend on.
#[derive(Clone, Debug, Default)]
pub struct Requirements {
    /// The file with the kernel's types, where the kernel has none of its own.
    pub btf: Option<PathBuf>,
    /// Size of the ring in bytes.
    pub ring_size: u32,
}

/// Runs all checks. A check comes before those that depend on it.
pub fn run(requirements: &Requirements) -> Vec<Check> {
    let mut checks = before_start(requirements);
    checks.push(kernel::btf(requirements.btf.as_deref()));
    checks
}

/// Runs those that take no time. What is left shows at once when the probes are loaded.
pub fn before_start(requirements: &Requirements) -> Vec<Check> {
    vec![
        kernel::version(
            Path::new("/proc/sys/kernel/osrelease"),
            requirements.btf.is_some(),
        ),
        kernel::architecture(),
        privilege::capabilities(Path::new("/proc/self/status")),
        pid_namespace::check(Path::new("/proc")),
        kernel::lockdown(Path::new("/sys/kernel/security/lockdown")),
        kernel::tracefs(),
        kernel::ring(requirements.ring_size),
        kernel::probes(),
    ]
}

/// Loads and attaches the probes for a moment, those for TLS too where the configuration wants it looked into. This
/// proves what the other checks only suggest; run it when none of them has failed.
pub fn attach(options: &Options) -> Vec<Check> {
    kernel::attach(options)
}

/// The TLS libraries of this machine. What is not looked into keeps nothing from running.
pub fn tls_libraries() -> Vec<Check> {
    tls::libraries()
}

/// The first check that keeps the daemon from running.
pub fn first_failure(checks: &[Check]) -> Option<&Check> {
    checks.iter().find(|check| check.verdict == Outcome::Failed)
}
