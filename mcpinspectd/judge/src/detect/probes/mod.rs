//! Findings that take code instead of words.
//!
//! Some signs of an attack are not in what a text says: it is spelled in invisible characters, it is
//! encoded, or it contradicts the annotations beside it. Each probe reports findings of its
//! [`Probe`](super::rules::Probe); a rule states what that means and weighs.

pub(super) mod annotations;
pub(super) mod encoded;
pub(super) mod hidden;
pub(super) mod turns;
