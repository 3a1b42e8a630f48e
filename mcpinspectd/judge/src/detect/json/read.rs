//! Reads values within a budget.
//!
//! A tree takes many times the memory of its text: two bytes of `[0,0,…` become a value of 32. So its
//! nodes are paid for, and when that budget is spent, or the nesting is too deep, the rest of each
//! open container becomes one list of all the strings in it. Their places are lost, but their words are
//! not: numbers, brackets and empty values carry no words, however many there are. Text is borrowed;
//! text with escapes has to be decoded, which is paid for too. Only when that second budget is spent is
//! anything left out.

use std::borrow::Cow;

use mcpinspect_core::mcp::cursor::{Container, Cursor, Quoted};
use mcpinspect_core::mcp::{Budget, string};
use serde_json::Number;
use serde_json::value::RawValue;

use super::value::{Json, Members};

/// The deepest nesting of a value that was read; the limit of `serde_json`.
pub const MAX_DEPTH: usize = 128;

/// The deepest nesting whose structure is kept. Below it is a list of texts.
const STRUCTURE: usize = MAX_DEPTH - 2;

/// Memory for the nodes of a tree, in bytes: some fifty thousand values.
const NODES: usize = 3 << 20;
/// Memory for decoded text, in bytes. The same amount of text of one subject is examined.
const TEXT: usize = 4 << 20;
/// A longer string with escapes is not decoded in full, only its start and its end, in bytes. Less
/// than that is examined of a string.
const LONG: usize = 1 << 20;
const BEGINNING: usize = 512 << 10;
const END: usize = 256 << 10;
/// The longest number to read as one, in bytes. A double has at most 1,080 digits.
const LONGEST_NUMBER: usize = 2048;
/// Length in bytes of the texts into which the strings of a flattened container are put.
const FLATTENED: usize = 256 << 10;

/// A value that was read within a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundedValue<'a> {
    /// The value.
    pub value: Json<'a>,
    /// Whether it has lost structure: only the strings of some containers are known.
    pub flattened: bool,
    /// Whether it has lost text.
    pub cut: bool,
}

impl<'a> BoundedValue<'a> {
    /// Reads `raw`, in at most about ten megabytes besides the text.
    pub fn of(raw: &'a RawValue) -> Self {
        let mut reader = Reader::new(raw, Budget::of(NODES), Budget::of(TEXT));
        let value = reader.value(0);
        Self {
            value,
            flattened: reader.deep || reader.nodes.is_spent(),
            cut: reader.cut || reader.decoded.is_spent(),
        }
    }
}

impl<'a> Json<'a> {
    /// Reads `raw` without a budget: for programs that a person runs on something of their own.
    pub fn from_raw(raw: &'a RawValue) -> Self {
        Reader::new(raw, Budget::of(usize::MAX), Budget::of(usize::MAX)).value(0)
    }

    /// Reads a text without a budget.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn parse(text: &'a [u8]) -> serde_json::Result<Self> {
        match std::str::from_utf8(text) {
            Ok(text) => serde_json::from_str::<&RawValue>(text).map(Self::from_raw),
            Err(_) => serde_json::from_slice::<&RawValue>(text).map(Self::from_raw),
        }
    }
}

/// Reads valid JSON text. Of any other, it reads what comes before the flaw.
struct Reader<'a> {
    text: &'a str,
    cursor: Cursor<'a>,
    nodes: Budget,
    decoded: Budget,
    cut: bool,
    deep: bool,
}

impl<'a> Reader<'a> {
    fn new(raw: &'a RawValue, nodes: Budget, decoded: Budget) -> Self {
        let text = raw.get();
        Self {
            text,
            cursor: Cursor::new(text.as_bytes()),
            nodes,
            decoded,
            cut: false,
            deep: false,
        }
    }

    /// Reads the value that starts here.
    fn value(&mut self, depth: usize) -> Json<'a> {
        let container = match self.cursor.peek() {
            Ok(b'{') => Container::Object,
            Ok(b'[') => Container::Array,
            Ok(b'"') => return Json::String(self.string()),
            _ => return self.scalar(),
        };
        let more = self.cursor.enter(container) == Ok(true);
        if depth >= STRUCTURE {
            self.deep = true;
            self.nodes.take(4 * size_of::<Json<'_>>());
            return self.flattened(more);
        }
        match container {
            Container::Array => self.array(depth, more),
            Container::Object => self.object(depth, more),
        }
    }

