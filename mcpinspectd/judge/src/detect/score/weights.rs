//! How much each rule weighs, and which sums call for which action.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::detect::category::Surface;
use crate::detect::rules::RuleSet;

/// Weights and limits for the texts of one surface.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfaceWeights {
    /// Log odds of a text in which nothing was found.
    pub bias: f32,
    /// Log odds from which a subject is reported as a warning.
    pub warn: f32,
    /// Log odds from which it is an alert.
    pub alert: f32,
    /// Log odds from which it calls for blocking.
    pub block: f32,
    /// Weight of each rule, by its index.
    pub rules: Vec<f32>,
}

/// Weights for definitions and for content.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// What servers declare.
    pub definition: SurfaceWeights,
    /// What servers answer and clients send.
    pub content: SurfaceWeights,
}

/// A weights file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWeights {
    definition: RawSurface,
    content: RawSurface,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSurface {
    bias: f32,
    warn: f32,
    alert: f32,
    block: f32,
    #[serde(default)]
    weights: BTreeMap<String, f32>,
}

impl Weights {
    /// Parses a weights file. A rule that it does not name keeps the weight in its rule file. A name
    /// without a rule is ignored, so that a weights file survives the removal of a rule.
    ///
    /// # Errors
    /// The text is not a weights file.
    pub fn parse(text: &str, rules: &RuleSet) -> Result<Self, toml::de::Error> {
        let raw: RawWeights = toml::from_str(text)?;
        Ok(Self {
            definition: raw.definition.resolve(rules),
            content: raw.content.resolve(rules),
        })
    }

    /// The weights for a surface.
    pub fn on(&self, surface: Surface) -> &SurfaceWeights {
        match surface {
            Surface::Definition => &self.definition,
            Surface::Content | Surface::Argument => &self.content,
        }
    }
}

impl RawSurface {
    fn resolve(self, rules: &RuleSet) -> SurfaceWeights {
        let weights = rules
            .rules()
            .iter()
            .map(|rule| self.weights.get(&rule.id).copied().unwrap_or(rule.weight))
            .collect();
        SurfaceWeights {
            bias: self.bias,
            warn: self.warn,
            alert: self.alert,
            block: self.block,
            rules: weights,
        }
    }
}
