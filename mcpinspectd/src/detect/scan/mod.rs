//! The same detection offline: lines in, verdicts out.
//!
//! A line is a tool's definition, `{"tool": …, "server": …}`, a JSON-RPC message,
//! `{"message": …, "server": …}`, or a whole `tools/list` result. Lines that share a `server` are
//! that server's tools: those of all lines are known before the first is judged, so that a tool is
//! seen beside the tools of the other servers, whatever their order.

mod line;

use std::sync::Arc;
use std::thread;

use serde::Serialize;
use serde_json::{Map, Value};

pub use line::{Content, Line, ScanError, read};

use self::line::Shape;
use super::analyse::{Analyser, Circumstances, Report};
use super::knowledge::Knowledge;
use super::message;
use super::neighbours::{Card, Neighbours};
use super::tree::Tree;
use crate::model::{Action, Detection, Severity, Timestamp};

/// The verdict on a line.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The line's number, from 1.
    pub line: usize,
    /// The line's `id`, where it has one.
    pub id: Value,
    /// What it asks for.
    pub verdict: Action,
    /// The worst finding; `null` with the verdict `none`.
    pub max_severity: Option<Severity>,
    /// How likely an attack, 0 to 1.
    pub score: f32,
    /// Why.
    pub detections: Vec<Detection>,
    /// The value was too large to be looked at in full.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Why the line could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What else stood in the line.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
    /// The tool, where the line is one.
    #[serde(rename = "tool_name", skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// Fewest lines for which another thread is worth its start.
const LINES_PER_THREAD: usize = 256;

/// Judges all lines, each beside all others, on all processors.
pub fn scan(knowledge: &Arc<Knowledge>, lines: &[Line], now: Timestamp) -> Vec<Outcome> {
    let mut neighbours = Neighbours::new();
    for (server, card) in in_parallel(lines, |lines| lines.iter().flat_map(cards).collect()) {
        neighbours.learn(&server, Arc::new(card));
    }
    in_parallel(lines, |lines| {
        let mut analyser = Analyser::new(Arc::clone(knowledge));
        let judged = lines.iter();
        judged
            .map(|line| judge(&mut analyser, &neighbours, line, now))
            .collect()
    })
}

/// The tools of a line that says which server they are from.
fn cards(line: &Line) -> Vec<(Arc<str>, Card)> {
    let content = line
        .may_name_server()
        .then(|| line.content().ok())
        .flatten();
    let Some((content, server)) = content
        .as_ref()
        .and_then(|content| Some((content, content.server.as_deref()?)))
    else {
        return Vec::new();
    };
    let server: Arc<str> = server.into();
    let cards = content.tools().into_iter().filter_map(Card::of);
    cards.map(|card| (Arc::clone(&server), card)).collect()
}

/// What `work` makes of the lines, a share of which each processor gets, in their order.
fn in_parallel<T: Send>(lines: &[Line], work: impl Fn(&[Line]) -> Vec<T> + Sync) -> Vec<T> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(lines.len() / LINES_PER_THREAD).max(1);
    if threads == 1 {
        return work(lines);
    }
    let work = &work;
    thread::scope(|scope| {
        let shares = lines.chunks(lines.len().div_ceil(threads));
        let running: Vec<_> = shares
            .map(|share| scope.spawn(move || work(share)))
            .collect();
        let done = running.into_iter().map(|thread| match thread.join() {
            Ok(results) => results,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        done.flatten().collect()
    })
}

fn judge(analyser: &mut Analyser, neighbours: &Neighbours, line: &Line, now: Timestamp) -> Outcome {
    let (report, mut extra, tool, error) = match line.content() {
        Err(error) => (Report::clean(), Map::new(), None, Some(error)),
        Ok(content) => {
            let circumstances = Circumstances {
                server: content.server.as_deref(),
                time: now,
                neighbours: Some(neighbours),
                ..Circumstances::default()
            };
            let report = match content.shape {
                Shape::Tool => analyser.tool(&content.value, circumstances),
                Shape::Message => message::report(analyser, &content.value, circumstances),
            };
            let name = content
                .value
                .get("name")
                .and_then(Tree::as_str)
                .filter(|_| content.shape == Shape::Tool);
            let name = name.map(str::to_owned);
            (report, content.extra, name, None)
        }
    };
    Outcome {
        line: line.number,
        id: extra.remove("id").unwrap_or(Value::Null),
        verdict: report.action,
        max_severity: report.severity,
        score: (report.score * 1000.0).round() / 1000.0,
        detections: report.detections,
        truncated: report.truncated,
        error,
        extra: without_own_members(extra),
        tool,
    }
}

/// Members of the line that do not collide with the verdict's own.
fn without_own_members(mut extra: Map<String, Value>) -> Map<String, Value> {
    for own in [
        "line",
        "verdict",
        "max_severity",
        "score",
        "detections",
        "truncated",
        "error",
        "tool_name",
    ] {
        extra.remove(own);
    }
    extra
}
