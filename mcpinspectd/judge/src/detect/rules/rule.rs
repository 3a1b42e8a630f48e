//! A compiled rule.

use globset::GlobSet;
use mcpinspect_core::model::Severity;
use regex::bytes::Regex;

use super::vocabulary::Decides;
use crate::detect::category::{Category, Evidence, Part, Surface};

/// Index of a rule in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u16);

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name.
    pub id: String,
    /// What it is a sign of.
    pub category: Category,
    /// What kind of evidence it is.
    pub evidence: Evidence,
    /// How bad it is alone.
    pub severity: Severity,
    /// Weight in log odds before fitting.
    pub weight: f32,
    /// The least action that a match alone calls for.
    pub decides: Option<Decides>,
    /// One sentence that explains a match.
    pub explanation: String,
    /// The servers that it examines; all if absent.
    pub servers: Option<GlobSet>,
    /// Whether it came with the program.
    pub builtin: bool,
    /// How it matches.
    pub(in crate::detect) matching: RuleKind,
    pub(super) surfaces: u8,
    pub(super) parts: u8,
}

impl Rule {
    /// Whether it examines texts of this surface.
    pub fn examines_surface(&self, surface: Surface) -> bool {
        self.surfaces & (1 << surface as u8) != 0
    }

    /// Whether it examines this part of a subject.
    pub fn examines_part(&self, part: Part) -> bool {
        self.parts & (1 << part as u8) != 0
    }

    /// What a match alone calls for in data that a server passed on. Words in a document decide nothing; what
    /// is hidden does, and so do rules that people write themselves.
    pub fn decides_in_data(&self) -> Option<Decides> {
        self.decides
            .filter(|_| !self.builtin || self.evidence == Evidence::Disguise)
    }

    /// Whether it examines this server.
    pub fn examines_server(&self, server: Option<&str>) -> bool {
        match (&self.servers, server) {
            (None, _) => true,
            (Some(globs), Some(server)) => globs.is_match(server),
            (Some(_), None) => false,
        }
    }
}

/// How a rule matches.
#[derive(Debug)]
pub(in crate::detect) enum RuleKind {
    /// By words and tokens that occur together; a [`Cooccurrence`](super::cooccurrence::Cooccurrence)
    /// describes them.
    Cooccurrence,
    /// By a literal that an automaton finds.
    Literal,
    /// By a regular expression around an anchor that an automaton finds.
    Regex {
        /// The expression.
        regex: Regex,
        /// How far to each side of the anchor it is tried, in bytes.
        window: u32,
    },
    /// By code.
    Probe,
}
