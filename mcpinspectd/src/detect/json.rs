//! JSON values, read the way lenient clients read them.
//!
//! A strict reader gives up on a lone surrogate, on a number beyond the range of a double, and on
//! nesting deeper than its limit. A client that accepts all of that shows the text to its model, so
//! whatever detection refused to read would go unseen. Where strict reading fails, the text is
//! therefore read again leniently, and everything below the first few levels becomes one string with
//! all the strings in it: their places are lost, their words are not.
//!
//! [`Json`] borrows from the text every string without escapes, because most of the cost of reading a
//! definition is memory for its strings.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::mcp::json;

/// The deepest nesting that is read strictly; the limit of `serde_json`.
pub const MAX_DEPTH: usize = 128;

/// Levels that keep their structure in text that is nested deeper. Each costs another pass over it.
const LENIENT_LEVELS: usize = 12;

/// A JSON value that borrows its strings from the text, except for those with escapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json<'a> {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string, decoded.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Json<'a>>),
    /// An object.
    Object(Members<'a>),
}

/// The members of an object, sorted by key. If a key is repeated, the last member counts, as it does
/// for most readers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Json<'a> {
    /// Reads `raw`.
    pub fn from_raw(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get())
            .ok()
            .or_else(|| json::value(raw).map(Self::from))
            .unwrap_or_else(|| lenient(raw, LENIENT_LEVELS))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn parse(text: &'a [u8]) -> serde_json::Result<Self> {
        let strict = match std::str::from_utf8(text) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(text),
        };
        strict.or_else(|_| serde_json::from_slice::<&RawValue>(text).map(Self::from_raw))
    }

    /// The member `key`, if this is an object that has one.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// The string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The elements, if this is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The members, if this is an object.
    pub fn as_object(&self) -> Option<&Members<'a>> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }
}

impl<'a> Members<'a> {
    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(key))
    }

    /// The member `key`.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    /// Removes the member `key`.
    pub fn remove(&mut self, key: &str) -> Option<Json<'a>> {
        self.find(key).ok().map(|at| self.0.remove(at).1)
    }

    /// Whether a member `key` exists.
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_ok()
    }

    /// All members, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// All keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(key, _)| key)
    }

    /// The values of all members, sorted by key.
    pub fn values(&self) -> impl Iterator<Item = &Json<'a>> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<'a> FromIterator<(Cow<'a, str>, Json<'a>)> for Members<'a> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, Json<'a>)>>(members: I) -> Self {
        let mut members: Vec<_> = members.into_iter().collect();
        // The sort is stable: among equal keys, the last one stays last.
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        members.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        Self(members)
    }
}

impl<'a> IntoIterator for Members<'a> {
    type Item = (Cow<'a, str>, Json<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> From<&'a Value> for Json<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::String(Cow::Borrowed(text)),
            Value::Array(elements) => Self::Array(elements.iter().map(Self::from).collect()),
            Value::Object(members) => {
                let members = members.iter();
                Self::Object(
                    members
                        .map(|(k, v)| (Cow::Borrowed(&**k), v.into()))
                        .collect(),
                )
            }
        }
    }
}

impl From<Value> for Json<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(Cow::Owned(text)),
            Value::Array(elements) => Self::Array(elements.into_iter().map(Self::from).collect()),
            Value::Object(members) => {
                let members = members.into_iter();
                Self::Object(members.map(|(k, v)| (Cow::Owned(k), v.into())).collect())
            }
        }
    }
}

impl From<Json<'_>> for Value {
    fn from(json: Json<'_>) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(number) => Self::Number(number),
            Json::String(text) => Self::String(text.into_owned()),
            Json::Array(elements) => elements.into_iter().map(Self::from).collect(),
            Json::Object(members) => {
                let members = members.into_iter();
                Self::Object(members.map(|(k, v)| (k.into_owned(), v.into())).collect())
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Json::String(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Json::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = elements.next_element()? {
            all.push(element);
        }
        Ok(Json::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some((Key(key), value)) = members.next_entry()? {
            all.push((key, value));
        }
        Ok(Json::Object(all.into_iter().collect()))
    }
}

/// A key, borrowed if it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }

        deserializer.deserialize_str(KeyVisitor)
    }
}

/// Reads `raw` leniently, with the structure of its first `depth` levels.
fn lenient(raw: &RawValue, depth: usize) -> Json<'_> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => Json::String(strings(text).into()),
        Some(b'{') => {
            let mut fields = Vec::new();
            let key = |key: &[u8]| Cow::Owned(String::from_utf8_lossy(key).into_owned());
            // The text was already read as part of its message, so it is a complete object.
            let _ = json::members(text, key, |key, value| {
                fields.push((key, lenient(value, depth - 1)));
            });
            Json::Object(fields.into_iter().collect())
        }
        Some(b'[') => {
            let mut values = Vec::new();
            let _ = json::elements(text, |value| {
                values.push(lenient(value, depth - 1));
                true
            });
            Json::Array(values)
        }
        Some(b'"') => json::string(raw).map_or(Json::Null, Json::String),
        _ => serde_json::from_str(text).unwrap_or(Json::String(text.into())),
    }
}

/// All strings in valid JSON text, keys included, one per line.
fn strings(text: &str) -> String {
    let mut all = String::new();
    let mut at = 0;
    while let Some(start) = memchr::memchr(b'"', &text.as_bytes()[at..]).map(|found| at + found) {
        let Some((end, _)) = json::string_end(text.as_bytes(), start + 1) else {
            break;
        };
        let string = text.get(start..=end);
        if let Some(string) = string.and_then(|text| serde_json::from_str::<&RawValue>(text).ok())
            && let Some(string) = json::string(string)
        {
            all.push_str(&string);
            all.push('\n');
        }
        at = end + 1;
    }
    all
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Value {
        Json::from_raw(&RawValue::from_string(text.to_owned()).unwrap()).into()
    }

    #[test]
    fn the_last_member_of_a_repeated_key_counts() {
        let text = r#"{"b":0,"a":1,"\u0061":2,"a":3,"c":[{"x":1,"x":2}]}"#;
        let json: Json<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(
            Value::from(json.clone()),
            serde_json::from_str::<Value>(text).unwrap()
        );
        assert_eq!(json.get("a"), Some(&Json::Number(3.into())));
        let keys: Vec<&str> = json.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["a", "b", "c"]);
    }

    #[test]
    fn text_that_a_client_accepts_is_read() {
        for text in [r#"{"a":[1,"b",null]}"#, "\"x\"", "7"] {
            assert_eq!(value(text), serde_json::from_str::<Value>(text).unwrap());
        }
        assert_eq!(value(r#"{"a":"x\ud800y"}"#), json!({"a": "x\u{fffd}y"}));
        assert_eq!(
            value(r#"{"a":1e999,"b":"c"}"#),
            json!({"a": "1e999", "b": "c"})
        );
    }

    #[test]
    fn text_that_is_too_deep_keeps_its_words() {
        for levels in [LENIENT_LEVELS, MAX_DEPTH - 1, MAX_DEPTH, 5000] {
            let text = format!(
                r#"{{"top":"x","deep":{}{{"key \"k\"":"a\nb\\"}}{}}}"#,
                "[".repeat(levels),
                "]".repeat(levels)
            );
            let value = value(&text);
            assert_eq!(value["top"], "x");
            let shown = value.to_string();
            assert!(
                shown.contains(r#"key \"k\""#) && shown.contains(r#"a\nb\\"#),
                "{levels}"
            );
        }
    }
}
