//! The lines of an input, and what each of them holds.

use std::io::{self, Read};

use bytes::Bytes;
use memchr::memmem;
use serde_json::{Map, Value};

use crate::detect::extract::Subject;
use crate::detect::message;
use crate::detect::tree::{self, Tree};

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
    Text(Bytes),
    /// Read.
    Content(Content<'static>),
}

/// What a line holds.
#[derive(Clone, Debug)]
pub struct Content<'a> {
    /// What is looked at.
    pub(super) value: Tree<'a>,
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
pub fn read(input: impl Read) -> Result<Vec<Line>, ScanError> {
    let mut text = Vec::new();
    input.take(INPUT_LIMIT as u64 + 1).read_to_end(&mut text)?;
    let text = Bytes::from(text);
    let mut lines = Vec::new();
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', &text).chain([text.len()]) {
        lines.push(text.slice(start..end));
        if end - start > LINE_LIMIT || end > INPUT_LIMIT {
            return Err(ScanError::TooLarge(lines.len()));
        }
        start = end + 1;
    }
    let opens_alone = lines
        .iter()
        .find(|line| !line.trim_ascii().is_empty())
        .is_some_and(|line| serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err());
    if opens_alone && let Ok(value) = serde_json::from_slice::<Value>(&text) {
        return Ok(vec![Line::new(1, Content::from(Tree::from(value)))]);
    }
    let lines = lines.into_iter().enumerate();
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
    pub fn new(number: usize, content: Content<'static>) -> Self {
        Self {
            number,
            given: Given::Content(content),
        }
    }

    /// What it holds, or why it cannot be read.
    pub(super) fn content(&self) -> Result<Content<'_>, String> {
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

impl<'a> From<Tree<'a>> for Content<'a> {
    fn from(value: Tree<'a>) -> Self {
        let mut content = Self {
            value,
            shape: Shape::Message,
            server: None,
            extra: Map::new(),
        };
        let Tree::Object(fields) = &mut content.value else {
            return content;
        };
        content.server = fields
            .get("server")
            .and_then(Tree::as_str)
            .map(str::to_owned);
        let wrapped = [("tool", Shape::Tool), ("message", Shape::Message)]
            .into_iter()
            .find(|(key, _)| matches!(fields.get(key), Some(Tree::Object(_) | Tree::Array(_))));
        // A JSON-RPC message may have a member of any name; its version says what it is.
        if let Some((key, shape)) = wrapped.filter(|_| !fields.contains_key("jsonrpc")) {
            let inner = fields.remove(key).unwrap_or_default();
            let extra = std::mem::take(fields).into_iter();
            content.extra = extra
                .map(|(key, value)| (key.into_owned(), value.into()))
                .collect();
            content.shape = shape;
            content.value = inner;
            return content;
        }
        let listing = ["tools", "prompts", "resources", "resourceTemplates"]
            .iter()
            .any(|key| matches!(fields.get(key), Some(Tree::Array(_))));
        let message = ["jsonrpc", "method", "result", "error"]
            .iter()
            .any(|key| fields.contains_key(key));
        if let Some(id) = fields.get("id") {
            content.extra.insert("id".into(), id.clone().into());
        }
        if listing && !message {
            let result = std::mem::take(&mut content.value);
            content.value = Tree::Object([("result".into(), result)].into_iter().collect());
        } else if !message {
            content.shape = Shape::Tool;
        }
        content
    }
}

impl Content<'static> {
    /// What a server said that was listened to: its tools one by one, the rest of the message whole.
    pub fn heard(server: &str, mut message: Value) -> Vec<Self> {
        let content = |value: Value, shape| Self {
            value: value.into(),
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
}

impl Content<'_> {
    /// The definitions of tools in it.
    pub(super) fn tools(&self) -> Vec<&Tree<'_>> {
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
