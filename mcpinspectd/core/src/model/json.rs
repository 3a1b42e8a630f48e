//! A JSON text that is passed on unchanged.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON text, unread. Two are equal if their texts are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText<'a>(Cow<'a, RawValue>);

impl<'a> JsonText<'a> {
    /// The text in serde_json's form.
    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    /// The same text, borrowing nothing.
    pub fn into_owned(self) -> JsonText<'static> {
        JsonText(Cow::Owned(self.0.into_owned()))
    }
}

impl<'a> From<&'a RawValue> for JsonText<'a> {
    fn from(text: &'a RawValue) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<Box<RawValue>> for JsonText<'_> {
    fn from(text: Box<RawValue>) -> Self {
        Self(Cow::Owned(text))
    }
}

impl PartialEq for JsonText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw().get() == other.raw().get()
    }
}

impl Eq for JsonText<'_> {}
