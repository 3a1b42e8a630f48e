//! A script: calls one after another over one connection, with expectations.
//!
//! All of it is read and checked before the server is started, because running half a script is
//! worse than running none.

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
