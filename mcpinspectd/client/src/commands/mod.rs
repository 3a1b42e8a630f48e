//! The commands that need a server and nothing else: no kernel, no daemon, no bus.

pub mod call;
pub mod replay;
pub mod scan;
