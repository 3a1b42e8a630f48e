//! Tests of a text: equal to, one of, containing, matching.

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

/// Most bytes that one compiled regular expression may take.
const REGEX_LIMIT: usize = 256 * 1024;
/// Most texts of a list.
const LIST_LIMIT: usize = 1024;

/// A test of a text, as written: a text that it equals, or a table with one test.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RawText(RawTextTable);

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTextTable {
    equals: Option<String>,
    #[serde(rename = "in")]
    among: Option<Vec<String>>,
    contains: Option<String>,
    matches: Option<String>,
}

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RawText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a table with `equals`, `in`, `contains` or `matches`")
            }

            fn visit_str<E>(self, text: &str) -> Result<RawText, E> {
                Ok(RawText(RawTextTable {
                    equals: Some(text.to_owned()),
                    ..RawTextTable::default()
                }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawText, A::Error> {
                RawTextTable::deserialize(MapAccessDeserializer::new(map)).map(RawText)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A test of a text.
#[derive(Clone, Debug)]
pub(super) enum TextTest {
    /// It is one of these.
    Among(Vec<String>),
    /// It contains this.
    Contains(String),
    /// The expression matches somewhere in it.
    Matches(Regex),
}

impl RawText {
    /// The test.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn compile(&self) -> Result<TextTest, String> {
        let RawTextTable {
            equals,
            among,
            contains,
            matches,
        } = &self.0;
        match (equals, among, contains, matches) {
            (Some(text), None, None, None) => Ok(TextTest::Among(vec![text.clone()])),
            (None, Some(texts), None, None) => among_these(texts),
            (None, None, Some(text), None) => containing(text),
            (None, None, None, Some(pattern)) => matching(pattern),
            _ => Err("give one of `equals`, `in`, `contains` and `matches`".to_owned()),
        }
    }
}

fn among_these(texts: &[String]) -> Result<TextTest, String> {
    match texts.len() {
        0 => Err("`in` is empty: it would never match".to_owned()),
        1..=LIST_LIMIT => Ok(TextTest::Among(texts.to_vec())),
        _ => Err(format!("`in` has more than {LIST_LIMIT} texts")),
    }
}

/// A test for a part of a text.
pub(super) fn containing(text: &str) -> Result<TextTest, String> {
    match text.is_empty() {
        true => Err("`contains` is empty: it would always match".to_owned()),
        false => Ok(TextTest::Contains(text.to_owned())),
    }
}

/// A test for a regular expression. Matching takes time proportional to the text.
pub(super) fn matching(pattern: &str) -> Result<TextTest, String> {
    expression(pattern).map(TextTest::Matches)
}

/// A regular expression of bounded size.
pub(super) fn expression(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(REGEX_LIMIT)
        .dfa_size_limit(REGEX_LIMIT)
        .build()
        .map_err(|error| {
            let text = error.to_string();
            // The last line says what; those above draw the expression.
            let what = text.lines().last().unwrap_or_default();
            format!("invalid regular expression `{pattern}`: {what}")
        })
}

impl TextTest {
    /// Whether it holds for `text`.
    pub(super) fn holds(&self, text: &str) -> bool {
        match self {
            Self::Among(texts) => texts.iter().any(|known| known == text),
            Self::Contains(part) => text.contains(part.as_str()),
            Self::Matches(expression) => expression.is_match(text),
        }
    }

    /// The texts for which it holds, if they can be listed.
    pub(super) fn listed(&self) -> Option<&[String]> {
        match self {
            Self::Among(texts) => Some(texts),
            _ => None,
        }
    }
}
