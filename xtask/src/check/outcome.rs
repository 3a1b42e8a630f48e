//! The result of a check that did not fail.

/// Whether it ran.
pub(super) enum Outcome {
    Passed,
    /// It cannot run here, for this reason.
    Unchecked(String),
}

/// Whether this is the public CI, where every check can run.
pub(super) fn in_public_ci() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some()
}
