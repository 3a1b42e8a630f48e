//! Checks JSON lines against the schemas that the manual publishes.
//!
//! A schema that no one checks is wrong after a month, so every event and every line of a tap that
//! the tests produce goes through this module. It implements just the part of JSON Schema 2020-12
//! that the two schemas use, and refuses a schema that uses more; a complete validator would take
//! longer to compile than the daemon. It is stricter than a consumer should be: a property that the
//! schema does not describe is an error, because that means that the manual does not describe it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Keywords that describe and do not constrain.
const ANNOTATIONS: [&str; 6] = [
    "$schema",
    "$id",
    "$defs",
    "title",
    "description",
    "examples",
];

/// The schema of the daemon's events.
pub static EVENTS: LazyLock<Value> =
    LazyLock::new(|| parse(include_str!("../../mcpinspectd/docs/events.schema.json")));

/// The schema of the lines that `mcpinspectd tap --format jsonl` writes.
pub static TAP: LazyLock<Value> =
    LazyLock::new(|| parse(include_str!("../../mcpinspectd/docs/tap.schema.json")));

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("a schema is not JSON: {error}"))
}

/// Checks one event of the daemon.
///
/// # Errors
/// Every way in which it differs from the schema.
pub fn event(value: &Value) -> Result<(), String> {
    check(&EVENTS, value)
}

/// Checks one line of a tap.
///
/// # Errors
/// Every way in which it differs from the schema.
pub fn tap_line(value: &Value) -> Result<(), String> {
    check(&TAP, value)
}

fn check(root: &'static Value, value: &Value) -> Result<(), String> {
    let mut outcome = Outcome::default();
    // `oneOf` over all types would name the mistakes of each. The type says which one is meant.
    let kind = value["type"].as_str().unwrap_or_default();
    let meant = root["oneOf"].as_array().into_iter().flatten();
    let meant = meant.filter_map(|option| option["$ref"].as_str());
    let mut meant = meant.filter(|reference| reference.rsplit('/').next() == Some(kind));
    match meant.next() {
        None => outcome.complain("", format!("the type `{kind}` is not in the schema")),
        Some(reference) => {
            let (root, schema) = resolve(root, reference);
            outcome.walk(root, schema, value, "");
        }
    }
    for name in root["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap_or_default()).is_none() {
            outcome.complain("", format!("{name} is missing"));
        }
    }
    match outcome.complaints.is_empty() {
        true => Ok(()),
        false => Err(format!("{} in {value}", outcome.complaints.join("; "))),
    }
}

/// The schema that a reference names, with the document that it is in.
fn resolve(root: &'static Value, reference: &str) -> (&'static Value, &'static Value) {
    let (document, pointer) = reference.split_once('#').unwrap_or((reference, ""));
    let root = match document {
        "" => root,
        "urn:mcpinspectd:events" => &EVENTS,
        other => panic!("there is no schema {other}"),
    };
    let schema = root.pointer(pointer);
    (
        root,
        schema.unwrap_or_else(|| panic!("{reference} leads nowhere")),
    )
}

/// The results of a check so far.
#[derive(Default)]
struct Outcome {
    complaints: Vec<String>,
}

impl Outcome {
    fn complain(&mut self, place: &str, what: String) {
        let place = if place.is_empty() { "/" } else { place };
        self.complaints.push(format!("{place}: {what}"));
    }

    /// Checks `value`, and that the schema describes each of its properties.
    fn walk(&mut self, root: &'static Value, schema: &'static Value, value: &Value, place: &str) {
        let known = self.apply(root, schema, value, place);
        // A schema without any property describes free content, such as what a server claims.
        if let (Some(known), Value::Object(members)) = (known, value) {
            for name in members.keys().filter(|name| !known.contains(name.as_str())) {
                self.complain(place, format!("`{name}` is not in the schema"));
            }
        }
    }

    /// Checks `value`; returns the properties that the schema describes, if it describes any.
    fn apply(
        &mut self,
        root: &'static Value,
        schema: &'static Value,
        value: &Value,
        place: &str,
    ) -> Option<BTreeSet<&'static str>> {
        let keywords = schema
            .as_object()
            .unwrap_or_else(|| panic!("{schema} is not a schema"));
        let mut known: Option<BTreeSet<&'static str>> = None;
        let mut learn = |more: Option<BTreeSet<&'static str>>| {
            if let Some(more) = more {
                known.get_or_insert_default().extend(more);
            }
        };
        for (keyword, wanted) in keywords {
            match keyword.as_str() {
                "$ref" => {
                    let (root, schema) = resolve(root, wanted.as_str().unwrap_or_default());
                    learn(self.apply(root, schema, value, place));
                }
                "allOf" => {
                    for schema in list(wanted) {
                        learn(self.apply(root, schema, value, place));
                    }
                }
                "oneOf" => {
                    let fits = |schema: &&'static Value| holds(root, schema, value);
                    let fitting: Vec<_> = list(wanted).iter().filter(fits).collect();
                    match fitting.as_slice() {
                        [schema] => learn(self.apply(root, schema, value, place)),
                        _ => self.complain(
                            place,
                            format!("{value} fits {} of the alternatives", fitting.len()),
                        ),
                    }
                }
                "if" => {
                    if holds(root, wanted, value)
                        && let Some(then) = keywords.get("then")
                    {
                        learn(self.apply(root, then, value, place));
                    }
                }
                "then" => {}
                "not" => {
                    if holds(root, wanted, value) {
                        self.complain(place, format!("{value} is excluded"));
                    }
                }
                "properties" => learn(Some(self.properties(root, wanted, value, place))),
                "items" => {
                    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.walk(root, wanted, item, &format!("{place}/{at}"));
                    }
                }
                constraint => {
                    if let Err(what) = constrain(constraint, wanted, value) {
                        self.complain(place, what);
                    }
                }
            }
        }
        known
    }

    fn properties(
        &mut self,
        root: &'static Value,
        properties: &'static Value,
        value: &Value,
        place: &str,
    ) -> BTreeSet<&'static str> {
        let mut known = BTreeSet::new();
        for (name, schema) in properties.as_object().into_iter().flatten() {
            known.insert(name.as_str());
            if let Some(member) = value.get(name) {
                self.walk(root, schema, member, &format!("{place}/{name}"));
            }
        }
        known
    }
}

