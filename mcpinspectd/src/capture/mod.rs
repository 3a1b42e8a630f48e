//! (see the crate's front page)
