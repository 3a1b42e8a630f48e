//! Fits weights and limits to judged rows.
//!
//! The fit finds the weights. The limits then follow from how often benign rows may be flagged: a
//! limit is set just above the benign rows that exceed that share.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mcpinspect_judge::detect::category::Surface;
use mcpinspect_judge::detect::rules::RuleSet;
use mcpinspect_judge::detect::score::SurfaceWeights;

use super::counts_for_fitting;
use super::fit::{Example, Fitted, Settings, fit};
use super::judge::Judged;

/// The tier of benign rows that were written to look like attacks. They help to fit weights, but say
/// nothing about how many everyday definitions raise an alert.
const HARD_TIER: &str = "hard";
/// A group with at least this many benign rows has to keep the limits by itself: what is rare overall
/// may be common in the style of one source.
const LARGE_GROUP: usize = 300;

/// The rates of false alerts that are accepted.
struct FalseAlertRates {
    /// Share of benign rows that may be warned about.
    warn: f64,
    /// Share of benign rows that may raise an alert.
    alert: f64,
    /// Share of benign rows that may be blocked.
    block: f64,
}

impl FalseAlertRates {
    /// What is accepted for a surface. Content is quoted, searched and forwarded text: a warning is
    /// acceptable more often, a block hardly ever.
    fn of(surface: Surface) -> Self {
        match surface {
            Surface::Definition => Self {
                warn: 0.02,
                alert: 0.006,
                block: 0.0002,
            },
            Surface::Content | Surface::Argument => Self {
                warn: 0.01,
                alert: 0.002,
                block: 0.0002,
            },
        }
    }
}

/// Fits the weights of one surface to its rows, without the group `leave_out`.
pub fn fit_surface(
    rules: &RuleSet,
    judged: &[Judged],
    surface: Surface,
    leave_out: Option<&str>,
    settings: Settings,
) -> SurfaceWeights {
    let rows = || {
        judged
            .iter()
            .filter(|one| one.surface == surface && Some(one.row.group.as_str()) != leave_out)
    };
    let examples: Vec<&Example> = rows()
        .filter(|one| counts_for_fitting(one))
        .map(|one| &one.example)
        .collect();
    let fitted = fit(rules, &examples, -4.0, settings);
    // The log odds of benign rows: all of them under "", and those of each large group.
    let mut benign: BTreeMap<&str, Vec<f32>> = BTreeMap::new();
    for one in rows().filter(|one| !one.row.malicious() && one.row.tier() != HARD_TIER) {
        let odds = fitted.log_odds(rules, &one.example.features);
        benign.entry("").or_default().push(odds);
        benign.entry(&one.row.group).or_default().push(odds);
    }
    benign.retain(|group, odds| group.is_empty() || odds.len() >= LARGE_GROUP);
    benign
        .values_mut()
        .for_each(|odds| odds.sort_by(|a, b| b.total_cmp(a)));
    let limit = |share: f64, least: f32| {
        let limits = benign.values().map(|odds| threshold(odds, share));
        limits.fold(least, f32::max)
    };
    let rates = FalseAlertRates::of(surface);
    let (warn, alert, block) = (
        limit(rates.warn, -1.0),
        limit(rates.alert, 0.0),
        limit(rates.block, 2.0),
    );
    let Fitted { bias, weights } = fitted;
    SurfaceWeights {
        bias,
        warn,
        alert: alert.max(warn),
        block: block.max(alert + 1.0),
        rules: weights,
    }
}

/// The log odds that no more than `share` of `benign` (descending) reach.
fn threshold(benign: &[f32], share: f64) -> f32 {
    let allowed = (benign.len() as f64 * share) as usize;
    benign.get(allowed).map_or(f32::MIN, |odds| odds + 0.05)
}

/// Fits the weights of all surfaces, as the text of a weights file.
pub fn weights_file(rules: &RuleSet, judged: &[Judged], settings: Settings) -> String {
    let fit = |surface| fit_surface(rules, judged, surface, None, settings);
    let (definition, content) = (fit(Surface::Definition), fit(Surface::Content));
    let mut out = format!(
        "# Weights in log odds, fitted with `cargo xtask eval --fit` to {} labelled definitions and messages\n\
         # (public collections of poisoned tools, and definitions of real servers). Generated: to change a\n\
         # weight, edit the rule's `weight` in its rule file and fit again.\n",
        judged.len()
    );
    for (name, weights) in [("definition", definition), ("content", content)] {
        let _ = writeln!(
            out,
            "\n[{name}]\nbias = {:.3}\nwarn = {:.3}\nalert = {:.3}\nblock = {:.3}",
            weights.bias, weights.warn, weights.alert, weights.block
        );
        let _ = writeln!(out, "\n[{name}.weights]");
        let mut named: Vec<_> = rules
            .rules()
            .iter()
            .zip(&weights.rules)
            .filter(|(rule, _)| rule.builtin)
            .collect();
        named.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        for (rule, weight) in named {
            let _ = writeln!(out, "{} = {weight:.3}", rule.id);
        }
    }
    out
}
