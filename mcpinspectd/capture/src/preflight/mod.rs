//! What the machine must offer for the probes to run, checked before anything is loaded.
//!
//! Each check has an outcome and, if something is missing, one sentence on what to do. At its start, the daemon
//! runs those that take no time and stops at the first that fails: a user who is not root learns that from a
//! sentence instead of a verifier's log.

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
    /// The file with the kernel's types, if the kernel has none of its own.
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

/// Runs those that take no time. Any other problem shows as soon as the probes are loaded.
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

/// Loads and attaches the probes for a moment, including those for TLS if the configuration enables it. This
/// proves what the other checks only suggest; run it when none of them has failed.
pub fn attach(options: &Options) -> Vec<Check> {
    kernel::attach(options)
}

/// The TLS libraries of this machine. An unsupported one does not keep anything from running.
pub fn tls_libraries() -> Vec<Check> {
    tls::libraries()
}

/// The first check that keeps the daemon from running.
pub fn first_failure(checks: &[Check]) -> Option<&Check> {
    checks.iter().find(|check| check.verdict == Outcome::Failed)
}
