//! One text for all spellings of the same JSON value.
//!
//! Definitions are hashed in this form, so that key order, blanks and escapes do not matter and
//! everything else does. It is the JSON Canonicalization Scheme (RFC 8785) wherever that is defined.
//! An attacker is not bound to that domain; outside it, the scheme would refuse definitions or let
//! different ones collide. This form covers those too, with texts that RFC 8785 never produces:
//!
//! - whole numbers beyond ±2⁵³ and numbers beyond a double's range are kept as written
//!   (Python reads them exactly, and a schema's `maximum` may well be `18446744073709551615`);
//! - repeated members are all kept, in the order in which they were written;
//! - a lone surrogate is kept as its escape;
//! - text nested deeper than 128 levels is kept as written, without blanks.
//!
//! So two texts have the same canonical text only if they differ in nothing but member order, blanks
//! and spelling; and no input panics, recurses without limit or takes more than linear memory.

use std::cmp::Ordering;
use std::ops::Range;

use mcpinspect_core::mcp::cursor::{Container, Cursor};
use mcpinspect_core::mcp::string::{Piece, Pieces};
use mcpinspect_core::model::DefinitionHash;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// Text nested deeper than this is taken as written.
const MAX_DEPTH: usize = 128;

/// A definition longer than this, in bytes, is hashed as written, and its text is not kept. No model is
/// asked to read that much.
pub const MAX_TEXT: usize = 1 << 20;

/// Members of a definition's `_meta` that describe one message and not the tool: trace context and
/// links to other messages. They are left out.
const VOLATILE_META: [&[u8]; 6] = [
    b"traceparent",
    b"tracestate",
    b"baggage",
    b"progressToken",
    b"io.modelcontextprotocol/related-task",
    b"io.modelcontextprotocol/subscriptionId",
];

/// Returns whether this member of a definition's `_meta` is left out.
pub fn is_volatile_meta(key: &[u8]) -> bool {
    VOLATILE_META.contains(&key)
}

/// Returns the canonical text of a definition without the volatile members of its `_meta`, and
/// without `_meta` if it contains nothing else.
pub fn definition(raw: &RawValue) -> Vec<u8> {
    Writer::new(raw.get(), true).finish()
}

/// The hash of a definition: of its canonical text up to [`MAX_TEXT`] bytes, and of a longer one as
/// written. Sorting members takes memory for each of them, and a definition of 64 MiB may have
/// ten million. So no byte of such a definition goes unnoticed, and a changed order or spelling is
/// a change too.
pub fn hash(raw: &RawValue) -> DefinitionHash {
    /// No canonical text begins like this.
    const AS_WRITTEN: &[u8] = b"as written:";
    if raw.get().len() <= MAX_TEXT {
        return DefinitionHash::of(&definition(raw));
    }
    let mut hash = Sha256::new_with_prefix(AS_WRITTEN);
    hash.update(raw.get());
    DefinitionHash(hash.finalize().into())
}

/// Returns the canonical text of any value.
pub fn value(raw: &RawValue) -> Vec<u8> {
    Writer::new(raw.get(), false).finish()
}

/// Reads valid JSON text once and writes its canonical form.
struct Writer<'a> {
    text: &'a str,
    cursor: Cursor<'a>,
    out: Vec<u8>,
    /// Where the members of an object are sorted.
    scratch: Vec<u8>,
    leave_out_volatile: bool,
}

/// A member that was written to `out`.
struct Member<'a> {
    key: Key<'a>,
    written: Range<usize>,
}

/// A key as RFC 8785 sorts it: by UTF-16 units.
enum Key<'a> {
    /// All ASCII and free of escapes: its bytes are its units.
    Plain(&'a [u8]),
    Units(Vec<u16>),
}

impl Key<'_> {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Plain(one), Self::Plain(two)) => one.cmp(two),
            (Self::Units(one), Self::Units(two)) => one.cmp(two),
            (Self::Plain(one), Self::Units(two)) => one
                .iter()
                .map(|&byte| u16::from(byte))
                .cmp(two.iter().copied()),
            (Self::Units(one), Self::Plain(two)) => one
                .iter()
                .copied()
                .cmp(two.iter().map(|&byte| u16::from(byte))),
        }
    }

    fn is(&self, text: &[u8]) -> bool {
        match self {
            Self::Plain(bytes) => *bytes == text,
            Self::Units(units) => units
                .iter()
                .copied()
                .eq(text.iter().map(|&byte| u16::from(byte))),
        }
    }
}

