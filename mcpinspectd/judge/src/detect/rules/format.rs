//! The format of rule files: what a TOML file with rules can express.
//!
//! A rule file has *words* (named lists of words and phrases) and *rules*. A rule asks for words and
//! tokens that occur together: `all = ["modal", "send|copy", "credential"]` matches a sentence with one
//! element of each. That describes a meaning instead of a wording, costs the same however many rules
//! there are, and cannot be made slow by its input. If form matters more than meaning, a rule has
//! `literals`, or a `regex` that is only tried around one of its `anchors`.

use std::collections::BTreeMap;

use mcpinspect_core::model::Severity;
use serde::Deserialize;
use toml::Spanned;

use super::lesson::Lesson;
use super::suppression::RawSuppression;
use super::vocabulary::{Decides, Probe, Scope};
use crate::detect::category::{Category, Evidence, Part, Surface};

/// A rule as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawRule {
    /// Its name: lower-case letters, digits, hyphens.
    pub id: Spanned<String>,
    /// What it is a sign of.
    pub category: Category,
    /// What kind of evidence it is; by default the category's usual kind.
    pub evidence: Option<Evidence>,
    /// How bad it is alone.
    #[serde(default = "medium")]
    pub severity: Severity,
    /// Weight in log odds before fitting. A negative weight indicates an honest tool.
    #[serde(default = "one")]
    pub weight: f32,
    /// The least action that a match alone calls for.
    pub decides: Option<Decides>,
    /// One sentence that explains a match.
    pub says: Option<String>,
    /// Words and tokens that occur together; `a|b` is either.
    #[serde(default)]
    pub all: Vec<Spanned<String>>,
    /// Words and tokens that must not occur with them.
    #[serde(default)]
    pub none: Vec<Spanned<String>>,
    /// Elements of `all` that do not count if a negation denies them.
    #[serde(default)]
    pub asserted: Vec<Spanned<String>>,
    /// Elements of `all` that do not count if a second negation lifts the first.
    #[serde(default)]
    pub denied: Vec<Spanned<String>>,
    /// Where to look for `all` and `none`.
    #[serde(default)]
    pub scope: Scope,
    /// Whether the elements of `all` come in this order.
    #[serde(default)]
    pub ordered: bool,
    /// The greatest distance from the first to the last of them, in bytes.
    pub within: Option<u32>,
    /// The probe that finds it, instead of words.
    pub probe: Option<Spanned<Probe>>,
    /// Texts; any of them matches, whatever its case and whatever letters it imitates.
    #[serde(default)]
    pub literals: Vec<Spanned<String>>,
    /// A regular expression to try around each anchor, on folded (lower-case) text.
    pub regex: Option<Spanned<String>>,
    /// Literals of at least three bytes. Every match of `regex` has to contain one of them.
    #[serde(default)]
    pub anchors: Vec<Spanned<String>>,
    /// How far to each side of an anchor to try `regex`, in bytes.
    pub window: Option<u32>,
    /// The surfaces that it examines; by default all.
    #[serde(default)]
    pub on: Vec<Surface>,
    /// The parts of a subject that it examines; by default all.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// The servers that it examines, as globs on their names; by default all.
    #[serde(default)]
    pub servers: Vec<Spanned<String>>,
}

fn medium() -> Severity {
    Severity::Medium
}

fn one() -> f32 {
    1.0
}

/// A rule file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawRuleFile {
    /// Named word lists. A trailing `*` stands for any rest of a word, a leading one for any beginning.
    #[serde(default)]
    pub words: BTreeMap<String, Vec<Spanned<String>>>,
    /// The rules.
    #[serde(default, rename = "rule")]
    pub rules: Vec<RawRule>,
    /// Findings that are not reported.
    #[serde(default, rename = "suppress")]
    pub suppressions: Vec<RawSuppression>,
    /// What people's decisions taught. The daemon writes these.
    #[serde(default, rename = "lesson")]
    pub lessons: Vec<Lesson>,
}

/// What is wrong with a rule file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct RuleError {
    /// The file's name as it was passed in.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub problem: String,
}

/// Parses a rule file.
pub fn parse(file: &str, text: &str) -> Result<RawRuleFile, RuleError> {
    toml::from_str(text).map_err(|error| RuleError {
        file: file.to_owned(),
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        problem: error.message().to_owned(),
    })
}

/// The line of byte `position`, counted from 1.
pub fn line_of(text: &str, position: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(position)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}
