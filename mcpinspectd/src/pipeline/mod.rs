//! The way of the data, composed.

pub mod outputs;
