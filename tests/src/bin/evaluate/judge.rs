//! Judges labelled rows the way `mcpinspect scan` does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpinspectd::detect::WeightedRules;
use mcpinspectd::detect::analysis::{Analyser, AnalysisContext, Report, message};
use mcpinspectd::detect::category::Surface;
use mcpinspectd::detect::cross_server::{ToolIndex, ToolProfile};
use mcpinspectd::detect::json::Json;
use mcpinspectd::model::publisher;

use super::fit::Example;
use super::rows::Row;

/// A row with what was found in it.
#[derive(Debug)]
pub struct Judged {
    /// The row.
    pub row: Row,
    /// What was found.
    pub report: Report,
    /// The same as input for fitting.
    pub example: Example,
    /// Which weights judged it.
    pub surface: Surface,
}

/// The servers of each tier, beside each other as on one desktop.
fn desktops(rows: &[Row]) -> BTreeMap<String, ToolIndex> {
    let mut desktops: BTreeMap<String, ToolIndex> = BTreeMap::new();
    for row in rows {
        let (Some(server), Some(tool)) = (&row.server, &row.tool) else {
            continue;
        };
        let index = desktops.entry(row.tier().to_owned()).or_default();
        if let Some(profile) = ToolProfile::of(&Json::from(tool))
            && index.insert(server, Arc::new(profile))
        {
            index.publish(server, publisher(server));
        }
    }
    desktops
}

/// Judges every row. Also returns how long that took.
pub fn judge(rules: &Arc<WeightedRules>, rows: Vec<Row>) -> (Vec<Judged>, Duration) {
    let mut analyser = Analyser::new(Arc::clone(rules));
    let desktops = desktops(&rows);
    let mut spent = Duration::ZERO;
    let mut judged = Vec::with_capacity(rows.len());
    for row in rows {
        let begin = Instant::now();
        let context = AnalysisContext {
            server: row.server.as_deref(),
            tools: desktops.get(row.tier()),
            ..AnalysisContext::default()
        };
        let mut features = Default::default();
        let report = match (&row.tool, &row.message) {
            (Some(tool), _) => {
                let report = analyser.tool(&Json::from(tool), context);
                features = analyser.features().clone();
                report
            }
            (None, Some(message)) => {
                let report = message::report(&mut analyser, &Json::from(message), context);
                features = analyser.features().clone();
                report
            }
            (None, None) => Report::clean(),
        };
        spent += begin.elapsed();
        let example = Example {
            features,
            malicious: row.malicious(),
            group: row.group.clone(),
        };
        judged.push(Judged {
            surface: row.surface(),
            row,
            report,
            example,
        });
    }
    (judged, spent)
}
