//! What must hold after a step.

use anyhow::{Context as _, bail};
use mcpinspect_core::json_path::Pattern;
use mcpinspect_core::text::bound;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema::{self, Violations};

/// Longest quotation of a value, in bytes.
const QUOTED: usize = 200;

/// An expectation as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    path: String,
    #[serde(default, deserialize_with = "present")]
    equals: Option<Value>,
    schema: Option<Value>,
}

/// `null` can be expected too.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// What must hold at every place that a path leads to; there must be at least one.
#[derive(Debug)]
pub struct Expectation {
    text: String,
    path: Pattern,
    equals: Option<Value>,
    schema: Option<Value>,
}

/// Whether it held.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedExpectation {
    /// The path, as written.
    pub path: String,
    /// Whether it held.
    pub passed: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A path into an envelope: `result.content[0].text`.
pub fn path(text: &str) -> anyhow::Result<Pattern> {
    // Paths begin with a method; here, only one message can be meant.
    let whole = match text.starts_with('[') {
        true => format!("*{text}"),
        false => format!("*.{text}"),
    };
    whole.parse().with_context(|| format!("`{text}`"))
}

impl Written {
    /// Checks that it can be evaluated.
    pub fn check(self) -> anyhow::Result<Expectation> {
        if self.equals.is_none() && self.schema.is_none() {
            bail!("an expectation needs `equals` or `schema`");
        }
        if let Some(schema) = &self.schema
            && let Err(Violations::Schema(error)) = schema::violations(schema, &Value::Null)
        {
            bail!("invalid schema: {error}");
        }
        Ok(Expectation {
            path: path(&self.path)?,
            text: self.path,
            equals: self.equals,
            schema: self.schema,
        })
    }
}

impl Expectation {
    /// Whether it holds in this envelope.
    pub fn hold(&self, envelope: &Value) -> CheckedExpectation {
        let found = self.path.find(envelope);
        let message = match found.is_empty() {
            true => Some("the path has no value".to_owned()),
            false => found.into_iter().find_map(|value| self.objection(value)),
        };
        CheckedExpectation {
            path: self.text.clone(),
            passed: message.is_none(),
            message,
        }
    }

    fn objection(&self, value: &Value) -> Option<String> {
        if let Some(expected) = &self.equals
            && !is_equal(expected, value)
        {
            let [expected, value] =
                [expected, value].map(|value| bound(&value.to_string(), QUOTED).into_owned());
            return Some(format!("expected {expected}, found {value}"));
        }
        match schema::violations(self.schema.as_ref()?, value) {
            Ok(()) => None,
            Err(Violations::Schema(error)) => Some(error),
            Err(Violations::Value(found)) => {
                found
                    .into_iter()
                    .next()
                    .map(|(pointer, what)| match pointer.as_str() {
                        "" => what,
                        pointer => format!("{pointer}: {what}"),
                    })
            }
        }
    }
}

/// Equality of JSON values, where 1 is 1.0.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| {
                    other.get(name).is_some_and(|other| is_equal(value, other))
                })
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_place_must_be_as_expected_and_there_must_be_one() {
        let envelope = json!({"result": {"list": [{"n": 1}, {"n": 2}], "none": null}});
        for (written, message) in [
            (json!({"path": "result.list[0].n", "equals": 1.0}), None),
            (
                json!({"path": "result.list[*].n", "schema": {"type": "integer"}}),
                None,
            ),
            (json!({"path": "result.none", "equals": null}), None),
            (
                json!({"path": "result.list[n=2]", "equals": {"n": 2}}),
                None,
            ),
            (
                json!({"path": "result.list[*].n", "equals": 1}),
                Some("expected 1, found 2"),
            ),
            (
                json!({"path": "result.gone", "equals": 1}),
                Some("the path has no value"),
            ),
            (
                json!({"path": "result.list[0]", "schema": {"properties": {"n": {"minimum": 2}}}}),
                Some("/n: 1 is less than the minimum of 2"),
            ),
        ] {
            let expectation = serde_json::from_value::<Written>(written.clone())
                .unwrap()
                .check()
                .unwrap();
            assert_eq!(
                expectation.hold(&envelope).message.as_deref(),
                message,
                "{written}"
            );
        }
    }
}
