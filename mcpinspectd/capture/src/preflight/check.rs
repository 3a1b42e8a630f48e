//! One check's result.

use serde::Serialize;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The requirement is met.
    Ok,
    /// The daemon runs, with reduced function.
    Warning,
    /// The daemon cannot run.
    Failed,
}

/// One check's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// How the check ended.
    pub verdict: Outcome,
    /// What was found.
    pub found: String,
    /// What to do about it; empty if there is nothing to do.
    pub advice: &'static str,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Outcome::Ok,
            found: found.into(),
            advice: "",
        }
    }

    pub(super) fn warning(
        name: &'static str,
        found: impl Into<String>,
        advice: &'static str,
    ) -> Self {
        Self {
            name,
            verdict: Outcome::Warning,
            found: found.into(),
            advice,
        }
    }

    pub(super) fn failed(
        name: &'static str,
        found: impl Into<String>,
        advice: &'static str,
    ) -> Self {
        Self {
            name,
            verdict: Outcome::Failed,
            found: found.into(),
            advice,
        }
    }
}
