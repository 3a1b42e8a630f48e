//! Arguments of a tool: typed and checked by its schema, before anything is sent.
//!
//! On a command line everything is text, so the schema says whether `5` is a number. Where it allows only a
//! string, text stays unchanged; where it says nothing, what is JSON is JSON. Schemas that refer to
//! other documents cannot be used: nothing is fetched.

use std::collections::BTreeSet;

use mcpinspect_core::text::escape::printable;
use serde_json::{Map, Value, json};

use crate::failure::{Category, Failure};
use crate::replay::compare::type_of;

/// Most violations to report.
const REPORTED: usize = 20;

/// Longest report of one, in characters.
const REPORT: usize = 300;

/// How many references to follow on the way to a type.
const DEPTH: usize = 16;

/// `text` as a value of the type that `schema` specifies for the argument `name`.
pub fn typed(schema: &Value, name: &str, text: &str) -> Value {
    let mut types = BTreeSet::new();
    for property in properties(schema, schema, name, DEPTH) {
        collect(schema, property, &mut types, DEPTH);
    }
    let as_text = || Value::String(text.to_owned());
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return as_text();
    };
    let fits = match &value {
        Value::Null => types.contains("null"),
        Value::Bool(_) => types.contains("boolean"),
        Value::Number(number) => {
            let is_integer = number.is_i64() || number.is_u64();
            types.contains("number")
                || (types.contains("integer")
                    && (is_integer || number.as_f64().is_some_and(|number| number.fract() == 0.0)))
        }
        Value::String(_) => false,
        Value::Array(_) => types.contains("array"),
        Value::Object(_) => types.contains("object"),
    };
    match fits || types.is_empty() {
        true => value,
        false => as_text(),
    }
}

/// The schemas of an argument, including those behind references and combinations.
fn properties<'a>(root: &'a Value, schema: &'a Value, name: &str, depth: usize) -> Vec<&'a Value> {
    let own = schema
        .get("properties")
        .and_then(|properties| properties.get(name));
    let mut found: Vec<&Value> = own.into_iter().collect();
    if depth > 0 {
        for part in parts(root, schema) {
            found.extend(properties(root, part, name, depth - 1));
        }
    }
    if found.is_empty() {
        found.extend(schema.get("additionalProperties"));
    }
    found
}

/// The types that a schema allows.
fn collect<'a>(root: &'a Value, schema: &'a Value, types: &mut BTreeSet<&'a str>, depth: usize) {
    match schema.get("type") {
        Some(Value::String(name)) => {
            types.insert(name);
        }
        Some(Value::Array(names)) => types.extend(names.iter().filter_map(Value::as_str)),
        _ => {}
    }
    let listed = schema.get("enum").and_then(Value::as_array);
    for value in listed.into_iter().flatten().chain(schema.get("const")) {
        types.insert(type_of(value));
    }
    if depth > 0 {
        for part in parts(root, schema) {
            collect(root, part, types, depth - 1);
        }
    }
}

/// The schemas that a schema is made of: what it refers to, and what it combines.
fn parts<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let target = reference.and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    let mut parts: Vec<&Value> = target.into_iter().collect();
    for name in ["anyOf", "oneOf", "allOf"] {
        let combined = schema.get(name).and_then(Value::as_array);
        parts.extend(combined.into_iter().flatten());
    }
    parts
}

/// Checks a value against a schema.
///
/// # Errors
/// The schema is invalid, or the value violates it: at each place, why.
pub fn violations(schema: &Value, value: &Value) -> Result<(), Violations> {
    let validator = jsonschema::validator_for(schema)
        .map_err(|error| Violations::Schema(printable(&error.to_string(), REPORT)))?;
    let found: Vec<(String, String)> = validator
        .iter_errors(value)
        .take(REPORTED)
        .map(|error| {
            let pointer = error.instance_path().to_string();
            (pointer, printable(&error.to_string(), REPORT))
        })
        .collect();
    match found.is_empty() {
        true => Ok(()),
        false => Err(Violations::Value(found)),
    }
}

