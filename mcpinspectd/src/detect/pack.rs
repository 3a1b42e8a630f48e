//! The form of a rule pack: what a TOML file with rules may say.
//!
//! A pack has *words* (named lists of words and phrases) and *rules*. A rule asks for words and
//! tokens that stand together: `all = ["modal", "send|copy", "credential"]` wants, in one sentence,
//! something of each element. That describes a meaning rather than a wording, costs the same however
//! many rules there are, and cannot be made slow by its input. For what is a matter of form, a rule
//! has `literals`, or a `regex` that is only tried around one of its `anchors`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::category::{Category, Evidence, Part, Surface};
use super::suppress::RawSuppression;
use crate::model::Severity;

/// Tokens found by form; usable in `all` and `none` beside the words of the pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Token {
    /// A name that is neither the subject's nor one of its parameters.
    Identifier,
    /// A single quoted word.
    QuotedWord,
    /// A quoted value of several words or signs.
    QuotedText,
    /// One of the subject's own parameters.
    OwnParameter,
    /// The subject's own name.
    OwnName,
    /// A web address.
    Url,
    /// An address of another scheme.
    Resource,
    /// An e-mail address.
    Email,
    /// An international telephone number.
    Phone,
    /// A path in the file system.
    Path,
    /// A path that names keys, credentials or accounts.
    TellingPath,
    /// A path with a hidden file in a place for temporary files.
    HiddenPath,
    /// Another tool's name that says it sends, pays, changes or destroys.
    RiskyName,
    /// A web address with a bare IP address.
    NumericUrl,
    /// Another thing's name that speaks of keys, passwords or tokens.
    TellingName,
    /// A tool that another server has, and this one has not.
    ForeignTool,
    /// `<word>`.
    Tag,
    /// `[word]`.
    Bracket,
    /// A word in capitals.
    Capitals,
    /// A word with letters of several scripts.
    MixedScript,
    /// The text goes on after a long blank run.
    AfterBlanks,
    /// `$(`.
    ShellSubstitution,
    /// The start of a sentence.
    SentenceStart,
    /// The start of a text.
    TextStart,
}

impl Token {
    /// Every token with its name in a pack.
    pub const ALL: &[(&'static str, Self)] = &[
        ("IDENTIFIER", Self::Identifier),
        ("QUOTED_WORD", Self::QuotedWord),
        ("QUOTED_TEXT", Self::QuotedText),
        ("OWN_PARAMETER", Self::OwnParameter),
        ("OWN_NAME", Self::OwnName),
        ("URL", Self::Url),
        ("RESOURCE", Self::Resource),
        ("EMAIL", Self::Email),
        ("PHONE", Self::Phone),
        ("PATH", Self::Path),
        ("TELLING_PATH", Self::TellingPath),
        ("HIDDEN_PATH", Self::HiddenPath),
        ("RISKY_NAME", Self::RiskyName),
        ("NUMERIC_URL", Self::NumericUrl),
        ("TELLING_NAME", Self::TellingName),
        ("FOREIGN_TOOL", Self::ForeignTool),
        ("TAG", Self::Tag),
        ("BRACKET", Self::Bracket),
        ("CAPITALS", Self::Capitals),
        ("MIXED_SCRIPT", Self::MixedScript),
        ("AFTER_BLANKS", Self::AfterBlanks),
        ("SHELL_SUBSTITUTION", Self::ShellSubstitution),
        ("SENTENCE_START", Self::SentenceStart),
        ("TEXT_START", Self::TextStart),
    ];
}

/// How far apart the elements of `all` may stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// In one sentence.
    #[default]
    Sentence,
    /// In one sentence and the next.
    Near,
    /// In one piece of text.
    Piece,
}

impl Scope {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Sentence, Self::Near, Self::Piece];
}

/// A finding that decides without others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decides {
    /// To at least `warn`.
    Warn,
    /// To at least `alert`.
    Alert,
    /// To `block`.
    Block,
}

