mod findings;
mod limits;
mod own_rules;
mod samples;
mod servers;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Analyser, AnalysisContext, Report};
use crate::detect::json::Json;
use crate::detect::weighted_rules::WeightedRules;

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object", "properties": {} } })
}

fn look(value: &Value) -> Report {
    Analyser::new(WeightedRules::builtin()).tool(&Json::from(value), AnalysisContext::default())
}

fn patterns(report: &Report) -> Vec<&str> {
    report
        .detections
        .iter()
        .map(|detection| detection.pattern.as_str())
        .collect()
}

fn with_rules(text: &str) -> Arc<WeightedRules> {
    let (rules, errors) = WeightedRules::with_files(&[("own.toml".into(), text.into())]);
    assert_eq!(errors, []);
    rules
}
