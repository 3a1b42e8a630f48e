//! The one JSON shape of an event: for the journal, the bus and JSON lines alike.
//!
//! Two things happen to an event on its way out. It is bounded: a reader of the journal pays for
//! every entry, and a server must not decide how much. Long strings are cut first and long lists
//! after them, so what stays is still the event and still valid JSON, marked `"truncated": true`.
//! And characters that are invisible or act on a terminal are written as JSON's own `\u` escapes:
//! a program that parses the line gets the exact text, a person who prints it gets no surprise.

use std::io;

use mcpinspect_core::text::bound;
use mcpinspect_core::text::escape::is_hidden;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Value};

use crate::event::Event;

/// Longest string and longest list to keep, tried from generous to strict.
const STEPS: [(usize, usize); 4] = [(4096, 256), (1024, 64), (256, 16), (64, 4)];

/// What every event keeps, whatever else has to go.
const ESSENTIAL: [&str; 9] = [
    "type",
    "timestamp",
    "session_id",
    "server_id",
    "server_type",
    "server_pid",
    "tool_name",
    "status",
    "max_severity",
];

/// An event as it leaves the daemon: one JSON object without line breaks.
#[derive(Clone, Debug, PartialEq)]
pub struct EventJson {
    /// The object.
    pub text: String,
    /// Whether something was cut to keep the limit.
    pub truncated: bool,
}

#[derive(Serialize)]
struct EventWithId<'a> {
    #[serde(flatten)]
    event: &'a Event,
    event_id: &'a str,
}

/// Serialises `event`, at most `max_bytes` long. Only a limit below what names, time and type
/// need (about 2 KiB) can be exceeded, because an event is useless without those.
pub fn event_json(
    event: &Event,
    event_id: &str,
    max_bytes: usize,
) -> serde_json::Result<EventJson> {
    let mut text = terminal_safe(&EventWithId { event, event_id })?;
    // It may be kept for long, and spare capacity is up to half of it.
    text.shrink_to_fit();
    if text.len() <= max_bytes {
        let truncated = false;
        return Ok(EventJson { text, truncated });
    }
    drop(text);
    let mut value = serde_json::to_value(EventWithId { event, event_id })?;
    if let Value::Object(fields) = &mut value {
        fields.insert("truncated".to_owned(), Value::Bool(true));
    }
    for (max_string, max_items) in STEPS {
        shrink(&mut value, max_string, max_items);
        let text = terminal_safe(&value)?;
        if text.len() <= max_bytes {
            return Ok(EventJson {
                text,
                truncated: true,
            });
        }
    }
    let essential: Map<String, Value> = match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| {
                ESSENTIAL.contains(&name.as_str())
                    || matches!(name.as_str(), "event_id" | "truncated")
            })
            .collect(),
        _ => Map::new(),
    };
    let text = terminal_safe(&Value::Object(essential))?;
    Ok(EventJson {
        text,
        truncated: true,
    })
}

/// Cuts every string in `value` to `max_string` bytes and every list and object to `max_items`
/// members. Depth needs no limit here: values come from a parser that has one.
fn shrink(value: &mut Value, max_string: usize, max_items: usize) {
    match value {
        Value::String(text) if text.len() > max_string => {
            *text = bound(text, max_string).into_owned();
        }
        Value::Array(items) => {
            items.truncate(max_items);
            for item in items {
                shrink(item, max_string, max_items);
            }
        }
        Value::Object(fields) => {
            if fields.len() > max_items.max(32) || fields.keys().any(|name| name.len() > max_string)
            {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .take(max_items.max(32))
                    .map(|(name, value)| (bound(&name, max_string).into_owned(), value))
                    .collect();
            }
            for (_, field) in fields.iter_mut() {
                shrink(field, max_string, max_items);
            }
        }
        _ => {}
    }
}

/// `value` as compact JSON that is safe to print: every character without a glyph is a `\u` escape.
pub fn terminal_safe<T: Serialize>(value: &T) -> serde_json::Result<String> {
    let mut out = Vec::with_capacity(512);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, TerminalSafe);
    value.serialize(&mut serializer)?;
    String::from_utf8(out).map_err(|error| serde::ser::Error::custom(error.to_string()))
}

/// Compact JSON in which every character without a glyph is a `\u` escape.
pub struct TerminalSafe;

