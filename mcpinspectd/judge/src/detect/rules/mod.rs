//! What to look for.
//!
//! Rules are data, in TOML files: those built into the program, and those that people add. Attacks are
//! worded in endless ways, so rules describe meaning: lists of words that stand for one concept, and
//! concepts that occur together in a sentence. Once compiled, all rules are searched for in one pass, and their
//! number hardly affects what a text costs.
//!
//! - `format`: what a rule file can express
//! - `vocabulary`: what a rule can ask for besides words
//! - `compile`: from rule files to a [`RuleSet`]
//! - `phrases`, `automaton`, `cooccurrence`: the indexes of a rule set
//! - `lesson`: what people's decisions taught
//! - `suppression`: findings that people do not want to see

mod automaton;
mod compile;
pub(super) mod cooccurrence;
mod format;
mod lesson;
mod phrases;
mod rule;
mod set;
mod suppression;
mod vocabulary;

pub use format::{RuleError, line_of};
pub use lesson::{Because, Lesson, Lessons};
pub use rule::{Rule, RuleId};
pub use set::RuleSet;
pub use suppression::Suppression;
pub use vocabulary::{Decides, Negation, Probe, Scope, TokenKind};

pub(super) use automaton::Automaton;
pub(super) use cooccurrence::Cooccurrence;
pub(super) use phrases::{PhraseTrie, is_word_byte};
pub(super) use rule::RuleKind;

#[cfg(test)]
mod tests;
