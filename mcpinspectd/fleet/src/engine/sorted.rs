//! What the parts of an answer have in common.

use std::io;

use super::super::value::Value;

/// How much to read at once.
pub const BLOCK: usize = 256 << 10;

/// Which rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those of the hosts, which come first.
    Hosts,
    /// All.
    All,
}

/// Rows ordered by key.
pub trait Sorted {
    /// Moves to the next row.
    ///
    /// # Errors
    /// There are more, and they cannot be read.
    fn advance(&mut self) -> io::Result<()>;
    /// The key of the row; `None` after the last.
    fn key(&self) -> Option<&[u8]>;
    /// The value of the row.
    fn value(&self) -> Value;
}

/// The error for an answer that ends too early.
pub fn broken(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            io::Error::other("ClickHouse aborted its answer; see its log for the reason")
        }
        _ => error,
    }
}
