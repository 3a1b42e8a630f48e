//! A JSON value that borrows from its text.
//!
//! Most of the cost of reading a definition is memory for its strings, so [`Json`] borrows every string
//! without escapes.

use std::borrow::Cow;

use serde_json::{Number, Value};

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

    /// Adds what is known about members that were not read, as the member `…`. It does not replace one that
    /// really has this name.
    pub(super) fn add_rest(&mut self, rest: Json<'a>) {
        const REST: &str = "…";
        let at = self.find(REST).unwrap_or_else(|at| at);
        self.0.reserve_exact(1);
        self.0.insert(at, (Cow::Borrowed(REST), rest));
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
