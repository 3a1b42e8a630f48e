//! Tapes without anything that identifies whose they were.
//!
//! What users and servers say to each other is replaced, value by value: the same text by the same
//! placeholder wherever it appears, so that a result that comes back as an argument still does, and a
//! comparison of two calls still works. What the protocol says stays: methods, the order of ids, the structure of
//! every message. So do definitions of tools, which are software and no one's data, with paths, addresses
//! and secrets removed from their texts. Times are shifted, but their distances stay.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

use mcpinspect_core::model::Timestamp;
use mcpinspect_core::text::redact;
use mcpinspect_engine::history::Raw;
use regex::Regex;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Entry, Header};

/// When an anonymous session starts: 2000-01-01.
const START: u64 = 946_684_800_000_000_000;

/// Whole numbers below this reveal no one's identity.
const SMALL: u64 = 1000;

/// Depth to which messages are examined; nothing below it is kept.
const DEPTH: usize = 64;

/// Removes what identifies the owner of a tape. One for each tape.
#[derive(Debug)]
pub struct Anonymiser {
    texts: HashMap<String, usize>,
    numbers: HashMap<String, u64>,
    started: Timestamp,
}

/// What kind of text a value holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The protocol's own: some of its members are words.
    Protocol,
    /// Software: definitions of tools, names and versions of programs.
    Definition,
    /// What someone said.
    Free,
}

impl Anonymiser {
    /// For a tape with this header. Returns the header to use instead.
    pub fn new(header: Header) -> (Self, Header) {
        let started = Timestamp::parse(&header.started).unwrap_or_default();
        let mut anonymiser = Self {
            texts: HashMap::new(),
            numbers: HashMap::new(),
            started,
        };
        let program = |exe: Option<String>| {
            let name = exe.as_deref().map(Path::new).and_then(Path::file_name);
            name.map(|name| name.to_string_lossy().into_owned())
        };
        let info = |anonymiser: &mut Self, info: Option<Box<Raw>>| {
            info.and_then(|info| anonymiser.raw(&info, Part::Definition))
        };
        let header = Header {
            session_id: "anonymous".to_owned(),
            fingerprint: String::new(),
            host: None,
            server_exe: program(header.server_exe),
            client_exe: program(header.client_exe),
            server_info: info(&mut anonymiser, header.server_info),
            client_info: info(&mut anonymiser, header.client_info),
            started: anonymiser.time(&header.started),
            ended: header.ended.map(|time| anonymiser.time(&time)),
            is_anonymised: true,
            ..header
        };
        (anonymiser, header)
    }

    /// An entry without anything that identifies its owner.
    pub fn entry(&mut self, entry: Entry) -> Entry {
        let message = entry
            .message
            .and_then(|message| self.raw(&message, Part::Protocol));
        let text = entry.text.map(|text| self.text(&text));
        let bytes = match (&message, &text) {
            (Some(message), _) => message.0.get().len() as u64,
            (None, Some(text)) => text.len() as u64,
            (None, None) => entry.bytes,
        };
        Entry {
            time: self.time(&entry.time),
            id: entry.id.map(|id| match serde_json::from_str(&id) {
                Ok(Value::String(text)) => Value::String(self.text(&text)).to_string(),
                Ok(Value::Number(number)) => number.to_string(),
                _ => String::new(),
            }),
            modified: true,
            bytes,
            message,
            text,
            ..entry
        }
    }

    fn time(&self, time: &str) -> String {
        let time = Timestamp::parse(time).unwrap_or(self.started);
        Timestamp(START.saturating_add(time.nanos_since(self.started))).exact()
    }

    fn raw(&mut self, raw: &Raw, part: Part) -> Option<Box<Raw>> {
        // Nesting deeper than a parser accepts makes the tape unusable anyway: its text is dropped.
        let value: Value = serde_json::from_str(raw.0.get()).ok()?;
        let is_envelope = part == Part::Protocol;
        let value = self.value(value, part, is_envelope, DEPTH);
        let text = RawValue::from_string(value.to_string()).ok()?;
        Some(Box::new(Raw(text)))
    }

