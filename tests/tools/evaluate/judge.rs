//! Judges labelled rows the way `mcpinspect scan` does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpinspect_core::model::publisher;
use mcpinspect_judge::detect::analysis::{Analyser, AnalysisContext, Report, message};
use mcpinspect_judge::detect::category::Surface;
use mcpinspect_judge::detect::cross_server::{ToolIndex, ToolProfile};
use mcpinspect_judge::detect::json::Json;

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
pub fn judge(mut analyser: Analyser, rows: Vec<Row>) -> (Vec<Judged>, Duration) {
    let desktops = desktops(&rows);
    let mut spent = Duration::ZERO;
    let mut judged = Vec::with_capacity(rows.len());
    for row in rows {
        let begin = Instant::now();
        let report = self::row(&mut analyser, &row, desktops.get(row.tier()));
        let features = match row.tool.is_some() || row.message.is_some() {
            true => analyser.features().clone(),
            false => Default::default(),
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

/// Judges one row, beside the servers of a desktop.
pub fn row(analyser: &mut Analyser, row: &Row, tools: Option<&ToolIndex>) -> Report {
    let context = AnalysisContext {
        server: row.server.as_deref(),
        tools,
        ..AnalysisContext::default()
    };
    match (&row.tool, &row.message) {
        (Some(tool), _) => analyser.tool(&Json::from(tool), context),
        (None, Some(message)) => message::report(analyser, &Json::from(message), context),
        (None, None) => Report::clean(),
    }
}
