//! How an answer relates to the request that it names.

/// How an answer relates to the request that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Correlation {
    /// It answers a request in time.
    Answer,
    /// It answers a request that was noted as overdue.
    Late,
    /// It answers a request that its sender had cancelled.
    Cancelled,
    /// The request was answered already.
    Duplicate,
    /// No such request was sent.
    Orphan,
    /// The request may be among what was not seen.
    Unknown,
}

impl Correlation {
    /// Every value.
    pub const ALL: [Self; 6] = [
        Self::Answer,
        Self::Late,
        Self::Cancelled,
        Self::Duplicate,
        Self::Orphan,
        Self::Unknown,
    ];

    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Late => "late",
            Self::Cancelled => "cancelled",
            Self::Duplicate => "duplicate",
            Self::Orphan => "orphan",
            Self::Unknown => "unknown",
        }
    }

    /// The value of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}
