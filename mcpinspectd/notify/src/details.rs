//! The evidence behind an alert, as lines for a notification.

use mcpinspect_core::text::escape::printable;
use serde_json::Value;

/// Longest line, in characters.
const LINE: usize = 240;
/// Most lines.
const LINES: usize = 8;

/// Lists the findings in an event's JSON, line by line, escaped and bounded.
pub fn lines(event: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for change in list(event, "changes") {
        let (field, previous, new) = (text(change, "field"), &change["previous"], &change["new"]);
        lines.push(printable(
            &format!("{field} was: {}", plain(previous)),
            LINE,
        ));
        lines.push(printable(&format!("{field} is now: {}", plain(new)), LINE));
    }
    let one = event.get("detection");
    for found in list(event, "detections").chain(one) {
        let (explanation, field) = (text(found, "explanation"), text(found, "field"));
        lines.push(printable(&format!("{explanation} (in {field})"), LINE));
        for matched in list(found, "matches").take(2) {
            lines.push(printable(&format!("“{}”", text(matched, "context")), LINE));
        }
    }
    if lines.is_empty() {
        lines.push("There are no further details.".to_owned());
    }
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines.push("…".to_owned());
    }
    lines
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("?")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "absent".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_and_findings_become_lines() {
        let event = json!({
            "changes": [{"field": "description", "previous": null, "new": "a\u{202e}b"}],
            "detections": [{"explanation": "Reads /etc/shadow", "field": "description",
                "matches": [{"context": "first read /etc/shadow"}]}],
        });
        insta::assert_snapshot!(lines(&event).join("\n"), @r"
        description was: absent
        description is now: a\u{202e}b
        Reads /etc/shadow (in description)
        “first read /etc/shadow”
        ");
    }

    #[test]
    fn odd_events_are_lines_too() {
        for odd in [
            json!(null),
            json!([]),
            json!({"detection": 5}),
            json!({"changes": {"a": 1}}),
        ] {
            assert!(!lines(&odd).is_empty());
        }
        let many = json!({"changes": vec![json!({"field": "x".repeat(10_000)}); 100]});
        let lines = lines(&many);
        assert_eq!(lines.len(), LINES + 1);
        assert!(lines.iter().all(|line| line.chars().count() <= LINE));
    }
}
