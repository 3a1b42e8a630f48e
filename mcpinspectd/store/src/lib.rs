//! What lasts: pins and messages in SQLite, and questions about them.
//!
//! This crate knows files and rows. It must never judge: the registry decides in memory and hands its
//! writes to [`registry`]; messages arrive judged and masked in [`messages`].
//!
//! Read [`registry::open`] first, then [`messages`] and [`query`].

pub mod messages;
pub mod query;
pub mod registry;
