//! What the machine must offer for the probes to run, checked before anything is loaded.
//!
//! Each check has a verdict and, where it is not met, one sentence on what to do. The daemon runs
//! the same checks at its start and refuses with the first that fails, so that nobody has to read
//! a verifier's log to learn that they are not root.

mod kernel;
mod privilege;
mod processes;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::capture::Options;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, with less.
    Warning,
    /// The daemon cannot run.
    Failed,
}

/// One check's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it is.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it; empty where nothing is to be done.
    pub advice: &'static str,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Ok,
            found: found.into(),
            advice: "",
        }
    }

    fn warning(name: &'static str, found: impl Into<String>, advice: &'static str) -> Self {
        Self {
            name,
            verdict: Verdict::Warning,
            found: found.into(),
            advice,
        }
    }

    fn failed(name: &'static str, found: impl Into<String>, advice: &'static str) -> Self {
        Self {
            name,
            verdict: Verdict::Failed,
            found: found.into(),
            advice,
        }
    }
}

/// What the checks need to know of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Requirements {
    /// The file with the kernel's types, where it does not bring its own.
    pub btf: Option<PathBuf>,
    /// Bytes of the ring.
    pub ring_size: u32,
}

/// Runs all checks, the ones that others depend on first.
pub fn run(requirements: &Requirements) -> Vec<Check> {
    vec![
        kernel::version(
            Path::new("/proc/sys/kernel/osrelease"),
            requirements.btf.is_some(),
        ),
        kernel::architecture(),
        privilege::capabilities(Path::new("/proc/self/status")),
        processes::table(Path::new("/proc")),
        kernel::lockdown(Path::new("/sys/kernel/security/lockdown")),
        kernel::btf(requirements.btf.as_deref()),
        kernel::tracefs(),
        kernel::ring(requirements.ring_size),
        kernel::probes(),
    ]
}

/// Loads and attaches the probes for a moment: the check that includes all others, for when those
/// are met.
pub fn attach(options: &Options) -> Check {
    kernel::attach(options)
}

/// The first check that keeps the daemon from running.
pub fn first_failure(checks: &[Check]) -> Option<&Check> {
    checks.iter().find(|check| check.verdict == Verdict::Failed)
}
