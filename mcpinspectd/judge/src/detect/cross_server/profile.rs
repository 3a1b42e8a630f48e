//! The parts of a tool that are compared: its name, the names of its parameters, and its description.

use mcpinspect_core::text::bound;

use super::word_pairs::{BANDS, COMPARABLE_MIN, PAIRS, WordPairs, common, hash};
use crate::detect::json::Json;
use crate::detect::text::names::{distinctive, folded, skeleton};

/// The share of equal word pairs from which two descriptions are the same text.
const SAME_TEXT: f32 = 0.7;
/// The share of a description's word pairs from which it is quoted in a longer one.
const QUOTED_TEXT: f32 = 0.85;
/// The share of equal word pairs from which two descriptions are about the same thing.
pub(super) const RELATED_TEXT: f32 = 0.3;
/// The fewest word pairs of a description that is worth copying.
const TEXT_COPIED: usize = 8;
/// The fewest word pairs of a description that is recognised inside a longer one.
const TEXT_QUOTED: usize = 14;
/// The fewest words of a description that is equal in a copied tool: with a telling name, and with any.
const EQUAL_TEXT: usize = 3;
const EQUAL_TEXT_OF_ANY: usize = 6;

/// Most bytes of a parameter's name, and of a description, to compare.
const KEY_LIMIT: usize = 1024;
const TEXT_LIMIT: usize = 64 * 1024;

/// The parts of a tool that are compared.
#[derive(Clone, Debug)]
pub struct ToolProfile {
    /// The name in lower case.
    pub(super) name: Box<str>,
    /// What is left of the name without case, separators and look-alikes.
    pub(super) skeleton: Box<str>,
    /// Hashes of the parameters' names, sorted.
    parameters: Box<[u32]>,
    /// The description.
    description: WordPairs,
    /// Keys of the index of descriptions.
    pub(super) bands: Option<[u32; BANDS]>,
}

impl ToolProfile {
    /// The profile of a definition; `None` if it has no name.
    pub fn of(tool: &Json<'_>) -> Option<Self> {
        let name = tool
            .get("name")
            .and_then(Json::as_str)
            .filter(|name| !name.is_empty())?;
        let description = tool
            .get("description")
            .and_then(Json::as_str)
            .unwrap_or_default();
        let mut parameters: Vec<u32> = tool
            .get("inputSchema")
            .and_then(|schema| schema.get("properties"))
            .and_then(Json::as_object)
            .map(|properties| {
                properties
                    .keys()
                    .take(PAIRS)
                    .map(|key| hash(&skeleton(&bound(key, KEY_LIMIT))))
                    .collect()
            })
            .unwrap_or_default();
        parameters.sort_unstable();
        let name = folded(name);
        let description = WordPairs::of(&bound(description, TEXT_LIMIT));
        Some(Self {
            skeleton: skeleton(&name).into(),
            name,
            parameters: parameters.into(),
            bands: description.bands(),
            description,
        })
    }

    /// Whether `share` of the shorter description occurs in the longer one. Descriptions that are too short
    /// for that are alike only if they are equal, and never by more than [`RELATED_TEXT`].
    pub(super) fn shares_text(&self, other: &Self, share: f32) -> bool {
        let shorter = self.description.len().min(other.description.len());
        if shorter >= COMPARABLE_MIN {
            self.description
                .have_in_common(&other.description, share * shorter as f32)
        } else {
            shorter > 0 && self.description.equal(&other.description) && share <= RELATED_TEXT
        }
    }

    /// Whether this tool copies another one of the same name, rather than having the same name by chance. `few` says
    /// whether few servers are known.
    pub(super) fn copies(&self, other: &Self, few: bool) -> bool {
        let least = match distinctive(&self.name) {
            true => EQUAL_TEXT,
            false => EQUAL_TEXT_OF_ANY,
        };
        self.same_text(other, few)
            || (few && self.description.len() >= least && self.is_equal(other))
            || (few
                && distinctive(&self.name)
                && self.same_parameters(other)
                && self.shares_text(other, RELATED_TEXT))
    }

    /// Whether name, description and parameters are the same.
    pub(super) fn is_equal(&self, other: &Self) -> bool {
        self.name == other.name
            && self.parameters == other.parameters
            && self.description.equal(&other.description)
    }

    /// Whether the descriptions are the same text, and long enough not to be a commonplace.
    pub(super) fn same_text(&self, other: &Self, few: bool) -> bool {
        let least = if few { TEXT_COPIED } else { TEXT_COPIED + 3 };
        let (a, b) = (self.description.len(), other.description.len());
        let (shorter, longer) = (a.min(b), a.max(b));
        let whole = (shorter >= least).then_some(SAME_TEXT * longer as f32);
        let quoted = (shorter >= TEXT_QUOTED).then_some(QUOTED_TEXT * shorter as f32);
        let wanted = whole.into_iter().chain(quoted).reduce(f32::min);
        wanted.is_some_and(|wanted| self.description.have_in_common(&other.description, wanted))
    }

    /// Whether most parameters are the same.
    pub(super) fn same_parameters(&self, other: &Self) -> bool {
        let (a, b) = (&self.parameters, &other.parameters);
        a.len().min(b.len()) >= 1 && common(a, b) * 4 >= a.len().max(b.len()) * 3
    }
}
