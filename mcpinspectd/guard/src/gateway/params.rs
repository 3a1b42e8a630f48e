//! Fields that repeat arguments of a call (`Mcp-Param-*`, from 2026-07-28 on), for intermediaries that do not
//! read bodies.
//!
//! The tool's schema says which argument a field repeats, but the gateway need not have seen it. So a field
//! has to say what one of the arguments says; the server knows which one, and compares that. If a rule
//! changes the argument, the field follows.

use hyper::header::{HeaderMap, HeaderName};
use mcpinspect_client::http_server::header_value;
use mcpinspect_core::http::decoded;
use serde_json::Value;

const PREFIX: &str = "mcp-param-";
/// Most such fields of a request.
const MAX_FIELDS: usize = 64;

/// The field that none of the arguments agrees with, or that appears twice.
pub fn disagreement(headers: &HeaderMap, body: &[u8]) -> Option<HeaderName> {
    let names = names(headers);
    let first = names.first()?;
    if names.len() > MAX_FIELDS {
        return Some(first.clone());
    }
    let arguments = arguments(body);
    let disagrees = |name: &&HeaderName| {
        let mut all = headers.get_all(*name).iter();
        let (Some(value), None) = (all.next(), all.next()) else {
            return true;
        };
        let text = String::from_utf8_lossy(value.as_bytes());
        let text = decoded(&text);
        !arguments.iter().any(|(_, argument)| says(argument, &text))
    };
    names.iter().find(disagrees).cloned()
}

/// Updates the fields to what the arguments say after a change.
pub fn follow(headers: &mut HeaderMap, before: &[u8], after: &[u8]) {
    let names = names(headers);
    if names.is_empty() {
        return;
    }
    let (before, after) = (arguments(before), arguments(after));
    for name in names {
        let Some(value) = headers.get(&name) else {
            continue;
        };
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let text = decoded(&text);
        let mut meant = before.iter().filter(|(_, argument)| says(argument, &text));
        // If several say the same, it is unknown which is meant; if they no longer agree, the server refuses.
        let news: Vec<Option<&Value>> = meant
            .by_ref()
            .map(|(path, _)| after.iter().find(|(other, _)| other == path))
            .map(|found| found.map(|(_, argument)| argument))
            .collect();
        let Some(first) = news
            .first()
            .filter(|first| news.iter().all(|new| new == *first))
        else {
            continue;
        };
        match first {
            Some(argument) if says(argument, &text) => {}
            Some(argument) => drop(headers.insert(name, header_value(&word(argument)))),
            None => drop(headers.remove(name)),
        }
    }
}

fn names(headers: &HeaderMap) -> Vec<HeaderName> {
    let names = headers.keys();
    let names = names.filter(|name| name.as_str().starts_with(PREFIX));
    names.cloned().collect()
}

/// The strings, numbers and booleans among the arguments of a call, with their paths.
fn arguments(body: &[u8]) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    if let Some(arguments) = message.pointer("/params/arguments") {
        collect(arguments, &mut String::new(), &mut found);
    }
    found
}

/// Descends only through objects: elements of lists have no fields.
fn collect(value: &Value, path: &mut String, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let length = path.len();
                path.push('/');
                path.push_str(&name.replace('~', "~0").replace('/', "~1"));
                collect(member, path, found);
                path.truncate(length);
            }
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) => {
            found.push((path.clone(), value.clone()));
        }
        Value::Null | Value::Array(_) => {}
    }
}

/// Whether a field's text stands for this argument.
fn says(argument: &Value, text: &str) -> bool {
    match argument {
        Value::String(argument) => argument == text,
        Value::Number(number) => {
            number.to_string() == text
                || number
                    .as_f64()
                    .is_some_and(|number| text.parse() == Ok(number))
        }
        other => word(other) == text,
    }
}

fn word(argument: &Value) -> String {
    match argument {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    const CALL: &str = r#"{"id":1,"method":"tools/call","params":{"name":"t","arguments":
        {"region":"eu","count":3,"deep":{"on":true,"what":"grün"},"list":["x"]}}}"#;

    #[test]
    fn a_field_says_what_an_argument_says() {
        for (value, agrees) in [
            ("eu", true),
            ("EU", false),
            ("3", true),
            ("3.0", true),
            ("true", true),
            ("=?base64?Z3LDvG4=?=", true),
            ("=?base64?ZXU=?=", true),
            ("us", false),
            ("x", false),
            ("", false),
        ] {
            let fields = headers(&[("mcp-param-a", value)]);
            let found = disagreement(&fields, CALL.as_bytes());
            assert_eq!(found.is_none(), agrees, "{value}");
        }
        let twice = headers(&[("mcp-param-a", "eu"), ("mcp-param-a", "eu")]);
        assert_eq!(
            disagreement(&twice, CALL.as_bytes()).unwrap(),
            "mcp-param-a"
        );
        let alone = headers(&[("mcp-param-a", "eu")]);
        assert!(disagreement(&alone, b"").is_some());
        assert!(disagreement(&headers(&[("accept", "x")]), b"").is_none());
    }

    #[test]
    fn fields_follow_what_a_rule_changes() {
        let mut fields = headers(&[
            ("mcp-param-a", "eu"),
            ("mcp-param-b", "3"),
            ("mcp-param-c", "true"),
        ]);
        let after = CALL
            .replace("\"eu\"", "\"grün\"")
            .replace("\"on\":true,", "");
        follow(&mut fields, CALL.as_bytes(), after.as_bytes());
        assert_eq!(fields["mcp-param-a"], "=?base64?Z3LDvG4=?=");
        assert_eq!(fields["mcp-param-b"], "3");
        assert!(!fields.contains_key("mcp-param-c"));
        // Two arguments say the same, and one changes.
        let two = r#"{"params":{"arguments":{"a":"x","b":"x"}}}"#;
        let one = r#"{"params":{"arguments":{"a":"x","b":"y"}}}"#;
        let mut fields = headers(&[("mcp-param-a", "x")]);
        follow(&mut fields, two.as_bytes(), one.as_bytes());
        assert_eq!(fields["mcp-param-a"], "x");
    }
}
