//! What becomes of what cannot be judged: a mistake in the policy, a message that is too long, a tool that nobody
//! knows.

/// What becomes of what cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnFailure {
    /// It passes.
    Open,
    /// It does not pass.
    Closed,
}