/// Why a value was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violations {
    /// The schema itself cannot be used.
    Schema(String),
    /// Places, as JSON pointers, and what is wrong there.
    Value(Vec<(String, String)>),
}

/// Checks the arguments of a tool.
///
/// # Errors
/// Which of them is wrong, or that the schema is.
pub fn check(tool: &str, schema: &Value, arguments: &Map<String, Value>) -> Result<(), Failure> {
    let arguments = Value::Object(arguments.clone());
    violations(schema, &arguments).map_err(|violations| match violations {
        Violations::Schema(error) => Failure::new(
            Category::Validation,
            "invalid_schema",
            format!("the inputSchema of `{tool}` is invalid: {error}"),
        ),
        Violations::Value(found) => {
            let words = |(pointer, what): &(String, String)| match pointer.as_str() {
                "" => what.clone(),
                pointer => format!("{pointer}: {what}"),
            };
            let words: Vec<String> = found.iter().map(words).collect();
            let errors: Vec<Value> = found
                .iter()
                .map(|(pointer, what)| json!({ "path": pointer, "message": what }))
                .collect();
            Failure::new(
                Category::Validation,
                "invalid_arguments",
                format!(
                    "the arguments do not match the inputSchema of `{tool}`: {}",
                    words.join("; ")
                ),
            )
            .with(json!({ "tool": tool, "errors": errors }))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_says_what_text_is() {
        let schema = json!({
            "$defs": {"count": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}},
            "properties": {
                "text": {"type": "string"}, "number": {"type": "number"}, "count": {"$ref": "#/$defs/count"},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "flag": {"type": ["boolean", "string"]},
                "list": {"type": "array"}, "loop": {"$ref": "#/$defs/loop"}, "any": {}, "level": {"enum": [1, 2]},
            },
            "allOf": [{"properties": {"deep": {"type": "object"}}}],
        });
        for (name, text, value) in [
            ("text", "5", json!("5")),
            ("text", "\"5\"", json!("\"5\"")),
            ("number", "5", json!(5)),
            ("number", "5.5", json!(5.5)),
            ("number", "five", json!("five")),
            ("count", "5", json!(5)),
            ("count", "5.5", json!("5.5")),
            ("count", "true", json!("true")),
            ("maybe", "null", json!(null)),
            ("maybe", "1", json!("1")),
            ("flag", "true", json!(true)),
            ("flag", "maybe", json!("maybe")),
            ("list", "[1]", json!([1])),
            ("list", "1", json!("1")),
            ("deep", "{}", json!({})),
            ("level", "2", json!(2)),
            ("loop", "1", json!(1)),
            ("any", "1", json!(1)),
            ("any", "one", json!("one")),
            ("unknown", "1", json!(1)),
        ] {
            assert_eq!(typed(&schema, name, text), value, "{name}={text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let schema =
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "number"}}});
        let arguments = |value: Value| value.as_object().cloned().unwrap();
        check("t", &schema, &arguments(json!({"a": 1}))).unwrap();
        let failure = check("t", &schema, &arguments(json!({}))).unwrap_err();
        assert_eq!(failure.category, Category::Validation);
        assert!(
            failure.message.contains("\"a\" is a required property"),
            "{}",
            failure.message
        );
        let failure = check("t", &schema, &arguments(json!({"a": "x"}))).unwrap_err();
        assert_eq!(failure.details["errors"][0]["path"], "/a");
    }

    #[test]
    fn a_schema_that_needs_another_document_is_not_used() {
        for schema in [
            json!({"$ref": "https://example.org/schema.json"}),
            json!({"$ref": "file:///etc/hostname"}),
            json!({"type": 5}),
        ] {
            let failure = check("t", &schema, &Map::new()).unwrap_err();
            assert_eq!(
                failure.code,
                crate::failure::Code::Name("invalid_schema"),
                "{schema}"
            );
        }
    }
}
