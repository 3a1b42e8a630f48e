//! The few ways in which this crate reads JSON text without building a tree of it.
//!
//! Serde's derived readers refuse an object that repeats a member, and a string with a lone surrogate.
//! Clients accept both: in JavaScript and Python the last member wins and the surrogate stays as it is.
//! An observer that refuses what a client accepts has a blind spot that an attacker can use, so reading
//! here follows the clients.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Reads the members of the object that `text` is, in order.
///
/// `classify` maps each decoded key (UTF-8, or WTF-8 if it contains a lone surrogate) to a value by which
/// `visit` distinguishes keys. Does not recurse: depth costs no stack.
///
/// # Errors
/// If `text` is not a JSON object. Members before the mistake have been visited by then.
pub fn members<'a, K>(
    text: &'a str,
    classify: impl Fn(&[u8]) -> K,
    visit: impl FnMut(K, &'a RawValue),
) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_map(Members {
        classify,
        visit,
        key: PhantomData,
    })?;
    deserializer.end()
}

struct Members<C, V, K> {
    classify: C,
    visit: V,
    key: PhantomData<K>,
}

impl<'a, K, C: Fn(&[u8]) -> K, V: FnMut(K, &'a RawValue)> Visitor<'a> for Members<C, V, K> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Text(&self.classify))? {
            let value: &RawValue = map.next_value()?;
            (self.visit)(key, value);
        }
        Ok(())
    }
}

/// Passes a string's decoded bytes to a function.
struct Text<'f, F>(&'f F);

impl<'a, T, F: Fn(&[u8]) -> T> DeserializeSeed<'a> for Text<'_, F> {
    type Value = T;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<T, D::Error> {
        // As bytes: only so does a lone surrogate pass.
        deserializer.deserialize_bytes(self)
    }
}

impl<T, F: Fn(&[u8]) -> T> Visitor<'_> for Text<'_, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<T, E> {
        Ok((self.0)(bytes))
    }
}

/// Reads the elements of the array that `text` is, in order, while `visit` returns true.
///
/// # Errors
/// If `text` is not a JSON array, as far as it was read.
pub fn elements<'a>(
    text: &'a str,
    visit: impl FnMut(&'a RawValue) -> bool,
) -> serde_json::Result<()> {
    struct Elements<V>(V);

    impl<'a, V: FnMut(&'a RawValue) -> bool> Visitor<'a> for Elements<V> {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'a>>(mut self, mut sequence: A) -> Result<bool, A::Error> {
            while let Some(element) = sequence.next_element::<&RawValue>()? {
                if !(self.0)(element) {
                    return Err(A::Error::custom(STOPPED));
                }
            }
            Ok(true)
        }
    }

    let mut stopped = false;
    let mut visit = visit;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let end = deserializer.deserialize_seq(Elements(|element| {
        let go_on = visit(element);
        stopped = !go_on;
        go_on
    }));
    if stopped {
        return Ok(());
    }
    end?;
    deserializer.end()
}

/// Serde can leave an array early only with an error; no caller sees this one.
const STOPPED: &str = "stopped";

/// The end of the string whose inner text starts at `start`, behind the opening quote: the position of
/// the closing quote, and whether there is an escape in between. `None` if the text ends before.
///
/// Finds the end only: what is inside need not be valid. Every module that walks JSON text without a
/// parser uses this, so that all of them agree on where a string ends.
pub fn string_end(text: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start;
    let mut escaped = false;
    loop {
        let found = memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        at += found;
        if text[at] == b'"' {
            return Some((at, escaped));
        }
        escaped = true;
        // Whatever is escaped, it does not end the string.
        at += 2;
    }
}

/// The string that `raw` is, borrowed if it has no escapes. A lone surrogate becomes U+FFFD.
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    let decode = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    Text(&decode)
        .deserialize(&mut deserializer)
        .ok()
        .map(Cow::Owned)
}

/// Whether `raw` is `true`.
pub fn is_true(raw: &RawValue) -> bool {
    raw.get() == "true"
}

/// `raw`, unless it is `null`: peers omit an absent member or write `null`.
pub fn present(raw: &RawValue) -> Option<&RawValue> {
    (raw.get() != "null").then_some(raw)
}

/// The beginning of `text`: at most `max` bytes, cut between characters.
pub fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// `raw` as a tree. A lone surrogate becomes U+FFFD; of repeated members the last one wins.
///
/// `None` if the tree would be deeper than 128 levels or contains a number beyond a double's range.
pub fn value(raw: &RawValue) -> Option<Value> {
    serde_json::from_str(raw.get())
        .or_else(|_| serde_json::from_str(&without_lone_surrogates(raw.get())))
        .ok()
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
    #![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]
    use proptest::prelude::*;

    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    fn keys(text: &str) -> Result<Vec<(String, String)>, ()> {
        let mut found = Vec::new();
        members(
            text,
            |key| String::from_utf8_lossy(key).into_owned(),
            |key, value| found.push((key, value.get().to_owned())),
        )
        .map_err(|_| ())?;
        Ok(found)
    }

    #[test]
    fn members_come_in_order_with_repeats_and_odd_keys() {
        let found = keys(r#" {"a":1, "\u0062" : [2], "a":null, "\ud800":{}} "#).unwrap();
        let expected = [
            ("a", "1"),
            ("b", "[2]"),
            ("a", "null"),
            ("\u{fffd}\u{fffd}\u{fffd}", "{}"),
        ];
        assert_eq!(
            found,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        for wrong in ["", "[]", "1", "{", "{}x", "{\"a\"}", "{1:2}"] {
            assert_eq!(keys(wrong), Err(()), "{wrong}");
        }
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
    fn ends_of_strings() {
        for (text, end) in [
            (r#""""#, Some((1, false))),
            (r#""a" "b""#, Some((2, false))),
            (r#""a\"b\\" x"#, Some((7, true))),
            (r#""open"#, None),
            (r#""open\"#, None),
            (r#""open\""#, None),
            ("\"", None),
        ] {
            assert_eq!(string_end(text.as_bytes(), 1), end, "{text}");
        }
        assert_eq!(string_end(b"", 1), None);
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
        assert_eq!(value(raw(r#"{"a":1,"a":2}"#)).unwrap()["a"], 2);
        assert_eq!(
            value(raw(r#"{"a":"\ud83d\ude00\udc00\\\ud800x"}"#)).unwrap()["a"],
            "😀\u{fffd}\\\u{fffd}x"
        );
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(value(raw(&deep)), None);
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
