//! JSON values, read the way lenient clients read them, within a budget.
//!
//! A strict reader gives up on a lone surrogate, on a number beyond the range of a double, and on
//! nesting deeper than its limit. A client that accepts all of that shows the text to its model, so
//! whatever detection refused to read would go unseen. But a server decides how many values a message
//! of 64 MiB has, so a tree of all of them is not built either: see [`BoundedValue`].

mod read;
mod value;

pub use read::{BoundedValue, MAX_DEPTH};
pub use value::{Json, Members};
