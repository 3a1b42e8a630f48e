//! Judges labelled rows the way `mcpinspect scan` does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpinspectd::detect::analyse::{Analyser, Circumstances, Report};
use mcpinspectd::detect::category::Surface;
use mcpinspectd::detect::knowledge::Knowledge;
use mcpinspectd::detect::message;
use mcpinspectd::detect::tree::Tree;

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

/// Judges every row. Also returns how long that took.
pub fn judge(knowledge: &Arc<Knowledge>, rows: Vec<Row>) -> (Vec<Judged>, Duration) {
    let mut analyser = Analyser::new(Arc::clone(knowledge));
    let mut spent = Duration::ZERO;
    let mut judged = Vec::with_capacity(rows.len());
    for row in rows {
        let begin = Instant::now();
        let circumstances = Circumstances {
            server: row.server.as_deref(),
            ..Circumstances::default()
        };
        let mut features = Default::default();
        let report = match (&row.tool, &row.message) {
            (Some(tool), _) => {
                let report = analyser.tool(&Tree::from(tool), circumstances);
                features = analyser.features().clone();
                report
            }
            (None, Some(message)) => {
                let report = message::report(&mut analyser, &Tree::from(message), circumstances);
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
