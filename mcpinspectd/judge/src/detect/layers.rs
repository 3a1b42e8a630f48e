//! Which layers of detection take part: all of them, except to measure one without another.

use std::str::FromStr;

/// The layers of detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// What a text contains: matches of the rules, and what is hidden or encoded.
    pub evidence: bool,
    /// What a sentence of a definition asks, and of whom.
    pub meaning: bool,
    /// What else is known: other servers' tools, and how a definition was before.
    pub context: bool,
    /// What the agent does next.
    pub behaviour: bool,
}

impl Layers {
    /// Every layer.
    pub const ALL: Self = Self {
        evidence: true,
        meaning: true,
        context: true,
        behaviour: true,
    };
}

impl Default for Layers {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromStr for Layers {
    type Err = String;

    /// Parses names separated by commas, such as `context,behaviour`.
    fn from_str(names: &str) -> Result<Self, String> {
        let mut layers = Self {
            evidence: false,
            meaning: false,
            context: false,
            behaviour: false,
        };
        for name in names.split(',').map(str::trim) {
            match name {
                "evidence" => layers.evidence = true,
                "meaning" => layers.meaning = true,
                "context" => layers.context = true,
                "behaviour" => layers.behaviour = true,
                _ => {
                    return Err(format!(
                        "unknown layer `{name}`; the layers are evidence, meaning, context and behaviour"
                    ));
                }
            }
        }
        Ok(layers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_named() {
        let some: Layers = "context, behaviour".parse().unwrap_or_default();
        assert!(!some.evidence && !some.meaning && some.context && some.behaviour);
        assert_eq!(
            "evidence,meaning,context,behaviour".parse(),
            Ok(Layers::ALL)
        );
        assert!("text".parse::<Layers>().is_err());
    }
}
