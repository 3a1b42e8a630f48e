//! What a server is about: the words in the names of its tools.
//!
//! A sentence about something else stands out. Words are compared by their beginnings, which are the same
//! in most forms of a word; a beginning is a number, because a server with many tools has hundreds of them
//! and every word of every definition is looked up.

/// Bytes of a word's beginning. They fit in a number with room to spare.
const STEM: usize = 5;
/// The fewest bytes of a meaningful word.
const SHORTEST: usize = 3;
/// Characters of a name to read.
const NAME: usize = 96;

/// The beginnings of some words.
#[derive(Clone, Debug, Default)]
pub struct Topic(Vec<u64>);

impl Topic {
    /// The words of these names.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut stems = Vec::new();
        for name in names {
            for_each_word(name, |word| stems.push(stem(word)));
        }
        stems.sort_unstable();
        stems.dedup();
        Self(stems)
    }

    /// Whether a word, in lower case, begins like one of them.
    pub fn has(&self, word: &str) -> bool {
        self.0.binary_search(&stem(word)).is_ok()
    }
}

/// The beginning of a word.
fn stem(word: &str) -> u64 {
    let bytes = word[..word.floor_char_boundary(STEM)].bytes();
    bytes.fold(0, |stem, byte| stem << 8 | u64::from(byte))
}

/// The words of a name with more than two letters, in lower case.
pub fn for_each_word(name: &str, mut visit: impl FnMut(&str)) {
    let mut word = String::new();
    let mut lower = false;
    let mut end = |word: &mut String| {
        if word.len() >= SHORTEST {
            visit(word);
        }
        word.clear();
    };
    for letter in name.chars().take(NAME) {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && lower) {
            end(&mut word);
        }
        lower = letter.is_lowercase();
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
    }
    end(&mut word);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let words = |name| {
            let mut words = Vec::new();
            for_each_word(name, |word| words.push(word.to_owned()));
            words
        };
        assert_eq!(words("read_userNotes-v2"), ["read", "user", "notes"]);
        assert_eq!(words("ÄrgerListe"), ["ärger", "liste"]);
        assert!(words("").is_empty() && words("a_b").is_empty());
    }

    #[test]
    fn forms_of_a_word_are_one() {
        let topic = Topic::of(["list_invoices", "send"]);
        assert!(topic.has("invoicing") && topic.has("send") && topic.has("list"));
        assert!(!topic.has("sending") && !topic.has("inv") && !topic.has(""));
    }
}
