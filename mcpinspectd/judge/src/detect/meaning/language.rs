//! Whether a definition is written in English.
//!
//! The rules know English phrases and little else, so in other languages the model is alone: nothing backs it, and
//! what it says has to count for more. Which language it is does not matter, only that it is another one, and that
//! terse English is not mistaken for it. So there has to be evidence of another language: its script, or several of
//! its commonest words and hardly any English ones.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::FixedState;

use super::token::{Token, TokenClass};
use crate::detect::words::{LANGUAGES, WORDS};

/// How many common words of another language suggest that it may be that one.
const LEAST: usize = 3;
/// How many more of them there have to be than English ones.
const MORE: usize = 2;
/// The share of words in another script that shows another language: one in this many.
const SCRIPT: usize = 3;

/// Whether a common word is English, and the other languages that have it, by number.
type Common = HashMap<&'static str, (bool, Vec<usize>), FixedState>;

static COMMON: LazyLock<Common> = LazyLock::new(|| {
    let mut common = Common::default();
    for word in &WORDS.languages.english {
        common.entry(word).or_default().0 = true;
    }
    for (language, words) in WORDS.languages.others.iter().enumerate() {
        for word in words {
            common.entry(word).or_default().1.push(language);
        }
    }
    common
});

/// Counts the words of a text by what they say about its language.
#[derive(Clone, Copy, Debug, Default)]
pub struct LanguageCounts {
    all: usize,
    other_script: usize,
    english: usize,
    others: [usize; LANGUAGES],
}

impl LanguageCounts {
    /// Counts the tokens of a sentence.
    pub fn add(&mut self, tokens: &[Token]) {
        for token in tokens {
            if !matches!(token.class, TokenClass::Word | TokenClass::Character) {
                continue;
            }
            let text = token.text.as_str();
            self.all += 1;
            // Latin letters with all their marks end here.
            self.other_script +=
                usize::from(text.starts_with(|c: char| c > '\u{2ff}' && c.is_alphabetic()));
            if let Some((english, others)) = COMMON.get(text) {
                self.english += usize::from(*english);
                others
                    .iter()
                    .for_each(|language| self.others[*language] += 1);
            }
        }
    }

    /// Whether the text is in a language other than English.
    pub fn is_foreign(&self) -> bool {
        let most = self.others.iter().copied().max().unwrap_or_default();
        self.other_script * SCRIPT > self.all || (most >= LEAST && most > MORE * self.english)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::meaning::token::{NameLookup, tokens};

    struct NoNames;

    impl NameLookup for NoNames {
        fn class(&self, _: &str, _: bool) -> Option<TokenClass> {
            None
        }
    }

    fn is_foreign(text: &str) -> bool {
        let mut words = LanguageCounts::default();
        words.add(&tokens(text, &NoNames));
        words.is_foreign()
    }

    #[test]
    fn other_languages_are_told_from_terse_english() {
        for text in [
            "Liefert den Wetterbericht für eine Stadt und die Tage danach.",
            "Renvoie la météo d'une ville et des jours qui suivent.",
            "Devuelve el tiempo de una ciudad y de los días que siguen.",
            "Zwraca pogodę dla miasta oraz na kolejne dni, jeśli jest znana; nie działa w nocy.",
            "Возвращает погоду в городе.",
            "指定した都市の天気を返します。",
            "Trả về thời tiết của một thành phố và các ngày tiếp theo.",
        ] {
            assert!(is_foreign(text), "{text}");
        }
        for text in [
            "Search flights. Origin airport. Destination airport. Date.",
            "Gets the weather of São Paulo, El Paso, La Paz or Den Haag.",
            "Translates to 日本語 or any other language that you name.",
            "lookup(q) -> rows",
            "",
        ] {
            assert!(!is_foreign(text), "{text}");
        }
    }
}
