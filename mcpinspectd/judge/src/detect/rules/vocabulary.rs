//! What a rule can ask for besides words: tokens, scopes, probes, and how far it decides alone.

use mcpinspect_core::model::Action;
use serde::Deserialize;

/// Things recognised by their form. `all` and `none` of a rule can name them like word lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TokenKind {
    /// A name that is neither the subject's own nor one of its parameters'.
    Identifier,
    /// A single quoted word.
    QuotedWord,
    /// A quoted value that is more than a single word.
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
    /// A path that suggests keys, credentials or accounts.
    TellingPath,
    /// A path to a hidden file in a directory for temporary files.
    HiddenPath,
    /// Another tool's name that suggests sending, paying, changing or destroying.
    RiskyName,
    /// A web address whose host is an IP address.
    NumericUrl,
    /// Another thing's name that suggests keys, passwords or tokens.
    TellingName,
    /// A tool that another server has and this one does not.
    ForeignTool,
    /// `<word>`.
    Tag,
    /// `[word]`.
    Bracket,
    /// A word in capitals.
    Capitals,
    /// A word that mixes letters of several scripts.
    MixedScript,
    /// Where a text continues after a long run of blanks.
    AfterBlanks,
    /// `$(`.
    ShellSubstitution,
    /// The start of a sentence.
    SentenceStart,
    /// The start of a text.
    TextStart,
}

impl TokenKind {
    /// Every token with its name in a rule file.
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

/// The lists of words with which a text denies something, as concepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negation {
    /// Words that deny what follows: the list `negates`.
    pub by: u128,
    /// Words that lift a negation that applies to them: the list `lifts_negation`.
    pub lifted: u128,
    /// Words that end a negation's clause: the list `ends_negation`.
    pub ended: u128,
}

/// How far apart the elements of `all` may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// In one sentence.
    #[default]
    Sentence,
    /// In two adjacent sentences.
    Near,
    /// In one piece of text.
    Piece,
}

impl Scope {
    /// Every scope.
    pub const ALL: &[Self] = &[Self::Sentence, Self::Near, Self::Piece];
}

/// The least action that a match calls for, even with no other evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decides {
    /// At least `warn`.
    Warn,
    /// At least `alert`.
    Alert,
    /// `block`.
    Block,
}

impl Decides {
    /// The action that it stands for.
    pub fn action(self) -> Action {
        match self {
            Self::Warn => Action::Warn,
            Self::Alert => Action::Alert,
            Self::Block => Action::Block,
        }
    }
}

/// Findings that take code. Their rules only state what they mean and weigh.
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
    /// Text after a long run of blanks.
    BlankRun,
    /// Look-alike letters of another script inside a word.
    MixedScript,
    /// Private-use or variation-selector runs that can carry bytes.
    VariationSelectors,
    /// A mark of a chat template that begins or ends a turn, and is not shown as code.
    ForgedTurn,
    /// An encoded payload that decodes to readable text.
    EncodedText,
    /// An encoded payload in which other rules found something.
    EncodedFinding,
    /// `readOnlyHint` on a tool whose name says that it changes things.
    ReadOnlyContradiction,
    /// `destructiveHint: false` on a tool whose name says that it destroys things.
    DestructiveContradiction,
    /// The tool has the name of another server's tool, and resembles it in more than the name.
    CopiedTool,
    /// The tool has the distinctive name of another server's tool, and resembles it in nothing else.
    SameName,
    /// The tool's name looks like that of another server's tool.
    LookAlikeName,
    /// The tool's description was copied from another server's tool.
    CopiedDescription,
    /// The subject is too large, or too full of findings, to be examined completely.
    Overlong,
}
