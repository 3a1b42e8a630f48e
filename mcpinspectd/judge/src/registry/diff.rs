//! What differs between two definitions, field by field.

use mcpinspect_core::mcp::{Budget, json};
use mcpinspect_core::model::FieldChange;
use mcpinspect_core::text::bound;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::canonical;

/// Memory for the tree of each side, in bytes: a definition of several hundred kilobytes.
const TREE: usize = 4 << 20;
/// Most bytes of a key to show in a path, and of the path before it.
const MAX_KEY: usize = 256;
const MAX_PATH: usize = 1024;
/// Most bytes of a whole text to show.
const MAX_TEXT: usize = 64 << 10;

/// Returns the fields in which `new` differs from `previous`, in the order of their paths.
///
/// Descends while both sides are objects, or arrays of equal length, so that a changed word in one
/// parameter's description appears as `inputSchema.properties.path.description` and not as a changed
/// schema. If the trees do not show the difference (a number beyond a double's precision, a
/// repeated member) or cannot be built (too deep, or too large), the starts of the whole texts
/// appear as the field `definition`.
pub fn diff(previous: &RawValue, new: &RawValue) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    let tree = |raw| json::value(raw, &mut Budget::of(TREE));
    let (before, after) = (tree(previous), tree(new));
    if let (Some(before), Some(after)) = (&before, &after) {
        compare("", before, after, &mut changes);
        changes.retain(|change| !is_volatile(&change.field));
    }
    drop((before, after));
    if changes.is_empty() && canonical::hash(previous) != canonical::hash(new) {
        changes.push(FieldChange {
            field: "definition".to_owned(),
            previous: bound(previous.get(), MAX_TEXT).into(),
            new: bound(new.get(), MAX_TEXT).into(),
        });
    }
    changes
}

fn is_volatile(field: &str) -> bool {
    // `child` quotes keys that contain dots or slashes.
    field
        .strip_prefix("_meta.")
        .or_else(|| field.strip_prefix("_meta[\"")?.strip_suffix("\"]"))
        .is_some_and(|key| canonical::is_volatile_meta(key.as_bytes()))
}

fn compare(path: &str, before: &Value, after: &Value, changes: &mut Vec<FieldChange>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => objects(path, before, after, changes),
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{index}]"), before, after, changes);
            }
        }
        (Value::Number(one), Value::Number(other))
            if one.as_f64() == other.as_f64() && one.is_f64() != other.is_f64() => {}
        _ if before == after => {}
        _ => changes.push(FieldChange {
            field: if path.is_empty() {
                "definition".to_owned()
            } else {
                path.to_owned()
            },
            previous: before.clone(),
            new: after.clone(),
        }),
    }
}

fn objects(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    changes: &mut Vec<FieldChange>,
) {
    for (key, value) in before {
        let path = child(path, key);
        match after.get(key) {
            Some(other) => compare(&path, value, other, changes),
            None => changes.push(FieldChange {
                field: path,
                previous: value.clone(),
                new: Value::Null,
            }),
        }
    }
    for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        changes.push(FieldChange {
            field: child(path, key),
            previous: Value::Null,
            new: value.clone(),
        });
    }
}

fn child(path: &str, key: &str) -> String {
    let (path, key) = (&*bound(path, MAX_PATH), &*bound(key, MAX_KEY));
    let plain = !key.is_empty()
        && key
            .chars()
            .all(|character| character.is_alphanumeric() || matches!(character, '_' | '-' | '$'));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        // Quoted, so that a key cannot imitate a path.
        (_, false) => format!("{path}[{}]", Value::from(key)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(previous: &str, new: &str) -> Vec<(String, Value, Value)> {
        let previous = serde_json::from_str(previous).unwrap();
        let new = serde_json::from_str(new).unwrap();
        diff(previous, new)
            .into_iter()
            .map(|change| (change.field, change.previous, change.new))
            .collect()
    }

    #[test]
    fn names_the_innermost_field() {
        let found = changes(
            r#"{"name":"a","description":"x","inputSchema":{"properties":{"p":{"description":"old"},"q":1},"required":["p"]}}"#,
            r#"{"name":"a","title":"t","inputSchema":{"required":["p","q"],"properties":{"q":1,"p":{"description":"new"}}}}"#,
        );
        assert_eq!(
            found,
            [
                ("description".to_owned(), json!("x"), json!(null)),
                (
                    "inputSchema.properties.p.description".to_owned(),
                    json!("old"),
                    json!("new")
                ),
                (
                    "inputSchema.required".to_owned(),
                    json!(["p"]),
                    json!(["p", "q"])
                ),
                ("title".to_owned(), json!(null), json!("t")),
            ]
        );
    }

    #[test]
    fn no_key_passes_for_a_path() {
        let found = changes(
            r#"{"a":{"b":1},"a.b":1,"":[{"x":1}]}"#,
            r#"{"a":{"b":1},"a.b":2,"":[{"x":2}]}"#,
        );
        let fields: Vec<&str> = found.iter().map(|change| change.0.as_str()).collect();
        assert_eq!(fields, [r#"[""][0].x"#, r#"["a.b"]"#]);
    }

    #[test]
    fn equal_trees_of_different_texts_are_shown_as_texts() {
        assert_eq!(changes(r#"{"a":1}"#, r#"{ "a" : 1.0 }"#), []);
        for (one, other) in [
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#""\ud800""#, r#""\ud801""#),
        ] {
            let found = changes(one, other);
            assert_eq!(found, [("definition".to_owned(), one.into(), other.into())]);
        }
        let deep = |core: &str| format!("{}{core}{}", "[".repeat(500), "]".repeat(500));
        assert_eq!(changes(&deep("1"), &deep("2")).len(), 1);
    }

    #[test]
    fn what_is_too_large_for_a_tree_is_shown_by_its_beginning() {
        let large = |last: u8| format!("{{\"a\":[{}{last}]}}", "{},".repeat(100_000));
        let found = changes(&large(1), &large(2));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "definition");
        assert!(found[0].1.as_str().unwrap().len() <= MAX_TEXT);
        assert_eq!(changes(&large(1), &large(1)), []);
        let deep = |last: u8| {
            format!(
                "{}{last}{}",
                format!("{{\"{}\":", "k".repeat(1000)).repeat(100),
                "}".repeat(100)
            )
        };
        assert!(changes(&deep(1), &deep(2))[0].0.len() <= MAX_PATH + MAX_KEY + 4);
    }

    #[test]
    fn volatile_members_are_not_shown() {
        assert_eq!(
            changes(
                r#"{"_meta":{"traceparent":"1"}}"#,
                r#"{"_meta":{"traceparent":"2","baggage":"x"}}"#
            ),
            []
        );
        let found = changes(
            r#"{"a":1,"_meta":{"io.modelcontextprotocol/related-task":1}}"#,
            r#"{"a":2,"_meta":{"io.modelcontextprotocol/related-task":2}}"#,
        );
        assert_eq!(found.len(), 1);
    }
}
