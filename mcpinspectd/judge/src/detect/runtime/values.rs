//! Messages as values, and values as text.

use mcpinspect_core::mcp::{Message, Outcome};
use serde_json::value::RawValue;

use crate::detect::json;
use crate::detect::json::{BoundedValue, Json};

/// Most bytes of a value's strings to search for secrets and private values.
const TEXT_LIMIT: usize = 256 * 1024;
/// Most bytes of a member's name in a path, and of a path to which a step is added.
const KEY: usize = 60;
const PATH: usize = 160;
/// What each text counts besides its length, so that there are not too many.
const EACH: usize = 32;

/// The parts of a message that are judged, as one value.
pub(super) fn message_value<'a>(message: &'a Message<'_>) -> Option<BoundedValue<'a>> {
    let (key, raw) = match message {
        Message::Request(_) | Message::Notification(_) => ("params", message.params()?),
        Message::Response(response) => match response.outcome {
            Outcome::Result(raw) => ("result", raw),
            Outcome::Error(raw) => ("error", raw),
        },
    };
    let reading = BoundedValue::of(raw);
    let method = message
        .method()
        .map(|method| ("method", Json::String(method.into())));
    let members = method.into_iter().chain([(key, reading.value)]);
    Some(BoundedValue {
        value: Json::Object(members.map(|(key, value)| (key.into(), value)).collect()),
        ..reading
    })
}

/// Each string of a value with its path, up to a limit. If a string is itself JSON, the strings in it.
pub(super) fn texts_of(value: &Json<'_>, path: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut room = TEXT_LIMIT;
    collect_texts(value, path, (0, true), &mut room, &mut out);
    out
}

fn collect_texts(
    value: &Json<'_>,
    path: &str,
    (depth, outside): (usize, bool),
    room: &mut usize,
    out: &mut Vec<(String, String)>,
) {
    if depth > json::MAX_DEPTH || *room == 0 {
        return;
    }
    match value {
        Json::String(text) => {
            let text = mcpinspect_core::text::bound(text, *room);
            let opens = outside && text.trim_start().starts_with(['{', '[']);
            match opens
                .then(|| serde_json::from_str::<&RawValue>(&text).ok())
                .flatten()
            {
                Some(inner) => {
                    collect_texts(&BoundedValue::of(inner).value, path, (0, false), room, out)
                }
                None => {
                    *room = room.saturating_sub(text.len() + EACH);
                    out.push((text.into_owned(), path.to_owned()));
                }
            }
        }
        Json::Number(number) => {
            *room = room.saturating_sub(EACH);
            out.push((number.to_string(), path.to_owned()));
        }
        Json::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                collect_texts(
                    value,
                    &longer(path, format_args!("[{index}]")),
                    (depth + 1, outside),
                    room,
                    out,
                );
            }
        }
        Json::Object(members) => {
            let binary = members.contains_key("mimeType");
            for (key, value) in members
                .iter()
                .filter(|(key, _)| !(binary && matches!(*key, "data" | "blob")))
            {
                let key = mcpinspect_core::text::bound(key, KEY);
                collect_texts(
                    value,
                    &longer(path, format_args!(".{key}")),
                    (depth + 1, outside),
                    room,
                    out,
                );
            }
        }
        _ => {}
    }
}

/// A path with one more step, unless it is long already.
fn longer(path: &str, step: std::fmt::Arguments<'_>) -> String {
    match path.len() < PATH {
        true => format!("{path}{step}"),
        false => path.to_owned(),
    }
}

/// All strings and numbers of a value, one per line, up to a limit.
pub(super) fn text_of(value: &Json<'_>) -> String {
    fn collect(value: &Json<'_>, depth: usize, out: &mut String) {
        if depth > json::MAX_DEPTH || out.len() >= TEXT_LIMIT {
            return;
        }
        match value {
            Json::String(text) => {
                out.push_str(&mcpinspect_core::text::bound(text, TEXT_LIMIT - out.len()));
                out.push('\n');
            }
            Json::Number(number) => {
                out.push_str(&number.to_string());
                out.push('\n');
            }
            Json::Array(values) => values
                .iter()
                .for_each(|value| collect(value, depth + 1, out)),
            Json::Object(fields) => {
                let binary = fields.contains_key("mimeType");
                fields
                    .iter()
                    .filter(|(key, _)| !(binary && matches!(*key, "data" | "blob")))
                    .for_each(|(_, value)| collect(value, depth + 1, out));
            }
            _ => {}
        }
    }
    let mut out = String::new();
    collect(value, 0, &mut out);
    out
}
