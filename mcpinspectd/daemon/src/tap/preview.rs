//! What a message is about, in a few words.
//!
//! A person watching the wire wants the arguments of a call and the start of its result, not the
//! envelope. Content is both secret and hostile, so it is redacted, escaped and cut, in this order.

use mcpinspect_core::text::{escape, redact};
use mcpinspect_engine::{MessageKind, MessageSeen};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// How much of a value is examined, in bytes; far less of it is shown.
const LOOKED_AT: usize = 16 * 1024;
/// Longest message that is parsed for its preview.
const PARSED: usize = 4 * 1024 * 1024;

/// The parts of a message, unparsed.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// One line of at most `max_chars` characters; empty if the message has nothing to show.
pub(super) fn preview(message: &MessageSeen<'_>, max_chars: usize) -> String {
    let text = words(message).unwrap_or_else(|| beginning(message.bytes));
    escape::printable(&redact::secrets(&text), max_chars)
}

fn words(message: &MessageSeen<'_>) -> Option<String> {
    if matches!(message.head.kind, MessageKind::Batch | MessageKind::Invalid)
        || message.bytes.len() > PARSED
    {
        return None;
    }
    let Parts {
        params,
        result,
        error,
    } = serde_json::from_slice(message.bytes).ok()?;
    if let Some(error) = error {
        return Some(error_words(error));
    }
    if let Some(result) = result {
        return Some(result_words(result, message.exchange.reply_to()));
    }
    Some(
        params
            .map(|params| params_words(params, message.head.method.as_deref()))
            .unwrap_or_default(),
    )
}

fn params_words(params: &RawValue, method: Option<&str>) -> String {
    match method {
        Some("tools/call" | "prompts/get") => {
            #[derive(Deserialize)]
            struct Call<'a> {
                #[serde(borrow)]
                arguments: Option<&'a RawValue>,
            }
            match serde_json::from_str(params.get()) {
                Ok(Call { arguments }) => arguments.map(value_words).unwrap_or_default(),
                Err(_) => value_words(params),
            }
        }
        Some("initialize") => info_words(params, "clientInfo"),
        Some("notifications/message") => {
            member(params, "data").map_or_else(|| value_words(params), |data| value_words(&data))
        }
        Some("resources/read") => {
            member(params, "uri").map_or_else(|| value_words(params), |uri| value_words(&uri))
        }
        _ => without_meta(params),
    }
}

fn result_words(result: &RawValue, reply_to: Option<&str>) -> String {
    let list = match reply_to {
        Some("initialize" | "server/discover") => return info_words(result, "serverInfo"),
        Some("tools/list") => "tools",
        Some("prompts/list") => "prompts",
        Some("resources/list") => "resources",
        Some("tools/call") => return content_words(result),
        _ => return without_meta(result),
    };
    names(result, list).unwrap_or_else(|| without_meta(result))
}

/// `3 tools: read, write, list`
fn names(result: &RawValue, list: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct NamedItem {
        name: Option<String>,
    }
    let items: Vec<NamedItem> = serde_json::from_str(member(result, list)?.get()).ok()?;
    let names: Vec<&str> = items
        .iter()
        .take(64)
        .filter_map(|item| item.name.as_deref())
        .collect();
    let noun = if items.len() == 1 {
        list.trim_end_matches('s')
    } else {
        list
    };
    Some(format!("{} {noun}: {}", items.len(), names.join(", ")))
}

/// The text of a tool's result.
fn content_words(result: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Item {
        r#type: Option<String>,
        text: Option<String>,
        uri: Option<String>,
    }
    let items = member(result, "content")
        .and_then(|content| serde_json::from_str::<Vec<Item>>(content.get()).ok());
    match items.as_deref() {
        None | Some([]) => without_meta(result),
        Some(items) => {
            let words: Vec<String> = items
                .iter()
                .take(8)
                .map(
                    |Item { r#type, text, uri }| match text.as_ref().or(uri.as_ref()) {
                        Some(text) => cut(text).to_owned(),
                        None => format!("[{}]", r#type.as_deref().unwrap_or("content")),
                    },
                )
                .collect();
            words.join(" ")
        }
    }
}

fn error_words(error: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Failure {
        code: Option<i64>,
        message: Option<String>,
    }
    match serde_json::from_str(error.get()) {
        Ok(Failure {
            code: Some(code),
            message,
        }) => {
            format!("{code} {}", cut(message.as_deref().unwrap_or_default()))
        }
        _ => value_words(error),
    }
}

/// `name 1.2, protocol 2025-06-18`
fn info_words(params: &RawValue, key: &str) -> String {
    #[derive(Deserialize)]
    struct Info {
        name: Option<String>,
        version: Option<String>,
    }
    let mut words = Vec::new();
    if let Some(Info { name, version }) =
        member(params, key).and_then(|info| serde_json::from_str(info.get()).ok())
    {
        let both = [name, version].map(Option::unwrap_or_default);
        words.push(both.join(" ").trim().to_owned());
    }
    if let Some(Ok(version)) =
        member(params, "protocolVersion").map(|v| serde_json::from_str::<String>(v.get()))
    {
        words.push(format!("protocol {version}"));
    }
    words.join(", ")
}

/// A value with its letters decoded, not as JSON wrote them: redaction sees what `\u0067` hides, and a
/// lone string has no quotation marks.
fn value_words(value: &RawValue) -> String {
    let text = value.get();
    if text.len() > LOOKED_AT {
        return cut(text).to_owned();
    }
    match serde_json::from_str(text) {
        Ok(Value::String(text)) => text,
        Ok(value) => value.to_string(),
        Err(_) => text.to_owned(),
    }
}

/// Parameters or a result without the members meant for machines.
fn without_meta(value: &RawValue) -> String {
    if value.get().len() > LOOKED_AT {
        return cut(value.get()).to_owned();
    }
    match serde_json::from_str(value.get()) {
        Ok(Value::Object(mut members)) => {
            members.remove("_meta");
            if members.is_empty() {
                String::new()
            } else {
                Value::Object(members).to_string()
            }
        }
        _ => value_words(value),
    }
}

fn member(object: &RawValue, key: &str) -> Option<Box<RawValue>> {
    let mut members: std::collections::HashMap<std::borrow::Cow<'_, str>, &RawValue> =
        serde_json::from_str(object.get()).ok()?;
    members.remove(key).map(ToOwned::to_owned)
}

/// The start of a text, for redaction and escaping.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOOKED_AT)]
}

/// The start of a frame that could not be parsed.
fn beginning(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(LOOKED_AT)]).into_owned()
}