    /// Reads the rest of an array.
    fn array(&mut self, depth: usize, mut more: bool) -> Json<'a> {
        let mut values = Vec::new();
        while more {
            if !self.room(&mut values) {
                values.reserve_exact(1);
                values.push(self.flattened(true));
                break;
            }
            values.push(self.value(depth + 1));
            more = self.cursor.more(Container::Array) == Ok(true);
        }
        Json::Array(values)
    }

    /// Reads the rest of an object.
    fn object(&mut self, depth: usize, mut more: bool) -> Json<'a> {
        let mut members = Vec::new();
        while more {
            if !self.room(&mut members) {
                let mut members = Members::from_iter(members);
                members.add_rest(self.flattened(true));
                return Json::Object(members);
            }
            let key = self.string();
            if self.cursor.expect(b':').is_err() {
                break;
            }
            members.push((key, self.value(depth + 1)));
            more = self.cursor.more(Container::Object) == Ok(true);
        }
        Json::Object(members.into_iter().collect())
    }

    /// Makes room for one more element, and pays for it. Returns whether that was possible.
    fn room<T>(&mut self, list: &mut Vec<T>) -> bool {
        if list.len() == list.capacity() && !self.nodes.is_spent() {
            let more = list.capacity().max(4);
            if self.nodes.take(more * size_of::<T>()) {
                list.reserve_exact(more);
            }
        }
        !self.nodes.is_spent()
    }

    /// The string that starts here, borrowed if it has no escapes.
    fn string(&mut self) -> Cow<'a, str> {
        let Ok(Quoted { inner, escaped }) = self.cursor.skip_string() else {
            return Cow::Borrowed("");
        };
        let inner = self.text.get(inner).unwrap_or_default();
        if !escaped {
            return Cow::Borrowed(inner);
        }
        let long = inner.len() > LONG && self.decoded.left() < usize::MAX / 2;
        let kept = if long { BEGINNING + END } else { inner.len() };
        if !self.decoded.take(kept) {
            return Cow::Borrowed("");
        }
        let mut decoded = String::with_capacity(kept + 8);
        if long {
            self.cut = true;
            string::decode(inner, BEGINNING, &mut decoded);
            decoded.push('\n');
            let from = inner.ceil_char_boundary(inner.len() - END);
            string::decode(
                inner.get(from..).unwrap_or_default(),
                usize::MAX,
                &mut decoded,
            );
        } else {
            string::decode(inner, usize::MAX, &mut decoded);
        }
        Cow::Owned(decoded)
    }

    fn scalar(&mut self) -> Json<'a> {
        let token = self.cursor.skip_scalar().ok();
        match token.and_then(|token| self.text.get(token)) {
            None | Some("null") => Json::Null,
            Some("true") => Json::Bool(true),
            Some("false") => Json::Bool(false),
            Some(token) => number(token).map_or(Json::String(Cow::Borrowed(token)), Json::Number),
        }
    }

    /// All strings of the container whose inside continues here, including keys; `more` says whether it does. Moves
    /// past its end.
    fn flattened(&mut self, more: bool) -> Json<'a> {
        let mut texts = Vec::new();
        let mut text = String::new();
        let (source, decoded) = (self.text, &mut self.decoded);
        let mut add = |mut inner: &str| {
            while !inner.is_empty() {
                if text.len() >= FLATTENED {
                    texts.push(Json::String(std::mem::take(&mut text).into()));
                }
                let before = text.len();
                let room = (FLATTENED - before).min(decoded.left()).max(1);
                if decoded.left() == 0 {
                    decoded.take(usize::MAX);
                    break;
                }
                inner = string::decode(inner, before + room, &mut text);
                let used = (text.len() - before + 1).min(decoded.left());
                decoded.take(used);
                if inner.is_empty() {
                    text.push('\n');
                }
            }
        };
        if more {
            // What comes before a flaw counts.
            let _ = self.cursor.tokens(1, |token| {
                let token = source.get(token).unwrap_or_default();
                if let Some(inner) = token.strip_prefix('"') {
                    add(inner.strip_suffix('"').unwrap_or(inner));
                }
            });
        }
        text.shrink_to_fit();
        texts.push(Json::String(text.into()));
        Json::Array(texts)
    }
}

