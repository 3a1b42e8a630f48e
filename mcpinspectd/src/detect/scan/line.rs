//! The lines of an input, and what each of them holds.

use std::io::{self, BufRead};

use memchr::memmem;
use serde_json::{Map, Value};

use crate::detect::extract::Subject;
use crate::detect::{message, tree};

/// Longest line.
const LINE_LIMIT: usize = 64 * 1024 * 1024;
/// Most bytes of all lines together.
const INPUT_LIMIT: usize = 1024 * 1024 * 1024;

/// A line of input.
#[derive(Debug)]
pub struct Line {
    /// Its number, from 1.
    pub(super) number: usize,
    given: Given,
}

/// How a line came.
#[derive(Debug)]
enum Given {
    /// As text. It is read when it is looked at, and again where it is looked at again: as a tree it
    /// takes many times the memory.
    Text(Vec<u8>),
    /// Read.
    Content(Content),
}

/// What a line holds.
#[derive(Clone, Debug)]
pub struct Content {
    /// What is looked at.
    pub(super) value: Value,
    pub(super) shape: Shape,
    pub(super) server: Option<String>,
    /// Members of the line that are handed on.
    pub(super) extra: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
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
        return Ok(vec![Line::new(1, Content::from(value))]);
    }
    let lines = texts.into_iter().enumerate();
    let lines = lines.filter(|(_, text)| !text.trim_ascii().is_empty());
    Ok(lines
        .map(|(index, text)| Line {
            number: index + 1,
            given: Given::Text(text),
        })
        .collect())
}

impl Line {
    /// A line that is read already.
    pub fn new(number: usize, content: Content) -> Self {
        Self {
            number,
            given: Given::Content(content),
        }
    }

    /// What it holds, or why it cannot be read.
    pub(super) fn content(&self) -> Result<Content, String> {
        match &self.given {
            Given::Content(content) => Ok(content.clone()),
            Given::Text(text) => tree::read(text)
                .map(Content::from)
                .map_err(|error| format!("no JSON: {error}")),
        }
    }

    /// Whether it may say which server it is from. A line that does not is not read to find out.
    pub(super) fn may_name_server(&self) -> bool {
        match &self.given {
            Given::Content(content) => content.server.is_some(),
            // A key may be written with escapes.
            Given::Text(text) => {
                memmem::find(text, b"\"server\"").is_some() || memmem::find(text, b"\\u").is_some()
            }
        }
    }
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
    pub(super) fn tools(&self) -> Vec<&Value> {
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
