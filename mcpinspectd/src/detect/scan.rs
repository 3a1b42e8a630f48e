//! The same detection offline: lines in, verdicts out.
//!
//! A line is a tool's definition, `{"tool": …, "server": …}`, a JSON-RPC message,
//! `{"message": …, "server": …}`, or a whole `tools/list` result. Lines that share a `server` are
//! that server's tools: all lines are read before the first is judged, so that a tool is seen beside
//! the tools of the other servers, whatever their order.

use std::io::{self, BufRead};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::analyse::{Analyser, Circumstances, Report};
use super::extract::Subject;
use super::knowledge::Knowledge;
use super::message;
use super::neighbours::{Card, Neighbours};
use super::tree;
use crate::event::{Action, Detection, Severity};
use crate::model::Timestamp;

/// Longest line.
const LINE_LIMIT: usize = 64 * 1024 * 1024;
/// Most bytes of all lines together.
const INPUT_LIMIT: usize = 1024 * 1024 * 1024;

/// A line of input, read.
#[derive(Debug)]
pub struct Line {
    /// Its number, from 1.
    pub number: usize,
    /// What it holds, or why it cannot be read.
    pub content: Result<Content, String>,
}

/// What a line holds.
#[derive(Debug)]
pub struct Content {
    /// What is looked at.
    value: Value,
    shape: Shape,
    server: Option<String>,
    /// Members of the line that are handed on.
    extra: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Tool,
    Message,
}

/// Why an input cannot be scanned at all.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// It cannot be read.
    #[error("cannot read the input: {0}")]
    Read(#[from] io::Error),
    /// It is too large.
    #[error("the input is larger than {INPUT_LIMIT} bytes, or line {0} than {LINE_LIMIT}")]
    TooLarge(usize),
}

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

/// Reads all lines. An input that is one JSON value over several lines counts as one line.
pub fn read(mut input: impl BufRead) -> Result<Vec<Line>, ScanError> {
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut total = 0;
    loop {
        let mut line = Vec::new();
        let length =
            io::Read::take(&mut input, LINE_LIMIT as u64 + 1).read_until(b'\n', &mut line)?;
        if length == 0 {
            break;
        }
        total += length;
        if line.len() > LINE_LIMIT || total > INPUT_LIMIT {
            return Err(ScanError::TooLarge(texts.len() + 1));
        }
        texts.push(line);
    }
    let opens_alone = texts
        .iter()
        .find(|line| !line.trim_ascii().is_empty())
        .is_some_and(|line| serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err());
    if opens_alone && let Ok(value) = serde_json::from_slice::<Value>(&texts.concat()) {
        return Ok(vec![Line {
            number: 1,
            content: Ok(Content::from(value)),
        }]);
    }
    let lines = texts
        .iter()
        .enumerate()
        .filter(|(_, text)| !text.trim_ascii().is_empty());
    Ok(lines
        .map(|(index, text)| Line {
            number: index + 1,
            content: serde_json::from_slice::<&RawValue>(text)
                .map(|text| Content::from(tree::of(text)))
                .map_err(|error| format!("no JSON: {error}")),
        })
        .collect())
}

impl From<Value> for Content {
    fn from(value: Value) -> Self {
        let mut content = Self {
            value,
            shape: Shape::Message,
            server: None,
            extra: Map::new(),
        };
        let Value::Object(fields) = &mut content.value else {
            return content;
        };
        let wrapped = [("tool", Shape::Tool), ("message", Shape::Message)]
            .into_iter()
            .find(|(key, _)| {
                fields
                    .get(*key)
                    .is_some_and(|inner| inner.is_object() || inner.is_array())
            });
        // A JSON-RPC message may have a member of any name; its version says what it is.
        match wrapped.filter(|_| !fields.contains_key("jsonrpc")) {
            Some((key, shape)) => {
                let inner = fields.remove(key).unwrap_or_default();
                content.server = fields
                    .get("server")
                    .and_then(Value::as_str)
                    .map(str::to_owned);
                content.extra = std::mem::take(fields);
                content.shape = shape;
                content.value = inner;
            }
            None => {
                content.server = fields
                    .get("server")
                    .and_then(Value::as_str)
                    .map(str::to_owned);
                let listing = ["tools", "prompts", "resources", "resourceTemplates"]
                    .iter()
                    .any(|key| fields.get(*key).is_some_and(Value::is_array));
                let message = ["jsonrpc", "method", "result", "error"]
                    .iter()
                    .any(|key| fields.contains_key(*key));
                if let Some(id) = fields.get("id") {
                    content.extra.insert("id".into(), id.clone());
                }
                if listing && !message {
                    let result = std::mem::take(&mut content.value);
                    content.value = serde_json::json!({ "result": result });
                } else if !message {
                    content.shape = Shape::Tool;
                }
            }
        }
        content
    }
}

impl Content {
    /// What a server said that was listened to: its tools one by one, the rest of the message whole.
    pub fn heard(server: &str, mut message: Value) -> Vec<Self> {
        let content = |value, shape| Self {
            value,
            shape,
            server: Some(server.to_owned()),
            extra: Map::from_iter([("server".to_owned(), server.into())]),
        };
        let tools = message
            .pointer_mut("/result/tools")
            .and_then(Value::as_array_mut)
            .map(std::mem::take);
        let mut contents: Vec<Self> = tools
            .into_iter()
            .flatten()
            .map(|tool| content(tool, Shape::Tool))
            .collect();
        if contents.is_empty() {
            contents.push(content(message, Shape::Message));
        }
        contents
    }

    /// The definitions of tools in it.
    fn tools(&self) -> Vec<&Value> {
        match self.shape {
            Shape::Tool => vec![&self.value],
            Shape::Message => message::subjects(&self.value)
                .iter()
                .filter(|found| found.subject == Subject::Tool)
                .map(|found| found.value)
                .collect(),
        }
    }
}

/// Judges all lines, each beside all others.
pub fn scan(knowledge: &Arc<Knowledge>, lines: Vec<Line>, now: Timestamp) -> Vec<Outcome> {
    let mut neighbours = Neighbours::new();
    for content in lines.iter().filter_map(|line| line.content.as_ref().ok()) {
        if let Some(server) = &content.server {
            let cards = content.tools().into_iter().filter_map(Card::of);
            cards.for_each(|card| neighbours.learn(server, Arc::new(card)));
        }
    }
    let mut analyser = Analyser::new(Arc::clone(knowledge));
    lines
        .into_iter()
        .map(|line| judge(&mut analyser, &neighbours, line, now))
        .collect()
}

fn judge(analyser: &mut Analyser, neighbours: &Neighbours, line: Line, now: Timestamp) -> Outcome {
    let (report, mut extra, tool, error) = match line.content {
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
                .and_then(Value::as_str)
                .filter(|_| content.shape == Shape::Tool);
            (report, content.extra, name.map(str::to_owned), None)
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
