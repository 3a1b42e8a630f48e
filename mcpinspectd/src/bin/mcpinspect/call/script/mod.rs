//! A script: calls one after the other over one connection, with expectations.
//!
//! All of it is read and checked before the server is started, because half of a script that was run is
//! worse than none.

mod junit;
mod read;
mod run;
mod values;

pub use self::junit::write as write_junit;
pub use self::read::read;
pub use self::run::{not_begun, run};

/// A step by its number, and its name if it has one.
fn title(at: usize, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("step {} ({name})", at + 1),
        None => format!("step {}", at + 1),
    }
}