/// Whether `value` matches the schema.
fn holds(root: &'static Value, schema: &'static Value, value: &Value) -> bool {
    let mut outcome = Outcome::default();
    outcome.apply(root, schema, value, "");
    outcome.complaints.is_empty()
}

fn list(value: &'static Value) -> &'static [Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The keywords that check a single value.
fn constrain(keyword: &str, wanted: &Value, value: &Value) -> Result<(), String> {
    let verdict = match keyword {
        "type" => match wanted {
            Value::Array(types) => types.iter().any(|one| is_of_type(one, value)),
            one => is_of_type(one, value),
        },
        "const" => value == wanted,
        "enum" => list_of(wanted).contains(value),
        "required" => {
            let missing = list_of(wanted)
                .iter()
                .filter_map(Value::as_str)
                .find(|name| value.is_object() && value.get(*name).is_none());
            match missing {
                Some(name) => return Err(format!("`{name}` is missing")),
                None => true,
            }
        }
        "minimum" => number(value).is_none_or(|value| Some(value) >= number(wanted)),
        "maximum" => number(value).is_none_or(|value| Some(value) <= number(wanted)),
        "pattern" => value.as_str().is_none_or(|text| {
            let pattern = wanted.as_str().unwrap_or_default();
            Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
        }),
        "format" => value
            .as_str()
            .is_none_or(|text| wanted == "date-time" && is_moment(text)),
        "contentEncoding" => true,
        other if ANNOTATIONS.contains(&other) => true,
        other => return Err(format!("this module does not know the keyword `{other}`")),
    };
    match verdict {
        true => Ok(()),
        false => Err(format!("{value} violates {keyword}: {wanted}")),
    }
}

fn list_of(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> Option<i128> {
    let unsigned = value.as_u64().map(i128::from);
    unsigned.or_else(|| value.as_i64().map(i128::from))
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    }
}

/// `2026-01-31T08:53:20.000000Z`
fn is_moment(text: &str) -> bool {
    static MOMENT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$").ok());
    MOMENT
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn started() -> Value {
        json!({
            "type": "tap_ready", "timestamp": "2026-01-31T08:53:20.000000Z", "version": "1", "pid": 7,
        })
    }

    #[test]
    fn a_line_that_fits_passes() {
        assert_eq!(tap_line(&started()), Ok(()));
    }

    #[test]
    fn each_kind_of_mistake_is_named() {
        for (change, complaint) in [
            (json!({"pid": -1}), "minimum"),
            (json!({"pid": "7"}), "type"),
            (json!({"timestamp": "yesterday"}), "format"),
            (json!({"colour": "red"}), "`colour` is not in the schema"),
            (json!({"type": "tap_over"}), "`tap_over`"),
        ] {
            let mut line = started();
            for (name, value) in change.as_object().into_iter().flatten() {
                line[name] = value.clone();
            }
            let said = tap_line(&line);
            assert!(
                said.as_ref().is_err_and(|said| said.contains(complaint)),
                "{said:?}"
            );
        }
        let mut line = started();
        line.as_object_mut().map(|line| line.remove("version"));
        assert!(tap_line(&line).is_err_and(|said| said.contains("`version` is missing")));
    }

    #[test]
    fn an_alternative_is_found_and_its_properties_are_checked() {
        let party = json!({
            "pid": 1, "start_time": 2, "exe": "/x", "command": [], "uid": 0, "cgroup": "/",
            "unit": null, "parents": [],
        });
        let mut event_value = json!({
            "type": "mcp_session_started", "event_id": "1f-2",
            "timestamp": "2026-01-31T08:53:20.000000Z", "session_id": "s", "server_id": "files",
            "server_type": "stdio", "server_pid": null, "fingerprint": "ab",
            "name_source": "binary", "url": null, "server": party, "client": null, "joined_midstream": false,
        });
        assert_eq!(event(&event_value), Ok(()));
        event_value["server"]["shoe_size"] = json!(43);
        assert!(event(&event_value).is_err_and(|said| said.contains("shoe_size")));
    }
}
