//! What a sentence asks, of whom, about what.
//!
//! Rules know phrases, and phrases do not carry over to the next author: an attack in new words has none of
//! them. For each sentence of a definition, a small model answers whether it asks an agent for something that a
//! description has no business asking, and which act that is. It was trained on sentences written for
//! the purpose (`mcpinspectd/training`), each attack beside an honest twin in nearly the same words, so that
//! what it has learnt is not a topic or a tone.
//!
//! - [`token`]: words, and what takes the place of a word
//! - [`features`](mod@features): the features of a sentence
//! - [`topic`]: what the server is about
//! - [`model`]: the weights
//! - [`act`]: what may be asked
//! - [`language`]: whether it is English
//!
//! It runs only on definitions, once for each new one.

pub mod act;
pub mod features;
pub mod language;
pub mod model;
pub mod token;
pub mod topic;

use std::sync::LazyLock;

use self::act::{ACTS, Act};
use self::features::{Extractor, Sentence};
use self::language::LanguageCounts;
use self::model::{ANSWERS, Model};

/// The built-in model, as `cargo xtask train` writes it.
static MODEL: &[u8] = include_bytes!("../../../rules/meaning.bin");

/// How much less a sentence says in a long definition: among many sentences, one stands out by chance. In log
/// odds for each factor of e in the number of sentences.
const BREADTH: f32 = 0.9;
/// Sentences that every definition is assumed to have besides its own: a single one is not proof against chance.
const UNSAID: f32 = 7.0;

/// What remains of the log odds of the most telling of this many sentences.
pub fn in_definition(log_odds: f32, sentences: usize) -> f32 {
    log_odds - BREADTH * (sentences as f32 + UNSAID).ln()
}

/// What the model makes of a definition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meaning {
    /// Log odds that a sentence of it asks for something that it has no business asking.
    pub log_odds: f32,
    /// Which sentence that is.
    pub sentence: usize,
    /// How many sentences there are.
    pub sentences: usize,
    /// Which act it most likely is, by its index in [`ACTS`].
    pub act: usize,
    /// Whether the definition is in a language other than English.
    pub foreign: bool,
}

impl Meaning {
    /// The act.
    pub fn act(&self) -> &'static Act {
        &ACTS[self.act.min(ACTS.len() - 1)]
    }
}

/// The built-in model.
#[expect(
    clippy::expect_used,
    reason = "the file is part of the program, and a test reads it"
)]
pub fn builtin() -> &'static Model<'static> {
    static BUILTIN: LazyLock<Model<'static>> =
        LazyLock::new(|| Model::read(MODEL).expect("the built-in model is valid"));
    &BUILTIN
}

/// Classifies the sentences of a definition, one after another, and keeps the most telling answer.
#[derive(Debug)]
pub struct DefinitionClassifier<'m> {
    model: &'m Model<'m>,
    extractor: &'m mut Extractor,
    sentences: usize,
    words: LanguageCounts,
    /// Log odds, which sentence, and all answers about it.
    worst: Option<(f32, usize, [f32; ANSWERS])>,
}

impl<'m> DefinitionClassifier<'m> {
    /// A classifier without any sentence yet.
    pub fn new(model: &'m Model<'m>, extractor: &'m mut Extractor) -> Self {
        Self {
            model,
            extractor,
            sentences: 0,
            words: LanguageCounts::default(),
            worst: None,
        }
    }

    /// Takes in a sentence. Returns whether it is the most telling so far.
    pub fn add(&mut self, sentence: &Sentence<'_>) -> bool {
        let features = self.extractor.extract(sentence);
        self.words.add(sentence.tokens);
        let attack = self.model.attack(features);
        let worse = self.worst.is_none_or(|(log_odds, ..)| attack > log_odds);
        if worse {
            self.worst = Some((attack, self.sentences, self.model.answers(features)));
        }
        self.sentences += 1;
        worse
    }

    /// What it makes of all of them; `None` if there were none.
    pub fn meaning(&self) -> Option<Meaning> {
        let (log_odds, sentence, answers) = self.worst?;
        let acts = answers[1..].iter().enumerate();
        let act = acts
            .max_by(|a, b| a.1.total_cmp(b.1))
            .map_or(0, |best| best.0);
        Some(Meaning {
            log_odds: in_definition(log_odds, self.sentences),
            sentence,
            sentences: self.sentences,
            act,
            foreign: self.words.is_foreign(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_model_is_valid() {
        assert!(Model::read(MODEL).is_some());
    }
}
