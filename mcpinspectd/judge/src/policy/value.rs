//! Tests of a value at a path in parameters or in a result.

use std::borrow::Cow;

use mcpinspect_core::json_path::Pattern;
use mcpinspect_core::mcp::{json, string};
use serde_json::value::RawValue;

use super::text::TextTest;

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// At the parameters of a request or notification.
    Params,
    /// At the result of a response.
    Result,
}

/// A test of the values at a path. It holds if it holds for one of the places that the path leads to.
#[derive(Clone, Debug)]
pub(super) struct ValueTest {
    pub(super) root: Root,
    pub(super) path: Pattern,
    pub(super) wanted: Wanted,
}

/// What a value must be.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// Anything, as long as it exists.
    Present,
    /// A string for which this holds.
    Text(TextTest),
    /// One of these.
    Among(Vec<Scalar>),
}

/// A value that is not a container.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Text(String),
    Number(f64),
    Bool(bool),
}

impl Wanted {
    /// Whether `value` is what is wanted.
    pub(super) fn holds(&self, value: &RawValue) -> bool {
        match self {
            Self::Present => true,
            Self::Text(test) => whole_string(value).is_some_and(|text| test.holds(&text)),
            Self::Among(scalars) => scalars.iter().any(|scalar| scalar.is(value)),
        }
    }
}

impl Scalar {
    fn is(&self, value: &RawValue) -> bool {
        let text = value.get();
        match self {
            Self::Bool(wanted) => text == if *wanted { "true" } else { "false" },
            // As the receiver compares: 1, 1.0 and 1e0 are the same number.
            Self::Number(wanted) => text.parse::<f64>().is_ok_and(|number| number == *wanted),
            Self::Text(wanted) => {
                // Longer than every spelling of it.
                text.len() <= wanted.len().saturating_mul(6) + 2
                    && whole_string(value).is_some_and(|text| text == *wanted)
            }
        }
    }
}

/// The string that `value` is, decoded in full: what a rule asks about may be at its end.
pub(super) fn whole_string(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.len() < json::MAX_DECODED {
        return json::string(value);
    }
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    let mut decoded = String::with_capacity(inner.len());
    string::decode(inner, usize::MAX, &mut decoded);
    Some(Cow::Owned(decoded))
}
