//! The daemon: the stages in their order, and what it tells the journal, the bus and files.
//!
//! This crate composes all others that watch. It knows the order of the stages, who receives events and
//! how requests from people come back in. It must never know the insides of a stage.
//!
//! Read [`pipeline`] first.

pub mod control;
pub mod pipeline;
pub mod service;
pub mod sink;
pub mod status;
pub mod systemd;
pub mod tap;