impl<'a> Writer<'a> {
    fn new(text: &'a str, leave_out_volatile: bool) -> Self {
        Self {
            text,
            cursor: Cursor::new(text.as_bytes()),
            out: Vec::with_capacity(text.len()),
            scratch: Vec::new(),
            leave_out_volatile,
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.value(0, false);
        self.out
    }

    /// Writes the value that starts here.
    fn value(&mut self, depth: usize, in_meta: bool) {
        match self.cursor.peek() {
            Ok(b'{' | b'[') if depth >= MAX_DEPTH => self.as_written(),
            Ok(b'{') => self.object(depth, in_meta),
            Ok(b'[') => self.array(depth),
            Ok(b'"') => {
                let string = self.string();
                write_string(string, &mut self.out);
            }
            _ => self.scalar(),
        }
    }

    fn array(&mut self, depth: usize) {
        self.out.push(b'[');
        let mut more = self.cursor.enter(Container::Array) == Ok(true);
        while more {
            self.value(depth + 1, false);
            more = self.cursor.more(Container::Array) == Ok(true);
            if more {
                self.out.push(b',');
            }
        }
        self.out.push(b']');
    }

    fn object(&mut self, depth: usize, in_meta: bool) {
        self.out.push(b'{');
        let start = self.out.len();
        let mut members: Vec<Member<'a>> = Vec::new();
        let mut sorted = true;
        let mut more = self.cursor.enter(Container::Object) == Ok(true);
        while more {
            let key = self.string();
            let before = self.out.len();
            if !members.is_empty() {
                self.out.push(b',');
            }
            let from = self.out.len();
            write_string(key, &mut self.out);
            self.out.push(b':');
            let key = sort_key(key);
            if self.cursor.expect(b':').is_err() {
                break;
            }
            let is_meta = self.leave_out_volatile && depth == 0 && key.is(b"_meta");
            self.value(depth + 1, is_meta);
            more = self.cursor.more(Container::Object) == Ok(true);
            let empty_meta = is_meta && self.out.ends_with(b":{}");
            if empty_meta || (in_meta && VOLATILE_META.iter().any(|volatile| key.is(volatile))) {
                self.out.truncate(before);
                continue;
            }
            sorted &= members
                .last()
                .is_none_or(|last| last.key.compare(&key) != Ordering::Greater);
            members.push(Member {
                key,
                written: from..self.out.len(),
            });
        }
        if !sorted {
            self.put_in_order(start, members);
        }
        self.out.push(b'}');
    }

    /// Sorts the members from `start` on by key. Repeated ones stay in
    /// the order in which they were written.
    fn put_in_order(&mut self, start: usize, mut members: Vec<Member<'a>>) {
        members.sort_by(|one, two| one.key.compare(&two.key));
        self.scratch.clear();
        for member in members {
            if !self.scratch.is_empty() {
                self.scratch.push(b',');
            }
            self.scratch.extend_from_slice(&self.out[member.written]);
        }
        self.out.truncate(start);
        self.out.extend_from_slice(&self.scratch);
    }

    /// The string that starts here, without its quotes.
    #[inline(always)]
    fn string(&mut self) -> &'a str {
        let string = self.cursor.skip_string().ok();
        string
            .and_then(|string| self.text.get(string.inner))
            .unwrap_or_default()
    }

    fn scalar(&mut self) {
        let token = self.cursor.skip_scalar().ok();
        let token = token.and_then(|token| self.text.as_bytes().get(token));
        match token {
            Some(number @ [b'-' | b'0'..=b'9', ..]) => write_number(number, &mut self.out),
            Some(word) => self.out.extend_from_slice(word),
            None => {}
        }
    }

    /// Copies the container that starts here, without its blanks.
    fn as_written(&mut self) {
        let (text, out) = (self.text.as_bytes(), &mut self.out);
        // Valid text has no flaw.
        let _ = self
            .cursor
            .tokens(0, |token| out.extend_from_slice(&text[token]));
    }
}

/// Writes a number as ECMAScript does, where a double holds what was meant.
fn write_number(token: &[u8], out: &mut Vec<u8>) {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    let whole = digits.iter().all(u8::is_ascii_digit);
    if whole && digits == b"0" {
        out.push(b'0');
    } else if whole {
        // Up to 2^53 ECMAScript writes a whole number like this; beyond that it must not be altered.
        out.extend_from_slice(token);
    } else {
        match std::str::from_utf8(token)
            .ok()
            .and_then(|text| text.parse::<f64>().ok())
        {
            Some(number) if number.is_finite() => {
                out.extend_from_slice(ryu_js::Buffer::new().format_finite(number).as_bytes());
            }
            _ => out.extend_from_slice(token),
        }
    }
}

/// Writes the inner text of a string with the escapes that RFC 8785 requires, and no others.
fn write_string(inner: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for piece in Pieces::of(inner) {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Escaped(character) => write_character(character, out),
            Piece::LoneSurrogate(unit) => write_escape(unit, out),
        }
    }
    out.push(b'"');
}

fn write_character(character: char, out: &mut Vec<u8>) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\0'..='\u{1f}' => write_escape(character as u16, out),
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn write_escape(unit: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
}

