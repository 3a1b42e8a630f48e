//! Messages as values, and values as text.

use crate::detect::json::{self, Json, Reading};
use crate::mcp::{Message, Outcome};

/// Most bytes of a value's strings that are searched for secrets and private values.
const TEXT_LIMIT: usize = 256 * 1024;

/// The parts of a message that are judged, as one value.
pub(super) fn message_value<'a>(message: &'a Message<'_>) -> Option<Reading<'a>> {
    let (key, raw) = match message {
        Message::Request(_) | Message::Notification(_) => ("params", message.params()?),
        Message::Response(response) => match response.outcome {
            Outcome::Result(raw) => ("result", raw),
            Outcome::Error(raw) => ("error", raw),
        },
    };
    let reading = Reading::of(raw);
    let method = message
        .method()
        .map(|method| ("method", Json::String(method.into())));
    let members = method.into_iter().chain([(key, reading.value)]);
    Some(Reading {
        value: Json::Object(members.map(|(key, value)| (key.into(), value)).collect()),
        ..reading
    })
}

/// All strings and numbers of a value, one per line, up to a limit.
pub(super) fn text_of(value: &Json<'_>) -> String {
    fn collect(value: &Json<'_>, depth: usize, out: &mut String) {
        if depth > json::MAX_DEPTH || out.len() >= TEXT_LIMIT {
            return;
        }
        match value {
            Json::String(text) => {
                out.push_str(&crate::text::bound(text, TEXT_LIMIT - out.len()));
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
