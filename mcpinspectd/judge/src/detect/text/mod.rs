//! The text of what is judged.
//!
//! Rules should see what a model reads, not how it was written. Text is therefore [extracted](extract)
//! from a definition or message with the path of each value, and [folded](fold()) once: case, look-alike
//! letters, invisible characters and layout are normalised, and every position maps back to the original,
//! so that a finding can point there.
//!
//! - [`extract`]: which strings of a value are text
//! - `subject_text`: the folded text of one subject, and the way back to the original
//! - `folding`, with `bytes` and `confusables`: how text is folded
//! - `names`: names of tools, compared the way people read them
//! - `sanitise`: excerpts that are safe to show

mod bytes;
mod confusables;
pub mod extract;
mod folding;
pub(super) mod names;
pub(super) mod sanitise;
mod subject_text;

pub use folding::{PIECE_END, Shape, Shaped};
pub use subject_text::{
    PathId, PathSegment, Piece, PieceRange, SUBJECT_LIMIT, SubjectText, VALUE_LIMIT, fold,
};

#[cfg(test)]
mod tests;
