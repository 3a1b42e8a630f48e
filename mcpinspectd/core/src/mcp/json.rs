//! The few ways in which this crate reads JSON text without building a tree of it.
//!
//! Serde's derived readers refuse an object that repeats a member, and a string with a lone surrogate.
//! Clients accept both: in JavaScript and Python the last member wins and the surrogate stays unchanged.
//! An observer that refuses what a client accepts has a blind spot that an attacker can use, so reading
//! here follows the clients.
//!
//! Nor do they bound what a message costs in memory. Here nothing is copied except a bounded start of a
//! string with escapes, and a tree is built within a [`Budget`].

use std::borrow::Cow;
use std::iter;

use serde::Deserialize as _;
use serde::de::value::{BorrowedStrDeserializer, Error, MapDeserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::budget::Budget;
use super::cursor::{Container, Cursor};
use super::string::{self, Pieces};

pub use super::cursor::{Flaw, string_end};

/// Most bytes of a string with escapes to decode; about as many of a key. Nothing that is read
/// for its meaning is longer.
pub const MAX_DECODED: usize = 64 * 1024;

/// Most bytes of a key with escapes to decode: no key of interest is longer.
const MAX_KEY: usize = 256;

/// Reads the members of the object that `text` is, in order.
///
/// `classify` maps each decoded key to a value by which `visit` distinguishes keys. For a key with escapes
/// it gets the first 256 bytes; a lone surrogate is U+FFFD. Does not recurse: depth costs no stack.
///
/// # Errors
/// If `text` is not a JSON object. Members before the mistake have been visited by then.
pub fn members<'a, K>(
    text: &'a str,
    classify: impl Fn(&[u8]) -> K,
    mut visit: impl FnMut(K, &'a RawValue),
) -> Result<(), Flaw> {
    let mut cursor = Cursor::new(text.as_bytes());
    let mut decoded = String::new();
    let mut more = cursor.enter(Container::Object)?;
    while more {
        let key = cursor.check_key()?;
        let inner = &text[key.inner];
        let key = match key.escaped {
            false => classify(inner.as_bytes()),
            true => {
                decoded.clear();
                string::decode(inner, MAX_KEY, &mut decoded);
                classify(decoded.as_bytes())
            }
        };
        visit(key, value_at(text, &mut cursor)?);
        more = cursor.more(Container::Object)?;
    }
    cursor.end()
}

/// Reads the elements of the array that `text` is, in order, while `visit` returns true.
///
/// # Errors
/// If `text`, up to where it was read, is not a JSON array.
pub fn elements<'a>(
    text: &'a str,
    mut visit: impl FnMut(&'a RawValue) -> bool,
) -> Result<(), Flaw> {
    let mut cursor = Cursor::new(text.as_bytes());
    let mut more = cursor.enter(Container::Array)?;
    while more {
        if !visit(value_at(text, &mut cursor)?) {
            return Ok(());
        }
        more = cursor.more(Container::Array)?;
    }
    cursor.end()
}

/// Checks that `text` is a JSON value.
///
/// # Errors
/// If it is not.
pub fn check(text: &str) -> Result<(), Flaw> {
    let mut cursor = Cursor::new(text.as_bytes());
    cursor.check()?;
    cursor.end()
}

/// The value that starts here; `text` is everything that the cursor is in.
fn value_at<'a>(text: &'a str, cursor: &mut Cursor<'_>) -> Result<&'a RawValue, Flaw> {
    cursor.peek()?;
    let start = cursor.at();
    cursor.check()?;
    let value = text.get(start..cursor.at()).ok_or(Flaw::Invalid)?;
    raw(value).ok_or(Flaw::Invalid)
}

/// `text` as what it was just found to be: the text of a JSON value, without blanks around it.
///
/// `serde_json` has no function for that except to parse the text again. Its own deserializer hands over a
/// borrowed value as a map of one member of this name, and so can anyone. Should that ever change,
/// the text is parsed.
fn raw(text: &str) -> Option<&RawValue> {
    const NAME: &str = "$serde_json::private::RawValue";
    let member = (
        BorrowedStrDeserializer::<Error>::new(NAME),
        BorrowedStrDeserializer::<Error>::new(text),
    );
    <&RawValue>::deserialize(MapDeserializer::<_, Error>::new(iter::once(member)))
        .ok()
        .or_else(|| serde_json::from_str(text).ok())
}

/// The string in `raw`, borrowed if it has no escapes; otherwise its first [`MAX_DECODED`] bytes,
/// decoded. A lone surrogate becomes U+FFFD.
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = inner(raw)?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    let mut decoded = String::with_capacity(inner.len().min(MAX_DECODED + 4));
    string::decode(inner, MAX_DECODED, &mut decoded);
    Some(Cow::Owned(decoded))
}

