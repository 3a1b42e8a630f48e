//! What rules and model add up to together.
//!
//! Each is wrong in its own way: rules take strict documentation for an order, the model takes an unusual
//! sentence for one. So what rules merely add up to counts for less if the model contradicts, and blocks
//! only if it agrees; what a rule decides alone stands, unless it is a phrase and all else speaks against
//! it. The sum also counts for less in a long definition, where many things are said and some coincide by
//! chance. The model alone can raise an alert, and so can both together if each is only half convinced; neither
//! blocks. The limits are points that honest definitions of real servers hardly ever reach.

use mcpinspect_core::model::Action;

use crate::detect::meaning::Meaning;
use crate::detect::score::Score;

/// Log odds of the model above which a definition is an alert.
const ALERT: f32 = -0.25;
/// The same for a definition that is not in English: no rule backs the model there, and honest ones are further
/// below it.
const ALERT_FOREIGN: f32 = -1.4;
/// Log odds of the model above which it is a warning.
const WARN: f32 = -1.6;
/// Log odds of the model below which it contradicts the rules, and by how much per unit.
const DOUBT: f32 = -1.75;
const DOUBT_WEIGHT: f32 = 0.3;
/// Log odds of the model below which rules that only add up do not block.
const AGREEMENT: f32 = -1.2;
/// Sentences of a definition of usual length, and what rules lose for each factor of e beyond it.
const USUAL_LENGTH: f32 = 6.0;
const LENGTH_WEIGHT: f32 = 1.4;
/// The rest of the rules' log odds has to reach this for an alert.
const RULES_ALERT: f32 = 0.4;
/// If both reach this, it is an alert too: each is wrong in its own way, so they are hardly wrong together.
const BOTH_RULES: f32 = -0.5;
const BOTH_MEANING: f32 = -1.4;

/// The rest of the rules' log odds has to reach this for a phrase to decide alone.
const RULES_DOUBTED: f32 = -1.5;

/// By how much a person's decisions raised the limits for an alert, in log odds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lenience {
    /// For what rules add up to.
    pub(super) rules: f32,
    /// For what the model says.
    pub(super) meaning: f32,
}

/// What both add up to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Combined {
    pub(super) action: Action,
    /// The probability of an attack.
    pub(super) probability: f32,
    /// Whether the model's sentence is worth showing.
    pub(super) telling: bool,
    /// What raised the alert, if nothing decided it alone.
    pub(super) raised_by: Option<RaisedBy>,
}

/// What an alert rests on that nothing decided alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RaisedBy {
    /// What rules add up to.
    Rules,
    /// The model.
    Meaning,
}

/// Combines what the rules and the model say about a definition.
pub(super) fn combine(score: Score, meaning: Option<Meaning>, lenience: Lenience) -> Combined {
    let Some(meaning) = meaning else {
        return Combined {
            action: score.action,
            probability: probability(score.log_odds),
            telling: false,
            raised_by: None,
        };
    };
    let length = (meaning.sentences as f32 / USUAL_LENGTH).max(1.0).ln();
    let doubt = (meaning.log_odds - DOUBT).min(0.0);
    let rules = score.log_odds - LENGTH_WEIGHT * length + DOUBT_WEIGHT * doubt;
    let weighed = if rules < RULES_ALERT + lenience.rules {
        // A doubted decision remains a warning too.
        score.action.min(Action::Warn)
    } else if meaning.log_odds < AGREEMENT {
        score.action.min(Action::Alert)
    } else {
        score.action
    };
    let both = (rules - BOTH_RULES - lenience.rules)
        .min(meaning.log_odds - BOTH_MEANING - lenience.meaning);
    let alert = match meaning.foreign {
        true => ALERT_FOREIGN,
        false => ALERT,
    };
    let meant = if meaning.log_odds >= alert + lenience.meaning || both >= 0.0 {
        Action::Alert
    } else if meaning.log_odds >= WARN {
        Action::Warn
    } else {
        Action::None
    };
    let decided = match rules < RULES_DOUBTED {
        true => score.proven,
        false => score.decided,
    };
    // At an alert of either, an attack is more likely than not.
    let odds = (rules - RULES_ALERT)
        .max(meaning.log_odds - alert)
        .max(both);
    let action = weighed.max(decided).max(meant);
    let raised_by = match action {
        Action::Alert if decided >= Action::Alert => None,
        Action::Alert if weighed == Action::Alert => Some(RaisedBy::Rules),
        Action::Alert => Some(RaisedBy::Meaning),
        _ => None,
    };
    Combined {
        action,
        probability: probability(odds),
        telling: meant >= Action::Warn,
        raised_by,
    }
}

