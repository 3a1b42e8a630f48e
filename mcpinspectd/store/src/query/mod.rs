//! SQL over what was recorded, even for users who must not read the files.
//!
//! A statement is the caller's own, so nothing may depend on understanding it. There are four walls, one behind
//! the other:
//!
//! 1. The statement runs on a connection *without a file*. Its tables are virtual: `table` answers for them
//!    from a second connection, opened for reading, with the caller's user in each of its statements. There
//!    is no name through which a statement could reach anything else.
//! 2. An authoriser allows reading those tables and calling known functions. Everything else is refused
//!    when the statement is compiled.
//! 3. Limits: one statement, its length and depth, the length of a value, memory, rows, bytes, seconds.
//! 4. A separate process for this one statement (`worker`), which can no longer open or write any file by the
//!    time it reads the statement. Whatever it does to itself, the daemon lives on, and its
//!    lifetime is its deadline.
//!
//! A temporary view over the store's own tables would be simpler than 1, but not enough: SQLite tells the
//! authoriser which view reads a column, but a common table expression of the same name passes for it.

mod run;
mod statement;
mod stores;
mod table;
mod views;
pub mod worker;

pub use views::{ViewHelp, help};
pub use worker::Worker;

/// Most rows of one answer.
pub const MAX_ROWS: usize = 500;

/// Seconds that a query may take.
pub const DEADLINE: u64 = 5;