/// Findings that need code: the rule then only says what they mean and weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// Unicode TAG characters outside of a flag emoji.
    TagCharacters,
    /// Zero-width or filler characters inside text.
    InvisibleCharacters,
    /// Overrides of the writing direction.
    BidiOverride,
    /// Terminal control sequences or C0/C1 control characters.
    TerminalControl,
    /// Text behind a long blank run.
    BlankRun,
    /// Look-alike letters of another script inside a word.
    MixedScript,
    /// Private-use or variation-selector runs that can carry bytes.
    VariationSelectors,
    /// An encoded payload that decodes to readable text.
    EncodedText,
    /// An encoded payload in which other rules found something.
    EncodedFinding,
    /// `readOnlyHint` on a tool that says it changes things.
    ReadOnlyContradiction,
    /// `destructiveHint: false` on a tool that says it destroys things.
    DestructiveContradiction,
    /// The tool's name equals one of another server's, and more than the name is alike.
    CopiedTool,
    /// The tool's distinctive name equals one of another server's, and nothing else is alike.
    SameName,
    /// The tool's name looks like one of another server's.
    LookAlikeName,
    /// The description was copied from another server's tool.
    CopiedDescription,
    /// The subject is so large, or so full of findings, that not all of it was looked at.
    Overlong,
}

/// A rule as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawRule {
    /// Its name: lower case, digits, hyphens.
    pub id: Spanned<String>,
    /// What it is a sign of.
    pub category: Category,
    /// What kind of evidence it is; the category's usual kind when absent.
    pub evidence: Option<Evidence>,
    /// How bad it is by itself.
    #[serde(default = "medium")]
    pub severity: Severity,
    /// Weight in log odds before any fitting. Negative weights speak for an honest tool.
    #[serde(default = "one")]
    pub weight: f32,
    /// Whether it decides alone.
    pub decides: Option<Decides>,
    /// One sentence for a person.
    pub says: Option<String>,
    /// Words and tokens that stand together; `a|b` is either.
    #[serde(default)]
    pub all: Vec<Spanned<String>>,
    /// None of these may stand with them.
    #[serde(default)]
    pub none: Vec<Spanned<String>>,
    /// Where `all` and `none` look.
    #[serde(default)]
    pub scope: Scope,
    /// Whether the elements of `all` come in this order.
    #[serde(default)]
    pub ordered: bool,
    /// Most bytes from the first to the last of them.
    pub within: Option<u32>,
    /// Found by code rather than by words: see [`Probe`].
    pub probe: Option<Spanned<Probe>>,
    /// Any of these, letter case and look-alikes aside.
    #[serde(default)]
    pub literals: Vec<Spanned<String>>,
    /// Tried around each of `anchors`, on folded (lower-case) text.
    pub regex: Option<Spanned<String>>,
    /// Literals of at least three bytes, one of which stands in every match of `regex`.
    #[serde(default)]
    pub anchors: Vec<Spanned<String>>,
    /// Bytes to each side of an anchor in which `regex` is tried.
    pub window: Option<u32>,
    /// In which texts it is looked for; all when absent.
    #[serde(default)]
    pub on: Vec<Surface>,
    /// In which parts of a subject; all when absent.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// For which servers (globs on the server's name); all when absent.
    #[serde(default)]
    pub servers: Vec<Spanned<String>>,
}

fn medium() -> Severity {
    Severity::Medium
}

fn one() -> f32 {
    1.0
}

/// A rule pack as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawPack {
    /// Named word lists. A trailing `*` stands for any rest of a word, a leading one
    /// for any beginning.
    #[serde(default)]
    pub words: BTreeMap<String, Vec<Spanned<String>>>,
    /// The rules.
    #[serde(default, rename = "rule")]
    pub rules: Vec<RawRule>,
    /// Findings that are not to be told.
    #[serde(default, rename = "suppress")]
    pub suppressions: Vec<RawSuppression>,
}

/// What is wrong with a rule pack, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct PackError {
    /// The file's name as given.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub problem: String,
}

/// Reads a pack.
pub fn parse(file: &str, text: &str) -> Result<RawPack, PackError> {
    toml::from_str(text).map_err(|error| PackError {
        file: file.to_owned(),
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        problem: error.message().to_owned(),
    })
}

/// The line, from 1, of byte `position`.
pub fn line_of(text: &str, position: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(position)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}
