//! How well our own samples are distinguished.

use mcpinspect_core::model::Action;
use serde_json::Value;

use super::super::{Analyser, AnalysisContext, message};
use crate::detect::json::Json;
use crate::detect::weighted_rules::WeightedRules;

/// The share of attacks at `warn` and at `alert`, and of honest tools at `alert`.
fn shares(samples: &str) -> [f64; 3] {
    let mut analyser = Analyser::new(WeightedRules::builtin());
    let judged: Vec<(bool, Action)> = samples
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let context = AnalysisContext {
                server: row["server"].as_str(),
                ..AnalysisContext::default()
            };
            let report = match row.get("tool") {
                Some(tool) => analyser.tool(&Json::from(tool), context),
                None => message::report(&mut analyser, &Json::from(&row["message"]), context),
            };
            (row["label"] == "malicious", report.action)
        })
        .collect();
    let share = |malicious: bool, action: Action| {
        let of = || {
            judged
                .iter()
                .filter(|(is_malicious, _)| *is_malicious == malicious)
        };
        of().filter(|(_, judged)| *judged >= action).count() as f64 / of().count() as f64
    };
    [
        share(true, Action::Warn),
        share(true, Action::Alert),
        share(false, Action::Alert),
    ]
}

/// The sentences are our own: attacks of many kinds, written without looking at any corpus, and honest
/// descriptions that come as close to them as honest ones do.
#[test]
fn own_samples_are_told_apart() {
    let [warn, alert, honest] = shares(include_str!("../../../../rules/samples.jsonl"));
    assert!(warn >= 0.78 && alert >= 0.68, "{warn} {alert}");
    assert!(honest <= 0.08, "{honest}");
}

/// These were written together with some of the samples and then set aside: no rule was made from any of
/// them. Their recall was watched, though, and some honest examples for the model were written after false
/// alarms here, so detection of new wording will be a little worse.
#[test]
fn samples_that_were_set_aside_are_told_apart() {
    let [warn, alert, honest] = shares(include_str!("../../../../rules/unseen.jsonl"));
    assert!(warn >= 0.85 && alert >= 0.70, "{warn} {alert}");
    // Six of 58: each is judged alone, without the other tools of its server.
    assert!(honest <= 0.105, "{honest}");
}