/// The pieces of the string in `raw`, however long it is.
pub fn pieces(raw: &RawValue) -> Option<Pieces<'_>> {
    inner(raw).map(Pieces::of)
}

/// The text between the quotes of the string in `raw`.
fn inner(raw: &RawValue) -> Option<&str> {
    raw.get().strip_prefix('"')?.strip_suffix('"')
}

/// Whether `raw` is `true`.
pub fn is_true(raw: &RawValue) -> bool {
    raw.get() == "true"
}

/// `raw`, unless it is `null`: peers omit an absent member or write `null`.
pub fn present(raw: &RawValue) -> Option<&RawValue> {
    (raw.get() != "null").then_some(raw)
}

/// The start of `text`: at most `max` bytes, cut between characters.
pub fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// `raw` as a tree. A lone surrogate becomes U+FFFD; of repeated members the last one wins.
///
/// `None` if the tree would be deeper than 128 levels, contains a number beyond a double's range, or takes
/// more memory than `budget` has left.
pub fn value(raw: &RawValue, budget: &mut Budget) -> Option<Value> {
    if !budget.take(tree_size(raw.get())) {
        return None;
    }
    serde_json::from_str(raw.get())
        .or_else(|_| serde_json::from_str(&without_lone_surrogates(raw.get())))
        .ok()
}

/// Bytes of memory that a tree of valid JSON text takes at most, roughly.
pub fn tree_size(text: &str) -> usize {
    /// An object keeps its members in nodes for eleven.
    const OBJECT: usize = 680;
    /// Such a node may be half empty, and a key is an allocation of its own.
    const MEMBER: usize = 160;
    /// An array has room for twice its elements at worst, and for four at least.
    const ELEMENT: usize = 2 * size_of::<Value>();
    const ARRAY: usize = 4 * size_of::<Value>();
    const STRING: usize = 16;
    let bytes = text.as_bytes();
    let (mut size, mut at) = (size_of::<Value>(), 0);
    while let Some(byte) = bytes.get(at) {
        size += match byte {
            b'"' => {
                let end = string_end(bytes, at + 1).map_or(bytes.len(), |(end, _)| end);
                let length = end - at;
                at = end;
                STRING + length
            }
            b'{' => OBJECT,
            b'[' => ARRAY,
            b':' => MEMBER,
            b',' => ELEMENT,
            _ => 0,
        };
        at += 1;
    }
    size
}

/// Replaces lone surrogates in valid JSON text with `\ufffd`.
fn without_lone_surrogates(text: &str) -> String {
    let mut fixed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        fixed.push_str(before);
        let unit = surrogate(escape);
        let length = match unit {
            Some(0xd800..=0xdbff)
                if matches!(escape.get(6..).and_then(surrogate), Some(0xdc00..=0xdfff)) =>
            {
                12
            }
            Some(_) => {
                fixed.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            None => 2,
        };
        // An escape is ASCII, but the text after a stray backslash need not be.
        let length = if escape.is_char_boundary(length) {
            length
        } else {
            1
        };
        fixed.push_str(escape.get(..length).unwrap_or(escape));
        rest = escape.get(length..).unwrap_or_default();
    }
    fixed.push_str(rest);
    fixed
}

