//! The lines of an input, and what each contains.

use bytes::Bytes;
use memchr::memmem;
use serde_json::{Map, Value};

use super::servers::Servers;
use crate::detect::analysis::{Subject, message};
use crate::detect::json::Json;

/// The longest line, in bytes.
const LINE_LIMIT: usize = 64 * 1024 * 1024;
/// The longest input, in bytes.
pub const INPUT_LIMIT: usize = 1024 * 1024 * 1024;

/// A line of input.
#[derive(Debug)]
pub struct Line {
    /// Its number, from 1.
    pub(super) number: usize,
    body: Body,
}

/// The body of a line.
#[derive(Debug)]
enum Body {
    /// Text. It is parsed each time it is needed, because parsed it takes many times the memory.
    Text(Bytes),
    /// Content that was already parsed.
    Content(Content<'static>),
}

/// What a line contains.
#[derive(Clone, Debug)]
pub struct Content<'a> {
    /// The value to analyse.
    pub(super) value: Json<'a>,
    pub(super) shape: LineKind,
    pub(super) server: Option<String>,
    /// The user that the server runs as, if the caller knows.
    pub(super) user: Option<u32>,
    /// Members of the line that are passed on to its report.
    pub(super) extra: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Tool,
    Message,
}

/// An input is too large to be scanned. Holds the line where the limit is exceeded.
#[derive(Debug, thiserror::Error)]
#[error("the input is larger than {INPUT_LIMIT} bytes, or line {0} is larger than {LINE_LIMIT}")]
pub struct InputTooLarge(usize);

/// Splits an input into lines. An input that is a single JSON value over several lines counts as one line.
///
/// # Errors
/// The input, or a line of it, is too large.
pub fn split(text: impl Into<Bytes>) -> Result<Vec<Line>, InputTooLarge> {
    let text = text.into();
    let mut lines = Vec::new();
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', &text).chain([text.len()]) {
        lines.push(text.slice(start..end));
        if end - start > LINE_LIMIT || end > INPUT_LIMIT {
            return Err(InputTooLarge(lines.len()));
        }
        start = end + 1;
    }
    let opens_alone = lines
        .iter()
        .find(|line| !line.trim_ascii().is_empty())
        .is_some_and(|line| serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err());
    let whole = opens_alone || (lines.len() <= 2 && holds_servers(&text));
    if whole && let Some(servers) = Servers::read(&text) {
        let contents = (1..).zip(servers);
        return Ok(contents
            .map(|(number, (name, server))| Line::new(number, Content::named(name, server)))
            .collect());
    }
    if whole && let Ok(value) = serde_json::from_slice::<Value>(&text) {
        let contents = (1..).zip(Content::many(value));
        return Ok(contents
            .map(|(number, content)| Line::new(number, content))
            .collect());
    }
    let lines = lines.into_iter().enumerate();
    let lines = lines.filter(|(_, text)| !text.trim_ascii().is_empty());
    Ok(lines
        .map(|(index, text)| Line {
            number: index + 1,
            body: Body::Text(text),
        })
        .collect())
}

impl Line {
    /// A line whose content was already parsed.
    pub fn new(number: usize, content: Content<'static>) -> Self {
        Self {
            number,
            body: Body::Content(content),
        }
    }

    /// What it contains, or why it cannot be parsed.
    pub(super) fn content(&self) -> Result<Content<'_>, String> {
        match &self.body {
            Body::Content(content) => Ok(content.clone()),
            Body::Text(text) => Json::parse(text)
                .map(Content::from)
                .map_err(|error| format!("invalid JSON: {error}")),
        }
    }

    /// Whether it may be a whole session.
    pub(super) fn may_be_session(&self) -> bool {
        match &self.body {
            Body::Content(content) => content.value.get("messages").is_some(),
            Body::Text(text) => memmem::find(text, b"\"messages\"").is_some(),
        }
    }

    /// Whether it may name its server. Judges by the text alone, so that most lines need not be parsed.
    pub(super) fn may_name_server(&self) -> bool {
        match &self.body {
            Body::Content(content) => content.server.is_some(),
            // The key may be written with escapes.
            Body::Text(text) => {
                memmem::find(text, b"\"server\"").is_some() || memmem::find(text, b"\\u").is_some()
            }
        }
    }
}

impl Content<'_> {
    /// The same content, of a server that runs as this user.
    #[must_use]
    pub fn of_user(self, user: Option<u32>) -> Self {
        Self { user, ..self }
    }
}

impl<'a> From<Json<'a>> for Content<'a> {
    fn from(value: Json<'a>) -> Self {
        let mut content = Self {
            value,
            shape: LineKind::Message,
            server: None,
            user: None,
            extra: Map::new(),
        };
        let Json::Object(fields) = &mut content.value else {
            return content;
        };
        content.server = fields
            .get("server")
            .and_then(Json::as_str)
            .map(str::to_owned);
        let wrapped = [("tool", LineKind::Tool), ("message", LineKind::Message)]
            .into_iter()
            .find(|(key, _)| matches!(fields.get(key), Some(Json::Object(_) | Json::Array(_))));
        // A JSON-RPC message may have members of any name; its `jsonrpc` member distinguishes it.
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
            .any(|key| matches!(fields.get(key), Some(Json::Array(_))));
        let message = ["jsonrpc", "method", "result", "error"]
            .iter()
            .any(|key| fields.contains_key(key));
        for member in ["id", "server"] {
            if let Some(value) = fields.get(member) {
                content.extra.insert(member.into(), value.clone().into());
            }
        }
        if listing && !message {
            let result = std::mem::take(&mut content.value);
            content.value = Json::Object([("result".into(), result)].into_iter().collect());
        } else if !message {
            content.shape = LineKind::Tool;
        }
        content
    }
}

/// Whether a text of one line may be several servers.
fn holds_servers(text: &[u8]) -> bool {
    memmem::find(text, b"\"servers\"").is_some() || text.trim_ascii_start().starts_with(b"[")
}

/// Whether an item of an array is a server or a session, and not one of several JSON-RPC messages.
fn stands_alone(item: &Value) -> bool {
    item.get("server").is_some() || item.get("messages").is_some()
}

impl Content<'static> {
    /// A server by its name in a file.
    fn named(name: String, mut server: Value) -> Self {
        if let Some(members) = server.as_object_mut() {
            members.insert("server".to_owned(), name.into());
        }
        Self::from(Json::from(server))
    }

    /// The content of a whole file: one line's, or several servers or sessions.
    fn many(value: Value) -> Vec<Self> {
        match value {
            // An array of JSON-RPC messages is a batch.
            Value::Array(items) if items.iter().any(stands_alone) => items
                .into_iter()
                .map(|item| Self::from(Json::from(item)))
                .collect(),
            value => vec![Self::from(Json::from(value))],
        }
    }

    /// The content of a message from a server: its tools one by one, or else the whole message.
    pub fn from_message(server: &str, mut message: Value) -> Vec<Self> {
        let content = |value: Value, shape| Self {
            value: value.into(),
            shape,
            user: None,
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
            .map(|tool| content(tool, LineKind::Tool))
            .collect();
        if contents.is_empty() {
            contents.push(content(message, LineKind::Message));
        }
        contents
    }
}

impl Content<'_> {
    /// The definitions of tools in it.
    pub(super) fn tools(&self) -> Vec<&Json<'_>> {
        match self.shape {
            LineKind::Tool => vec![&self.value],
            LineKind::Message => message::subjects(&self.value)
                .iter()
                .filter(|found| found.subject == Subject::Tool)
                .map(|found| found.value)
                .collect(),
        }
    }
}
