//! Where rules match in a text.
//!
//! - [`Matcher`]: all of it, for one subject after another
//! - `token`, with `names` and `hit`: what a rule can ask for besides words
//! - `negation`: what is denied
//! - `sentences`: words and tokens that occur together
//! - `results`: the matches

mod hit;
mod matcher;
mod names;
mod negation;
mod results;
mod sentences;
mod token;

pub use matcher::{MatchedSentence, Matcher};
pub use names::KnownNames;
pub use results::{MatchResults, RuleMatch};