/// The surrogate that `text` starts with as an escape.
fn surrogate(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    (0xd800..=0xdfff).contains(&unit).then_some(unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    fn keys(text: &str) -> Result<Vec<(String, String)>, Flaw> {
        let mut found = Vec::new();
        members(
            text,
            |key| String::from_utf8_lossy(key).into_owned(),
            |key, value| found.push((key, value.get().to_owned())),
        )?;
        Ok(found)
    }

    #[test]
    fn members_come_in_order_with_repeats_and_odd_keys() {
        let found = keys(r#" {"a":1, "\u0062" : [2], "a":null, "\ud800":{}} "#).unwrap();
        let expected = [("a", "1"), ("b", "[2]"), ("a", "null"), ("\u{fffd}", "{}")];
        assert_eq!(
            found,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        for wrong in ["[]", "1", "{}x", "{\"a\"}", "{1:2}", "{\"a\":1,}"] {
            assert_eq!(keys(wrong), Err(Flaw::Invalid), "{wrong}");
        }
        for beginning in ["", "{", "{\"a\":", "{\"a\":1,"] {
            assert_eq!(keys(beginning), Err(Flaw::Truncated), "{beginning}");
        }
    }

    #[test]
    fn a_value_is_handed_over_without_parsing_it_again() {
        let member = |text| {
            let name = BorrowedStrDeserializer::<Error>::new("$serde_json::private::RawValue");
            let text = BorrowedStrDeserializer::<Error>::new(text);
            MapDeserializer::<_, Error>::new(iter::once((name, text)))
        };
        assert_eq!(
            <&RawValue>::deserialize(member("[1]")).unwrap().get(),
            "[1]"
        );
    }

    #[test]
    fn what_is_decoded_is_bounded() {
        let long = format!("\"\\u0061{}\"", "b".repeat(2 * MAX_DECODED));
        assert_eq!(string(raw(&long)).unwrap().len(), MAX_DECODED);
        let long = format!("\"{}\"", "\\u20ac".repeat(2 * MAX_DECODED));
        assert!(string(raw(&long)).unwrap().len() < MAX_DECODED + 4);
        let key = format!("{{\"\\u0061{}\":1}}", "b".repeat(1000));
        assert_eq!(keys(&key).unwrap()[0].0.len(), 256);
    }

    #[test]
    fn a_tree_needs_a_budget() {
        let text = format!("[{}0]", "{},".repeat(1000));
        assert!(value(raw(&text), &mut Budget::of(1 << 20)).is_some());
        let mut budget = Budget::of(100 << 10);
        assert!(value(raw(&text), &mut budget).is_none() && budget.is_spent());
    }

    #[test]
    fn elements_until_told_to_stop() {
        let mut seen = Vec::new();
        let visit = |text: &'static str, limit: usize, seen: &mut Vec<&'static str>| {
            elements(text, |element| {
                seen.push(element.get());
                seen.len() < limit
            })
            .is_ok()
        };
        assert!(visit("[1, {\"a\":2} ,\"x\"]", 9, &mut seen));
        assert_eq!(seen, ["1", "{\"a\":2}", "\"x\""]);
        seen.clear();
        assert!(visit("[1,2,3]", 2, &mut seen));
        assert_eq!(seen, ["1", "2"]);
        assert!(!visit("{}", 9, &mut Vec::new()));
        assert!(!visit("[1", 9, &mut Vec::new()));
        assert!(visit("[]", 9, &mut Vec::new()));
    }

    #[test]
    fn strings() {
        assert_eq!(string(raw(r#""plain""#)), Some(Cow::Borrowed("plain")));
        assert_eq!(string(raw(r#""a\n\u00e9\ud83d\ude00""#)).unwrap(), "a\né😀");
        assert!(
            string(raw(r#""x\ud800y""#))
                .unwrap()
                .starts_with("x\u{fffd}")
        );
        assert_eq!(string(raw("1")), None);
        assert_eq!(string(raw("null")), None);
    }

    #[test]
    fn trees_accept_what_clients_accept() {
        let value = |text| value(raw(text), &mut Budget::of(1 << 20));
        assert_eq!(value(r#"{"a":1,"a":2}"#).unwrap()["a"], 2);
        assert_eq!(
            value(r#"{"a":"\ud83d\ude00\udc00\\\ud800x"}"#).unwrap()["a"],
            "😀\u{fffd}\\\u{fffd}x"
        );
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(value(&deep), None);
    }

    proptest! {
        #[test]
        fn only_lone_surrogates_are_touched(text in ".*") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(without_lone_surrogates(&json), json);
            // Not only on valid text.
            without_lone_surrogates(&text);
        }
    }
}
