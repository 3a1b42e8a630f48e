//! A hit: something that a rule can ask for, at a place in the text.

/// Something found in the folded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Start in the folded text.
    pub start: u32,
    /// End in the folded text.
    pub end: u32,
    /// The concepts that it stands for: word lists and tokens of the rule set, as bits.
    pub concepts: u128,
    /// How many negations apply to it.
    pub negations: u8,
}

impl Hit {
    /// Whether it is denied: a second negation lifts the first.
    pub fn is_denied(&self) -> bool {
        self.negations % 2 == 1
    }
}
