//! Detection offline: lines in, a report for each out.
//!
//! People judge a server before they install it, and continuous integration judges one before it is
//! released. Both have files, not streams. A line is a tool's definition, `{"tool": …, "server": …}`, a
//! JSON-RPC message, `{"message": …, "server": …}`, or a whole server: a `tools/list` result with the
//! server's name beside it, `{"server": …, "tools": […]}` or `{"server": …, "result": {…}}`. A file may also be
//! one JSON value with several servers: an array of such, or `{"servers": {"NAME": {"tools": […]}, …}}`.
//!
//! Lines with the same `server` are that server's tools. The tools of all lines are known before the first
//! line is judged, so that each tool is compared with those of the other servers; the line that comes first
//! had a name first. A server's name may show its publisher: `npm:@scope/name`, `owner/name`.

mod line;
mod servers;
mod session;

use std::sync::Arc;
use std::thread;

use mcpinspect_core::model::{Action, Detection, Severity, Timestamp, publisher};
use serde::Serialize;
use serde_json::{Map, Value};

pub use line::{Content, INPUT_LIMIT, InputTooLarge, Line, split};

use self::line::LineKind;
use self::session::JudgedSession;
use super::analysis::{Analyser, AnalysisContext, Report, Subject, message};
use super::cross_server::{ToolIndex, ToolProfile};
use super::json::Json;
use super::layers::Layers;
use super::weighted_rules::WeightedRules;

/// What was found in a line.
#[derive(Debug, Serialize)]
pub struct LineReport {
    /// The line's number, counted from 1.
    pub line: usize,
    /// The line's `id`, if it has one.
    pub id: Value,
    /// The action that it calls for.
    pub verdict: Action,
    /// The severity of the worst finding; `null` with the verdict `none`.
    pub max_severity: Option<Severity>,
    /// The probability of an attack, from 0 to 1.
    pub score: f32,
    /// The findings.
    pub detections: Vec<Detection>,
    /// Whether the value was too large to be examined completely.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The verdict on each tool, if the line is a whole server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolVerdict>,
    /// If the line is a session, the index of the first message that raised an alert; `null` if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_at: Option<Option<usize>>,
    /// Why the line could not be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Other members of the line.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
    /// The tool's name, if the line is a tool.
    #[serde(rename = "tool_name", skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// What was concluded about one tool of a server.
#[derive(Debug, Serialize)]
pub struct ToolVerdict {
    /// The tool's name.
    pub name: String,
    /// The action that it calls for.
    pub verdict: Action,
    /// The probability of an attack, from 0 to 1.
    pub score: f32,
}

/// The fewest lines for which another thread pays off.
const LINES_PER_THREAD: usize = 256;

/// Judges all lines, each compared with all others, on all processors.
pub fn scan(rules: &Arc<WeightedRules>, lines: &[Line], now: Timestamp) -> Vec<LineReport> {
    scan_with(rules, Layers::ALL, lines, now)
}

/// The same, with only some layers taking part in judging sessions.
pub fn scan_with(
    rules: &Arc<WeightedRules>,
    layers: Layers,
    lines: &[Line],
    now: Timestamp,
) -> Vec<LineReport> {
    let mut tools = ToolIndex::new();
    for (server, profile) in in_parallel(lines, |lines| lines.iter().flat_map(profiles).collect()) {
        if tools.insert(&server, Arc::new(profile)) {
            tools.publish(&server, publisher(&server));
        }
    }
    in_parallel(lines, |lines| {
        let mut analyser = Analyser::new(Arc::clone(rules));
        let judged = lines.iter();
        judged
            .map(|line| match session::judge_line(rules, layers, line, now) {
                Some(judged) => report_of_session(line, judged),
                None => judge(&mut analyser, &tools, line, now),
            })
            .collect()
    })
}

/// The tools of a line that names their server.
fn profiles(line: &Line) -> Vec<(Arc<str>, ToolProfile)> {
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
    let profiles = content.tools().into_iter().filter_map(ToolProfile::of);
    profiles
        .map(|profile| (Arc::clone(&server), profile))
        .collect()
}

/// The results of `work` on all lines, in order. Each processor gets a share of the lines.
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

/// Judges one line.
fn judge(analyser: &mut Analyser, index: &ToolIndex, line: &Line, now: Timestamp) -> LineReport {
    let mut tools = Vec::new();
    let (report, mut extra, tool, error) = match line.content() {
        Err(error) => (Report::clean(), Map::new(), None, Some(error)),
        Ok(content) => {
            let context = AnalysisContext {
                server: content.server.as_deref(),
                user: content.user,
                time: now,
                tools: Some(index),
                ..AnalysisContext::default()
            };
            let name = |tool: &Json<'_>| {
                let name = tool.get("name").and_then(Json::as_str);
                name.map(str::to_owned)
            };
            match content.shape {
                LineKind::Tool => {
                    let report = analyser.tool(&content.value, context);
                    (report, content.extra, name(&content.value), None)
                }
                LineKind::Message => {
                    let mut all = Report::clean();
                    for found in message::subjects(&content.value) {
                        let report = message::part(analyser, &found, context);
                        if found.subject == Subject::Tool {
                            tools.push(ToolVerdict {
                                name: name(found.value).unwrap_or_default(),
                                verdict: report.action,
                                score: rounded(report.score),
                            });
                        }
                        all.absorb(report);
                    }
                    (all, content.extra, None, None)
                }
            }
        }
    };
    let result = LineReport::of(line, report, &mut extra);
    LineReport {
        tools,
        error,
        tool,
        extra: without_own_members(extra),
        ..result
    }
}

/// A score with three digits.
fn rounded(score: f32) -> f32 {
    (score * 1000.0).round() / 1000.0
}

/// The report of a line that is a session.
fn report_of_session(line: &Line, judged: JudgedSession) -> LineReport {
    let JudgedSession {
        report,
        alert_at,
        mut extra,
    } = judged;
    LineReport {
        alert_at: Some(alert_at),
        ..LineReport::of(line, report, &mut extra)
    }
}

impl LineReport {
    /// The report of a line that is one value. Takes the line's `id` out of its other members.
    fn of(line: &Line, report: Report, extra: &mut Map<String, Value>) -> Self {
        Self {
            line: line.number,
            id: extra.remove("id").unwrap_or(Value::Null),
            verdict: report.action,
            max_severity: report.severity,
            score: rounded(report.score),
            detections: report.detections,
            truncated: report.truncated,
            tools: Vec::new(),
            alert_at: None,
            error: None,
            extra: Map::new(),
            tool: None,
        }
    }
}

/// Members of the line whose names do not collide with those of the report.
fn without_own_members(mut extra: Map<String, Value>) -> Map<String, Value> {
    for own in [
        "line",
        "verdict",
        "max_severity",
        "score",
        "detections",
        "truncated",
        "tools",
        "alert_at",
        "error",
        "tool_name",
    ] {
        extra.remove(own);
    }
    extra
}

#[cfg(test)]
mod tests;
