//! From matches to one score.
//!
//! Honest descriptions are full of single signs of an attack: "you must", "before using", a URL. What they
//! lack is many different signs close together. So matches are sorted into [windows](Features), the weights
//! of the rules in a window are added up as log odds, and a subject's score is that of its worst window. An
//! alert then takes at least two kinds of evidence, or much of one kind, unless a rule decides alone.
//!
//! The [`Weights`] were fitted to labelled examples.

mod features;
mod weigh;
mod weights;

pub use features::Features;
pub use weigh::{REPEAT, Score, heaviest, shares, weigh};
pub use weights::{SurfaceWeights, Weights};
