//! What to do with what cannot be judged: a mistake in the policy, a message that is too long, an unknown
//! tool.

/// What becomes of what cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnFailure {
    /// It passes.
    Open,
    /// It does not pass.
    Closed,
}
