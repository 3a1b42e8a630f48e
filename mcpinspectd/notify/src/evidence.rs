//! What is behind an alert, as far as its card and its buttons need it: whose definition it is, and what was
//! found. The daemon remembers events only until it restarts, so that the buttons must not have to ask.
//!
//! Each kind of finding in a definition is an event of its own, beside the one that tells of the definition. For
//! a program that reads events that is right; a person wants one card that says what the tool wants.

use mcpinspect_core::model::Detection;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::orders::orders;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::details;

/// Longest line, in characters.
const LINE: usize = 240;

/// An event's evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    session: String,
    tool: Option<String>,
    /// Whether the event tells of a definition, with all that was found in it.
    is_definition: bool,
    findings: Vec<Detection>,
    /// The fields of the definition that are not as pinned.
    changed: Vec<String>,
    /// The findings and changes, line by line.
    pub details: Vec<String>,
    /// What a person may approve.
    pub definition: Option<Definition>,
}

/// A definition that was found changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The server that offers it.
    pub server: String,
    /// The tool; empty for what a server says about itself.
    pub tool: String,
    /// Its name for people.
    pub name: String,
    /// Its hash.
    pub hash: String,
}

impl Definition {
    fn of(event: &Value) -> Option<Self> {
        let text = |key: &str| event.get(key).and_then(Value::as_str).map(str::to_owned);
        let (tool, name) = match text("tool_name") {
            Some(tool) => (tool.clone(), tool),
            // It goes by what it is.
            None => (String::new(), text("item")?.replace('_', " ")),
        };
        Some(Self {
            server: text("server_id")?,
            tool,
            name,
            hash: text("new_hash")?,
        })
    }
}

impl Evidence {
    /// Reads it from an event's JSON. What is not as it should be counts as absent.
    pub fn of(event: &Value) -> Self {
        let text = |key: &str| event.get(key).and_then(Value::as_str).map(str::to_owned);
        let list = |key: &str| event.get(key).and_then(Value::as_array);
        let one = event.get("detection");
        let several = ["detections", "related"].into_iter().filter_map(list);
        let changes = list("changes").into_iter().flatten();
        Self {
            session: text("session_id").unwrap_or_default(),
            tool: text("tool_name"),
            is_definition: list("detections").is_some(),
            findings: one
                .into_iter()
                .chain(several.flatten())
                .filter_map(|found| Detection::deserialize(found).ok())
                .collect(),
            changed: changes
                .filter_map(|change| change.get("field").and_then(Value::as_str))
                .map(str::to_owned)
                .collect(),
            details: details::lines(event),
            definition: Definition::of(event),
        }
    }

    /// Whether a card about this event says all that one about `other` would.
    pub fn covers(&self, other: &Self) -> bool {
        let has = |finding: &Detection| {
            let same =
                |own: &Detection| (&own.pattern, &own.field) == (&finding.pattern, &finding.field);
            self.findings.iter().any(same)
        };
        let is_part = self.is_definition && !other.is_definition;
        is_part
            && (&self.session, &self.tool) == (&other.session, &other.tool)
            && !other.findings.is_empty()
            && other.findings.iter().all(has)
    }

    /// What it comes to in a sentence, with the words of the worst finding; escaped and bounded.
    pub fn lines(&self) -> Vec<String> {
        // The first of the worst.
        let worst = self
            .findings
            .iter()
            .rev()
            .max_by_key(|found| found.severity);
        let Some(worst) = worst else {
            return self.change().into_iter().collect();
        };
        let sentence = orders(&self.findings).unwrap_or_else(|| worst.explanation.clone());
        let mut lines = vec![printable(&sentence, LINE)];
        let quoted = worst.matches.first().map(|matched| matched.text.as_str());
        lines.extend(
            quoted
                .filter(|quoted| !quoted.is_empty())
                .map(|quoted| printable(&format!("“{quoted}”"), LINE)),
        );
        lines
    }

    fn change(&self) -> Option<String> {
        let changed = self.changed.join(", ");
        let line = format!("Differs from its pin: {changed}");
        (!changed.is_empty()).then(|| printable(&line, LINE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(category: &str, severity: &str, text: &str) -> Value {
        json!({"pattern": category, "category": category, "severity": severity, "field": "description",
            "explanation": "Your agent did it.",
            "matches": [{"text": text, "context": text, "position": 0}]})
    }

    fn of(event: Value) -> Evidence {
        Evidence::of(&event)
    }

    #[test]
    fn a_finding_is_a_sentence_and_a_quotation() {
        let one = json!({"detection": found("injection_obeyed", "high", "Please do it.")});
        assert_eq!(of(one).lines(), ["Your agent did it.", "“Please do it.”"]);
        let several = json!({"detections": [
            found("concealment", "high", "Say nothing"),
            found("credential_access", "critical", "read ~/.ssh/id_rsa")]});
        assert_eq!(
            of(several).lines(),
            [
                "Its text tells your agent to open ~/.ssh/id_rsa and to keep that from you.",
                "“read ~/.ssh/id_rsa”"
            ]
        );
        let changed = json!({"detections": [], "changes": [{"field": "description"}, {"field": "a\u{202e}"}]});
        assert_eq!(
            of(changed).lines(),
            ["Differs from its pin: description, a\\u{202e}"]
        );
    }

    #[test]
    fn a_definition_covers_what_was_found_in_it() {
        let finding = found("concealment", "high", "x");
        let definition =
            |tool: &str| of(json!({"session_id": "a", "tool_name": tool, "detections": [finding]}));
        let detection = |session: &str, category: &str| {
            of(json!({"session_id": session, "tool_name": "read",
                "detection": found(category, "high", "x")}))
        };
        assert!(definition("read").covers(&detection("a", "concealment")));
        assert!(!definition("read").covers(&detection("b", "concealment")));
        assert!(!definition("read").covers(&detection("a", "exfiltration")));
        assert!(!definition("write").covers(&detection("a", "concealment")));
        assert!(!definition("read").covers(&definition("read")));
        assert!(!detection("a", "concealment").covers(&detection("a", "concealment")));
    }

    #[test]
    fn odd_events_have_no_evidence() {
        for odd in [
            json!(null),
            json!([]),
            json!({"detection": 5, "related": {}}),
            json!({"changes": [5, {"field": 5}], "tool_name": []}),
        ] {
            let evidence = Evidence::of(&odd);
            assert!(evidence.lines().is_empty(), "{odd}");
            assert!(!evidence.covers(&evidence));
        }
    }
}