    /// `is_envelope` if `id` is that of a message, whose number identifies no one.
    fn value(&mut self, value: Value, part: Part, is_envelope: bool, depth: usize) -> Value {
        if depth == 0 {
            return Value::Null;
        }
        match value {
            Value::Object(members) => {
                Value::Object(self.members(members, part, is_envelope, depth))
            }
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.value(item, part, is_envelope, depth - 1))
                .collect(),
            Value::String(text) if part == Part::Definition => Value::String(scrubbed(&text)),
            Value::String(text) => Value::String(self.text(&text)),
            Value::Number(number) if part == Part::Free => {
                let is_small = number
                    .as_f64()
                    .is_some_and(|number| number.abs() < SMALL as f64);
                match is_small {
                    true => Value::Number(number),
                    false => self.number(&number.to_string()).into(),
                }
            }
            other => other,
        }
    }

    fn members(
        &mut self,
        members: Map<String, Value>,
        part: Part,
        is_envelope: bool,
        depth: usize,
    ) -> Map<String, Value> {
        let mut out = Map::new();
        for (name, value) in members {
            let value = match (&value, part) {
                (Value::String(word), Part::Protocol | Part::Free)
                    if is_word(&name, word, part) =>
                {
                    value
                }
                _ => self.value(
                    value,
                    below(&name, part),
                    is_envelope && name != "params" && name != "result",
                    depth - 1,
                ),
            };
            let name = match part == Part::Free && !is_identifier(&name) {
                true => self.text(&name),
                false => name,
            };
            out.insert(name, value);
        }
        out
    }

    /// The placeholder of a text.
    fn text(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let next = self.texts.len() + 1;
        let number = *self.texts.entry(text.to_owned()).or_insert(next);
        format!("text-{number}")
    }

    /// The placeholder of a number.
    fn number(&mut self, text: &str) -> u64 {
        let next = SMALL + self.numbers.len() as u64;
        *self.numbers.entry(text.to_owned()).or_insert(next)
    }
}

/// What kind of text a member holds.
fn below(name: &str, part: Part) -> Part {
    match (part, name) {
        (Part::Free | Part::Definition, _) => part,
        (
            Part::Protocol,
            "tools"
            | "prompts"
            | "resourceTemplates"
            | "serverInfo"
            | "clientInfo"
            | "capabilities"
            | "instructions"
            | "supportedVersions"
            | "requestedSchema"
            | "io.modelcontextprotocol/clientInfo"
            | "io.modelcontextprotocol/serverInfo"
            | "io.modelcontextprotocol/clientCapabilities",
        ) => Part::Definition,
        (
            Part::Protocol,
            "arguments" | "content" | "structuredContent" | "contents" | "messages" | "resources"
            | "data" | "inputResponses" | "inputRequests" | "roots" | "argument" | "completion"
            | "error",
        ) => Part::Free,
        (Part::Protocol, _) => Part::Protocol,
    }
}

/// Whether a text is a word of the protocol.
fn is_word(name: &str, text: &str, part: Part) -> bool {
    let is_short = text.len() <= 128
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-./+".contains(&byte));
    let names: &[&str] = match part {
        Part::Free => &["type", "role", "mimeType"],
        _ => &[
            "jsonrpc",
            "method",
            "name",
            "protocolVersion",
            "resultType",
            "type",
            "role",
            "level",
            "action",
            "status",
            "mimeType",
            "stopReason",
            "io.modelcontextprotocol/protocolVersion",
        ],
    };
    is_short && names.contains(&name)
}

/// Whether the name of a member is one that a program chose.
fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 64
        && bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || b"_$".contains(&first))
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// A definition's text without users, addresses and secrets.
#[expect(
    clippy::expect_used,
    reason = "the patterns are part of the program, and a test uses each"
)]
fn scrubbed(text: &str) -> String {
    static PATTERNS: LazyLock<[(Regex, &str); 3]> = LazyLock::new(|| {
        let pattern = |text| Regex::new(text).expect("a valid pattern");
        [
            (
                pattern(r#"(/home/|/Users/|/run/user/|[A-Za-z]:\\Users\\)[^/\\\s"'<>,;:)]+"#),
                "${1}user",
            ),
            (
                pattern(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+"),
                "user@example.org",
            ),
            (pattern(r"\b[0-9]{1,3}(\.[0-9]{1,3}){3}\b"), "192.0.2.1"),
        ]
    });
    let mut text = redact::secrets(text).into_owned();
    for (pattern, instead) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *instead).into_owned();
    }
    text
}