fn sort_key(inner: &str) -> Key<'_> {
    if inner.bytes().all(|byte| byte.is_ascii() && byte != b'\\') {
        return Key::Plain(inner.as_bytes());
    }
    let mut keys = Vec::with_capacity(inner.len());
    for piece in Pieces::of(inner) {
        match piece {
            Piece::Text(text) => keys.extend(text.encode_utf16()),
            Piece::Escaped(character) => {
                keys.extend_from_slice(character.encode_utf16(&mut [0; 2]));
            }
            Piece::LoneSurrogate(unit) => keys.push(unit),
        }
    }
    Key::Units(keys)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    fn canonical(text: &str) -> String {
        String::from_utf8(value(raw(text))).unwrap()
    }

    #[test]
    fn the_examples_of_rfc_8785() {
        assert_eq!(
            canonical(
                r#"{ "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
                     "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
                     "literals": [null, true, false] }"#
            ),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        assert_eq!(
            canonical(
                r#"{"\u20ac":"Euro","\r":"CR","\ufb33":"Hebrew","1":"One","\ud83d\ude00":"Smiley","\u0080":"Control","\u00f6":"o"}"#
            ),
            "{\"\\r\":\"CR\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"o\",\"€\":\"Euro\",\"😀\":\"Smiley\",\"\u{fb33}\":\"Hebrew\"}"
        );
    }

    #[test]
    fn order_blanks_and_spelling_do_not_matter() {
        let one = r#"{"b":{"d":[1,2.0],"c":"\u00e9\/"},"a":-0}"#;
        let two = "{ \"a\" : 0 ,\n\"\\u0062\":{\"c\":\"é/\",\"d\":[ 1 , 2 ]}}";
        assert_eq!(canonical(one), canonical(two));
    }

    #[test]
    fn what_rfc_8785_does_not_define_does_not_collide() {
        let texts = [
            "9007199254740992",
            "9007199254740993",
            "18446744073709551615",
            "18446744073709551616",
            "1e999",
            "-1e999",
            r#"{"a":1}"#,
            r#"{"a":2}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":2,"a":1}"#,
            r#""\ud800""#,
            r#""\ud801""#,
            r#""\\ud800""#,
            r#""\ufffd""#,
            r#""\udc00\ud800""#,
        ];
        for (index, one) in texts.iter().enumerate() {
            for other in &texts[index + 1..] {
                assert_ne!(canonical(one), canonical(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn depth_is_bounded_and_still_counts() {
        let nest = |core: &str| format!("{}{core}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(canonical(&nest("[ 1, \"a b\" ]")), nest("[1,\"a b\"]"));
        assert_ne!(canonical(&nest("1")), canonical(&nest("2")));
    }

    #[test]
    fn a_huge_definition_is_hashed_to_its_last_byte() {
        let huge = |last: &str| format!(r#"{{"b":"{}","a":"{last}"}}"#, "x".repeat(MAX_TEXT));
        assert_eq!(hash(raw(&huge("1"))), hash(raw(&huge("1"))));
        assert_ne!(hash(raw(&huge("1"))), hash(raw(&huge("2"))));
        let (one, other) = (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#);
        assert_eq!(hash(raw(one)), hash(raw(other)));
        assert_eq!(hash(raw(one)), DefinitionHash::of(one.as_bytes()));
    }

    #[test]
    fn volatile_meta_does_not_count_and_other_meta_does() {
        let hash = |text: &str| definition(raw(text));
        let plain = hash(r#"{"name":"a"}"#);
        assert_eq!(
            hash(r#"{"name":"a","_meta":{"traceparent":"00-1"}}"#),
            plain
        );
        assert_eq!(
            hash(r#"{"name":"a","_meta":{"\u0074racestate":"1","progressToken":2}}"#),
            plain
        );
        assert_ne!(
            hash(r#"{"name":"a","_meta":{"vendor":1,"baggage":"x"}}"#),
            plain
        );
        assert_eq!(
            hash(r#"{"name":"a","_meta":{"vendor":1,"baggage":"x"}}"#),
            hash(r#"{"_meta":{"vendor":1},"name":"a"}"#)
        );
        // Only in the definition's own `_meta`.
        assert_ne!(
            hash(r#"{"name":"a","x":{"_meta":{"baggage":1}}}"#),
            hash(r#"{"name":"a","x":{"_meta":{}}}"#)
        );
        assert_ne!(hash(r#"{"name":"a","traceparent":1}"#), plain);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
            any::<f64>()
                .prop_filter("JSON has no infinity", |number| number.is_finite())
                .prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                proptest::collection::hash_map(".{0,6}", inner, 0..8)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn agrees_with_another_implementation(value in json()) {
            let expected = serde_json_canonicalizer::to_string(&value).unwrap();
            prop_assert_eq!(&canonical(&value.to_string()), &expected);
            prop_assert_eq!(&canonical(&serde_json::to_string_pretty(&value).unwrap()), &expected);
            prop_assert_eq!(&canonical(&expected), &expected);
        }
    }
}
