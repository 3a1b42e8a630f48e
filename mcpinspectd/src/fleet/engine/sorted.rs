//! What the parts of an answer have in common.

use std::io;

use super::super::value::Value;

/// What is read at once.
pub const BLOCK: usize = 256 << 10;

/// Which rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those of the hosts, which come first.
    Hosts,
    /// All.
    All,
}

/// Rows in the order of their keys.
pub trait Sorted {
    /// Goes to the next row.
    ///
    /// # Errors
    /// There are more, and they cannot be read.
    fn advance(&mut self) -> io::Result<()>;
    /// The key of the row; `None` behind the last.
    fn key(&self) -> Option<&[u8]>;
    /// The value of the row.
    fn value(&self) -> Value;
}

/// What an answer that ends too early means.
pub fn broken(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            io::Error::other("ClickHouse broke its answer off; its log says why")
        }
        _ => error,
    }
}
