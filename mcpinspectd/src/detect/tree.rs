//! JSON text as a tree, whatever its writer did to have it not become one.
//!
//! A tree has a depth, so reading one has a limit, and a lone surrogate or a number beyond a double
//! stops a strict reader. A client that skips over all of that shows the text to its model, and what
//! detection refuses to read there, it does not see. So where reading as a tree fails, the text is
//! read again leniently, and what lies deeper than a few levels comes as one string with all strings
//! of it: its places are lost, its words are not.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::mcp::json;

/// Deepest nesting of a tree, as `serde_json` has it.
pub const DEPTH: usize = 128;

/// Levels that are kept where the text is deeper. Each costs one more pass over the text.
const KEPT: usize = 12;

/// The text of a line as a tree.
///
/// # Errors
/// Where it is no JSON.
pub fn read(text: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(text).or_else(|_| serde_json::from_slice::<&RawValue>(text).map(of))
}

/// `raw` as a tree.
pub fn of(raw: &RawValue) -> Value {
    json::value(raw).unwrap_or_else(|| lenient(raw, KEPT))
}

fn lenient(raw: &RawValue, depth: usize) -> Value {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => Value::String(strings(text)),
        Some(b'{') => {
            let mut fields = Map::new();
            let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
            // The text was read with its message, so it is an object to its end.
            let _ = json::members(text, key, |key, value| {
                fields.insert(key, lenient(value, depth - 1));
            });
            Value::Object(fields)
        }
        Some(b'[') => {
            let mut values = Vec::new();
            let _ = json::elements(text, |value| {
                values.push(lenient(value, depth - 1));
                true
            });
            Value::Array(values)
        }
        Some(b'"') => json::string(raw).map_or(Value::Null, |text| text.into()),
        _ => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    }
}

/// All strings of valid JSON text, keys too, one a line.
fn strings(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut all = String::new();
    let mut at = 0;
    while let Some(start) = memchr::memchr(b'"', &bytes[at..]).map(|found| at + found) {
        let mut end = start + 1;
        while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(end..).unwrap_or_default()) {
            end += found;
            if bytes[end] == b'"' {
                break;
            }
            end += 2;
        }
        let string = text.get(start..=end.min(bytes.len() - 1));
        if let Some(string) = string.and_then(|text| serde_json::from_str::<&RawValue>(text).ok())
            && let Some(string) = json::string(string)
        {
            all.push_str(&string);
            all.push('\n');
        }
        at = (end + 1).min(bytes.len());
    }
    all
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]
    use serde_json::json;

    use super::*;

    fn tree(text: &str) -> Value {
        of(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn what_can_be_a_tree_is_one() {
        for text in [r#"{"a":[1,"b",null]}"#, "\"x\"", "7"] {
            assert_eq!(tree(text), serde_json::from_str::<Value>(text).unwrap());
        }
        assert_eq!(tree(r#"{"a":"x\ud800y"}"#), json!({"a": "x\u{fffd}y"}));
        assert_eq!(
            tree(r#"{"a":1e999,"b":"c"}"#),
            json!({"a": "1e999", "b": "c"})
        );
    }

    #[test]
    fn what_is_too_deep_keeps_its_words() {
        for levels in [KEPT, DEPTH - 1, DEPTH, 5000] {
            let text = format!(
                r#"{{"top":"x","deep":{}{{"key \"k\"":"a\nb\\"}}{}}}"#,
                "[".repeat(levels),
                "]".repeat(levels)
            );
            let tree = tree(&text);
            assert_eq!(tree["top"], "x");
            let shown = tree.to_string();
            assert!(
                shown.contains(r#"key \"k\""#) && shown.contains(r#"a\nb\\"#),
                "{levels}"
            );
        }
    }
}
