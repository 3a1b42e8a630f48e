//! Lists of words that are looked up as they are.
//!
//! Rules say what words mean together; some questions need only a list: whether a verb asks to send something, or
//! whether many tools are named like this. The lists are data, `rules/words.toml`, and are parsed once.

use std::collections::HashSet;
use std::sync::LazyLock;

use foldhash::fast::FixedState;
use serde::Deserialize;

/// A list in which words are looked up. Many are looked up for each message, so hashing has to be cheap; the words
/// are the program's own, so nobody can choose some that collide.
pub type WordSet = HashSet<Box<str>, FixedState>;

/// Languages in Latin letters whose common words are known, other than English.
pub const LANGUAGES: usize = 12;

/// All lists. The file explains each.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// What verbs stand for.
    pub acts: ActVerbs,
    /// How sentences give orders.
    pub orders: OrderWords,
    /// What the names of tools are made of.
    pub tool_names: ToolNameWords,
    /// What may be anywhere in a name or path.
    pub name_parts: NameParts,
    /// What tools do with data.
    pub data_flow: DataFlowWords,
    /// What hosts end with.
    pub hosts: HostWords,
    /// Common words.
    pub languages: LanguageWords,
}

/// Verbs by what they ask for: a list for each act.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActVerbs {
    pub send: WordSet,
    pub create: WordSet,
    pub delete: WordSet,
    pub change: WordSet,
    pub run: WordSet,
    pub read: WordSet,
}

/// How sentences give orders.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderWords {
    /// Words before the verb.
    pub leading: WordSet,
    /// What is sent when it is made.
    pub deeds: WordSet,
    /// What is no person's name.
    pub not_people: WordSet,
}

/// What the names of tools are made of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolNameWords {
    /// Verbs with which they begin.
    pub first_verbs: WordSet,
    /// Verbs that are nouns in most of them.
    pub verbs_as_nouns: WordSet,
    /// Things on the user's own computer.
    pub local_things: WordSet,
    /// Verbs of tools that change something.
    pub changes: WordSet,
    /// Verbs of tools that destroy something.
    pub destroys: WordSet,
    /// Words that distinguish versions.
    pub affixes: WordSet,
    /// Words that many servers use.
    pub common: WordSet,
}

/// What may be anywhere in a name or path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameParts {
    /// Parts of what keys, credentials and accounts are called.
    pub sensitive: Vec<String>,
    /// Parts of what tools with effects are called.
    pub risky: Vec<String>,
}

/// Words in a tool's name that show what it does with data.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFlowWords {
    /// Text that strangers wrote comes in.
    pub untrusted: WordSet,
    /// The data is private, if it is read.
    pub private: WordSet,
    /// Something is read.
    pub reads: WordSet,
    /// Something leaves.
    pub sends: WordSet,
    /// Something comes into being.
    pub creates: WordSet,
    /// Others see it.
    pub shared: WordSet,
    /// As the first word: nothing is read.
    pub writes: WordSet,
}

/// What hosts end with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostWords {
    /// Top-level domains that are not extensions of files.
    pub domains: WordSet,
}

/// Common words of languages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageWords {
    /// Of English.
    pub english: WordSet,
    /// Of the other languages.
    pub others: [WordSet; LANGUAGES],
}

const TEXT: &str = include_str!("../../rules/words.toml");

/// The lists.
#[expect(
    clippy::expect_used,
    reason = "the file is part of the program, and a test reads it"
)]
pub static WORDS: LazyLock<Words> =
    LazyLock::new(|| toml::from_str(TEXT).expect("the word lists are valid"));

#[cfg(test)]
mod tests {
    use toml::Value;

    use super::*;

    /// Checks each list in a value. Returns how many words there are.
    fn check(name: &str, value: &Value) -> usize {
        match value {
            Value::Table(table) => table.iter().map(|(key, value)| check(key, value)).sum(),
            Value::Array(list) if list.iter().all(Value::is_str) => {
                let words: HashSet<&str> = list.iter().filter_map(Value::as_str).collect();
                assert_eq!(words.len(), list.len(), "a word is repeated in {name}");
                for word in &words {
                    assert_eq!(*word, word.to_lowercase(), "in {name}");
                }
                words.len()
            }
            Value::Array(lists) => lists.iter().map(|list| check(name, list)).sum(),
            other => panic!("{name} is no list: {other}"),
        }
    }

    #[test]
    fn the_lists_are_read_and_repeat_nothing() {
        assert!(WORDS.acts.send.contains("send"));
        let file: toml::Table = toml::from_str(TEXT).unwrap();
        assert!(check("words.toml", &Value::Table(file)) > 1000);
    }
}