/// The number in `token`, unless it is beyond the range of a double, or longer than any meaningful
/// number: reading its digits would take as much memory.
fn number(token: &str) -> Option<Number> {
    if token.len() > LONGEST_NUMBER {
        return None;
    }
    match token.as_bytes().first()? {
        b'0'..=b'9' => token.parse::<u64>().map(Number::from).ok(),
        b'-' if token != "-0" => token.parse::<i64>().map(Number::from).ok(),
        _ => None,
    }
    .or_else(|| serde_json::from_str(token).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn value(text: &str) -> Value {
        Json::parse(text.as_bytes()).unwrap().into()
    }

    fn reading(text: &str) -> (String, bool, bool) {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        let reading = BoundedValue::of(&raw);
        let shown = format!("{:?}", reading.value);
        (shown, reading.flattened, reading.cut)
    }

    #[test]
    fn the_last_member_of_a_repeated_key_counts() {
        let text = r#"{"b":0,"a":1,"\u0061":2,"a":3,"c":[{"x":1,"x":2}]}"#;
        assert_eq!(value(text), serde_json::from_str::<Value>(text).unwrap());
        let json = Json::parse(text.as_bytes()).unwrap();
        assert_eq!(json.get("a"), Some(&Json::Number(3.into())));
        let keys: Vec<&str> = json.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["a", "b", "c"]);
    }

    #[test]
    fn text_that_a_client_accepts_is_read() {
        for text in [
            r#" { "a" : [ 1 , "b" , null ] , "c" : -0.5e3 } "#,
            "\"x\"",
            "7",
            "-0",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "[]",
            "{}",
            "[true,false,{},[]]",
        ] {
            assert_eq!(value(text), serde_json::from_str::<Value>(text).unwrap());
        }
        assert_eq!(value(r#"{"a":"x\ud800y"}"#), json!({"a": "x\u{fffd}y"}));
        assert_eq!(
            value(r#"{"a":1e999,"b":"c"}"#),
            json!({"a": "1e999", "b": "c"})
        );
        for text in ["", "[1,]", "{\"a\"}", "nul", "\u{1}"] {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Json::parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn text_that_is_too_deep_keeps_its_words() {
        for levels in [12, STRUCTURE - 2, STRUCTURE - 1, MAX_DEPTH, 5000] {
            let text = format!(
                r#"{{"top":"x","deep":{}{{"key \"k\"":"a\nb\\"}}{},"after":"y"}}"#,
                "[".repeat(levels),
                "]".repeat(levels)
            );
            let value = value(&text);
            assert_eq!((&value["top"], &value["after"]), (&json!("x"), &json!("y")));
            let shown = value.to_string();
            assert!(
                shown.contains(r#"key \"k\""#) && shown.contains(r#"a\nb\\"#),
                "{levels}"
            );
            assert_eq!(reading(&text).1, levels >= STRUCTURE - 1, "{levels}");
        }
    }

    #[test]
    fn words_behind_a_flood_of_values_are_read() {
        for flood in ["0,", "{},", "[],", "\"\",", "{\"\":[]},"] {
            let flood = flood.repeat(1 << 20);
            for text in [
                format!(r#"{{"content":[{flood}"the \u0077ord"],"last":"an end"}}"#),
                format!(r#"[[{flood}0],{{"the word":0}},["an end"]]"#),
            ] {
                let (shown, flattened, cut) = reading(&text);
                assert!(shown.contains("the word") && shown.contains("an end"));
                assert!(flattened && !cut);
            }
        }
        let members: String = (0..200_000).map(|n| format!("\"{n}\":0,")).collect();
        let text = format!(r#"{{"…":"first","key":1,{members}"…":"last","key":2}}"#);
        let (shown, flattened, cut) = reading(&text);
        assert!(shown.contains("first") && shown.contains("last") && flattened && !cut);
    }

    #[test]
    fn text_that_is_too_much_is_cut_and_said() {
        // Borrowed text costs nothing.
        let plain = format!("[\"{}\"]", "words ".repeat(2 << 20));
        assert!(!reading(&plain).2);
        let escaped = format!("[\"first {} last\"]", "\\u00e9".repeat(1 << 20));
        let (shown, _, cut) = reading(&escaped);
        assert!(shown.contains("first") && shown.contains(" last") && cut);
        assert!(shown.len() < LONG);
        let many = format!(
            "[{}0]",
            format!("\"{}\",", "\\n".repeat(1000)).repeat(10_000)
        );
        assert!(reading(&many).2);
        let flattened = format!(
            "[[{}],[{}0]]",
            "0,".repeat(1 << 20),
            "\"some words\",".repeat(1 << 20)
        );
        let (shown, _, cut) = reading(&flattened.replace("0,]", "0]"));
        assert!(shown.len() < 8 << 20 && cut);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e6..1e6_f64).prop_map(Value::from),
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
        fn agrees_with_a_parser(tree in any_json()) {
            prop_assert_eq!(&value(&tree.to_string()), &tree);
            prop_assert_eq!(&value(&serde_json::to_string_pretty(&tree).unwrap()), &tree);
            let raw = RawValue::from_string(tree.to_string()).unwrap();
            let reading = BoundedValue::of(&raw);
            prop_assert!(!reading.flattened && !reading.cut);
            prop_assert_eq!(Value::from(reading.value), tree);
        }
    }
}