fn probability(log_odds: f32) -> f32 {
    1.0 / (1.0 + (-log_odds).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(
        rules: Action,
        decided: Action,
        log_odds: f32,
        meaning: f32,
        sentences: usize,
    ) -> Action {
        let score = Score {
            action: rules,
            decided,
            proven: decided,
            log_odds,
        };
        let meaning = Meaning {
            log_odds: meaning,
            sentence: 0,
            sentences,
            act: 0,
            foreign: false,
        };
        combine(score, Some(meaning), Lenience::default()).action
    }

    #[test]
    fn each_corrects_the_other() {
        use Action::{Alert, Block, None, Warn};
        assert_eq!(action(Alert, None, 0.6, DOUBT, 4), Alert);
        assert_eq!(
            action(Alert, None, 0.6, DOUBT - 1.0, 4),
            Warn,
            "contradicted"
        );
        assert_eq!(
            action(Alert, None, 1.2, DOUBT - 1.0, 4),
            Alert,
            "not by enough"
        );
        assert_eq!(action(Alert, None, 0.6, DOUBT, 40), Warn, "long");
        assert_eq!(action(Alert, Alert, 0.6, -9.0, 40), Alert, "decided alone");
        assert_eq!(action(Block, None, 3.0, DOUBT, 4), Alert);
        assert_eq!(action(Block, None, 3.0, AGREEMENT, 4), Block);
        assert_eq!(action(None, None, -3.0, ALERT, 4), Alert);
        assert_eq!(
            action(None, None, -3.0, 9.0, 4),
            Alert,
            "the model never blocks"
        );
        assert_eq!(action(None, None, -3.0, WARN, 4), Warn);
        assert_eq!(action(None, None, -3.0, WARN - 0.1, 4), None);
        let half = action(Warn, None, BOTH_RULES, BOTH_MEANING, 4);
        assert_eq!(half, Alert, "both are half convinced");
        let less = action(Warn, None, BOTH_RULES - 0.1, BOTH_MEANING, 4);
        assert_eq!(less, Warn);
    }

    #[test]
    fn the_model_counts_for_more_where_no_rule_backs_it() {
        let mut meaning = Meaning {
            log_odds: ALERT_FOREIGN,
            sentence: 0,
            sentences: 4,
            act: 0,
            foreign: false,
        };
        let score = Score {
            action: Action::None,
            decided: Action::None,
            proven: Action::None,
            log_odds: -3.0,
        };
        let found = |meaning| combine(score, Some(meaning), Lenience::default());
        assert_eq!(found(meaning).action, Action::Warn);
        meaning.foreign = true;
        assert_eq!(found(meaning).action, Action::Alert);
        assert!(found(meaning).probability >= 0.5);
        meaning.log_odds -= 0.1;
        assert_eq!(found(meaning).action, Action::Warn);
    }

    #[test]
    fn lessons_raise_the_limits_of_sums_alone() {
        let mut meaning = Meaning {
            log_odds: ALERT,
            sentence: 0,
            sentences: 4,
            act: 0,
            foreign: false,
        };
        let mut score = Score {
            action: Action::None,
            decided: Action::None,
            proven: Action::None,
            log_odds: -3.0,
        };
        let lenience = Lenience {
            rules: 0.3,
            meaning: 0.3,
        };
        let alert = combine(score, Some(meaning), Lenience::default());
        assert_eq!(alert.action, Action::Alert);
        assert_eq!(alert.raised_by, Some(RaisedBy::Meaning));
        assert_eq!(combine(score, Some(meaning), lenience).action, Action::Warn);
        meaning.log_odds = DOUBT;
        (score.action, score.log_odds) = (Action::Alert, RULES_ALERT + 0.1);
        let taught = combine(score, Some(meaning), lenience);
        assert_eq!((taught.action, taught.raised_by), (Action::Warn, None));
        (score.decided, score.proven) = (Action::Alert, Action::Alert);
        let proven = combine(score, Some(meaning), lenience);
        assert_eq!((proven.action, proven.raised_by), (Action::Alert, None));
    }
}