impl Formatter for TerminalSafe {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut written = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| is_hidden(*c)) {
            writer.write_all(&fragment.as_bytes()[written..at])?;
            let mut units = [0u16; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
            written = at + c.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[written..])
    }

    /// Text that is already JSON: outside strings, only white space has no glyph.
    fn write_raw_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let lines = fragment.replace(['\n', '\r', '\t'], " ");
        self.write_string_fragment(writer, &lines)
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::{FieldChange, ToolStatus};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::event::body::ToolChanged;
    use crate::event::testing::subject;
    use crate::event::testing::{TIME, hash};

    fn changed(previous: Value, new: Value) -> Event {
        Event::new(
            TIME,
            subject("files"),
            ToolChanged {
                tool_name: "read".to_owned(),
                status: ToolStatus::Changed,
                previous_hash: hash('a'),
                new_hash: Some(hash('b')),
                changes: vec![FieldChange {
                    field: "description".to_owned(),
                    previous,
                    new,
                }],
                detections: Vec::new(),
                max_severity: None,
            },
        )
    }

    #[test]
    fn a_small_event_is_whole_and_carries_its_id() {
        let json = event_json(&changed(json!("old"), json!("new")), "7-1", 48 << 10).unwrap();
        assert!(!json.truncated);
        let value: Value = serde_json::from_str(&json.text).unwrap();
        assert_eq!(value["type"], "mcp_tool_changed");
        assert_eq!(value["event_id"], "7-1");
        assert_eq!(value["changes"][0]["new"], "new");
        assert!(value.get("truncated").is_none());
    }

    #[test]
    fn the_limit_itself_still_fits_and_one_less_does_not() {
        let event = changed(json!("x".repeat(5000)), json!(""));
        let whole = event_json(&event, "7-1", usize::MAX).unwrap();
        let exact = event_json(&event, "7-1", whole.text.len()).unwrap();
        assert_eq!(exact, whole);
        let less = event_json(&event, "7-1", whole.text.len() - 1).unwrap();
        assert!(less.truncated);
        assert!(less.text.len() < whole.text.len());
    }

    #[test]
    fn text_that_is_json_already_is_safe_too() {
        let raw: &serde_json::value::RawValue =
            serde_json::from_str("{\n\t\"a\": \"\u{202e}b\"}").unwrap();
        assert_eq!(terminal_safe(&raw).unwrap(), r#"{  "a": "\u202eb"}"#);
    }

    #[test]
    fn hidden_characters_survive_parsing_and_never_reach_a_terminal() {
        let text = "a\u{202e}b\u{e0041}c\u{7f}\u{1b}[2J\n\"\\é漢";
        let json = event_json(&changed(json!(text), json!("")), "7-1", 48 << 10).unwrap();
        assert!(!json.text.chars().any(is_hidden), "{}", json.text);
        let value: Value = serde_json::from_str(&json.text).unwrap();
        assert_eq!(value["changes"][0]["previous"], text);
    }

    #[test]
    fn wide_objects_and_long_keys_are_cut_too() {
        let wide: Map<String, Value> = (0..20_000)
            .map(|i| (format!("{i}{}", "k".repeat(300)), json!(i)))
            .collect();
        let json =
            event_json(&changed(Value::Object(wide), json!([[[]]])), "7-1", 8 << 10).unwrap();
        assert!(json.truncated && json.text.len() <= 8 << 10);
        let value: Value = serde_json::from_str(&json.text).unwrap();
        assert_eq!(value["truncated"], true);
        assert_eq!(value["server_id"], "files");
    }

    proptest! {
        #[test]
        fn any_text_parses_back_to_itself_or_is_marked(text in any::<String>(), repeat in 0usize..4000) {
            let long = text.repeat(repeat.min(200_000 / text.len().max(1)));
            let json = event_json(&changed(json!(long), json!(text)), "7-1", 16 << 10).unwrap();
            prop_assert!(json.text.len() <= 16 << 10);
            prop_assert!(!json.text.chars().any(is_hidden));
            let value: Value = serde_json::from_str(&json.text).unwrap();
            if json.truncated {
                prop_assert_eq!(&value["truncated"], true);
            } else {
                prop_assert_eq!(value["changes"][0]["previous"].as_str(), Some(long.as_str()));
            }
        }
    }
}
