//! JSON text as a tree, whatever its writer did to have it not become one.
//!
//! A tree has a depth, so reading one has a limit, and a lone surrogate or a number beyond a double
//! stops a strict reader. A client that skips over all of that shows the text to its model, and what
//! detection refuses to read there, it does not see. So where reading as a tree fails, the text is
//! read again leniently, and what lies deeper than a few levels comes as one string with all strings
//! of it: its places are lost, its words are not.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::mcp::json;

/// Deepest nesting of a tree, as `serde_json` has it.
pub const DEPTH: usize = 128;

/// Levels that are kept where the text is deeper. Each costs one more pass over the text.
const KEPT: usize = 12;

/// A JSON value that borrows its strings from the text, but for those with escapes: most of what
/// reading a definition costs is memory for its strings.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Tree<'a> {
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
    Array(Vec<Tree<'a>>),
    /// An object.
    Object(Members<'a>),
}

/// The members of an object by their keys. Of members of one key the last one counts, as it does
/// for most readers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members<'a>(Vec<(Cow<'a, str>, Tree<'a>)>);

impl<'a> Tree<'a> {
    /// The member `key`, where this is an object that has one.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// The string, where it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean, where it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The elements, where it is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The members, where it is an object.
    pub fn as_object(&self) -> Option<&Members<'a>> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }
}

impl<'a> Members<'a> {
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(key))
    }

    /// The member `key`.
    pub fn get(&self, key: &str) -> Option<&Tree<'a>> {
        self.place(key).ok().map(|place| &self.0[place].1)
    }

    /// Takes the member `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Tree<'a>> {
        self.place(key).ok().map(|place| self.0.remove(place).1)
    }

    /// Whether there is a member `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    /// All members, by their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tree<'a>)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// All keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(key, _)| key)
    }

    /// The values of all members, by their keys.
    pub fn values(&self) -> impl Iterator<Item = &Tree<'a>> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<'a> FromIterator<(Cow<'a, str>, Tree<'a>)> for Members<'a> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, Tree<'a>)>>(members: I) -> Self {
        let mut members: Vec<_> = members.into_iter().collect();
        // The sort is stable: of equal keys the last one stays last.
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
    type Item = (Cow<'a, str>, Tree<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> From<&'a Value> for Tree<'a> {
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

impl From<Value> for Tree<'_> {
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

impl From<Tree<'_>> for Value {
    fn from(tree: Tree<'_>) -> Self {
        match tree {
            Tree::Null => Self::Null,
            Tree::Bool(value) => Self::Bool(value),
            Tree::Number(number) => Self::Number(number),
            Tree::String(text) => Self::String(text.into_owned()),
            Tree::Array(elements) => elements.into_iter().map(Self::from).collect(),
            Tree::Object(members) => {
                let members = members.into_iter();
                Self::Object(members.map(|(k, v)| (k.into_owned(), v.into())).collect())
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Tree<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(value).map_or(Tree::Null, Tree::Number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Tree::String(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Tree::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = elements.next_element()? {
            all.push(element);
        }
        Ok(Tree::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some((Key(key), value)) = members.next_entry()? {
            all.push((key, value));
        }
        Ok(Tree::Object(all.into_iter().collect()))
    }
}

/// A key, borrowed where it has no escapes.
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

/// The text of a line as a tree.
///
/// # Errors
/// Where it is no JSON.
pub fn read(text: &[u8]) -> serde_json::Result<Tree<'_>> {
    let strict = match std::str::from_utf8(text) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(text),
    };
    strict.or_else(|_| serde_json::from_slice::<&RawValue>(text).map(of))
}

/// `raw` as a tree.
pub fn of(raw: &RawValue) -> Tree<'_> {
    serde_json::from_str(raw.get())
        .ok()
        .or_else(|| json::value(raw).map(Tree::from))
        .unwrap_or_else(|| lenient(raw, KEPT))
}

fn lenient(raw: &RawValue, depth: usize) -> Tree<'_> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => Tree::String(strings(text).into()),
        Some(b'{') => {
            let mut fields = Vec::new();
            let key = |key: &[u8]| Cow::Owned(String::from_utf8_lossy(key).into_owned());
            // The text was read with its message, so it is an object to its end.
            let _ = json::members(text, key, |key, value| {
                fields.push((key, lenient(value, depth - 1)));
            });
            Tree::Object(fields.into_iter().collect())
        }
        Some(b'[') => {
            let mut values = Vec::new();
            let _ = json::elements(text, |value| {
                values.push(lenient(value, depth - 1));
                true
            });
            Tree::Array(values)
        }
        Some(b'"') => json::string(raw).map_or(Tree::Null, Tree::String),
        _ => serde_json::from_str(text).unwrap_or(Tree::String(text.into())),
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
        of(&RawValue::from_string(text.to_owned()).unwrap()).into()
    }

    #[test]
    fn of_members_of_one_key_the_last_one_counts() {
        let text = r#"{"b":0,"a":1,"\u0061":2,"a":3,"c":[{"x":1,"x":2}]}"#;
        let tree: Tree<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(
            Value::from(tree.clone()),
            serde_json::from_str::<Value>(text).unwrap()
        );
        assert_eq!(tree.get("a"), Some(&Tree::Number(3.into())));
        let keys: Vec<&str> = tree.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["a", "b", "c"]);
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
