//! What detection finds: one finding, how bad it is, and what it asks for.

use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Low,
    /// Worth a look.
    Medium,
    /// Needs a look.
    High,
    /// Needs a look now.
    Critical,
}

impl Severity {
    /// The severity that `word` names.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Low, Self::Medium, Self::High, Self::Critical]
            .into_iter()
            .find(|severity| severity.as_str() == word)
    }

    /// The word used on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// What a finding asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Nothing to do.
    None,
    /// Show it on request.
    Warn,
    /// Tell a person.
    Alert,
    /// Sure enough that an inline guard would stop it.
    Block,
}

/// One place where a detection found something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// The text that matched, redacted and bounded.
    pub text: String,
    /// Byte offset in the decoded field.
    pub position: usize,
    /// What stands around it, redacted and bounded.
    pub context: String,
}

/// One finding in one field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// Name of the rule.
    pub pattern: String,
    /// What kind of attack it belongs to, such as `hidden_instructions`.
    pub category: String,
    /// How bad this finding is by itself.
    pub severity: Severity,
    /// Where.
    pub matches: Vec<Match>,
    /// The field it stands in, such as `description` or `inputSchema.properties.path.description`.
    pub field: String,
    /// One sentence for a person.
    pub explanation: String,
}

impl Detection {
    /// Bytes of memory that it takes, roughly.
    pub fn size(&self) -> usize {
        let Self {
            pattern,
            category,
            field,
            explanation,
            matches,
            ..
        } = self;
        let places = matches
            .iter()
            .map(|place| size_of::<Match>() + place.text.len() + place.context.len());
        let texts = pattern.len() + category.len() + field.len() + explanation.len();
        size_of::<Self>() + texts + places.sum::<usize>()
    }
}

impl Action {
    /// The word used on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Warn => "warn",
            Self::Alert => "alert",
            Self::Block => "block",
        }
    }
}
