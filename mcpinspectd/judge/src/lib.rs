//! What a message means: whether a definition is what it was, whether a text attacks, whether a rule
//! lets it pass.
//!
//! This crate knows messages, pins, detection rules and policies. It must never know where a message came
//! from, where pins are kept, or who receives events: it takes values and returns values, without I/O.
//!
//! Read [`registry::Registry`] first, then [`detect::Detector`] and [`policy::Policy`].

pub mod detect;
pub mod policy;
pub mod registry;
