//! Where two readers of one JSON text may see different messages.
//!
//! JSON leaves open what a repeated member means, how deep a text may nest, or what a number beyond a
//! double's range is, and parsers decide for themselves: Go's takes `Name` for `name`, Java's and Python's
//! line readers end a line at a carriage return, and what one parser refuses the next one mends. For an
//! observer that is an oddity. Code that decides whether a message may pass has to know about it, or a sender can
//! show the judge one message and the receiver another.
//!
//! One pass over the text, without recursion. It keeps eight bytes for each key of the objects that are
//! open, up to a limit.

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;

use super::cursor::{Container, Cursor, Flaw};
use super::string::{self, Piece, Pieces};

/// The deepest nesting that all parsers are sure to read.
pub const MAX_DEPTH: usize = 128;
/// Most members of all simultaneously open objects.
const MAX_KEYS: usize = 1 << 18;
/// Most bytes of a key with escapes to decode.
const MAX_KEY: usize = 4096;
/// A number of fewer digits without an exponent is in every parser's range.
const SHORT_NUMBER: usize = 300;

/// What two readers may read differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ambiguity {
    /// An object repeats a member: some readers take the first, some the last, some refuse.
    RepeatedMember,
    /// A member is spelled almost like a meaningful one: some readers ignore case.
    OddSpelling,
    /// There is a carriage return between two values: some readers end a line there.
    CarriageReturn,
    /// Half of a surrogate pair: some readers refuse it, some replace it.
    LoneSurrogate,
    /// It nests deeper than [`MAX_DEPTH`].
    TooDeep,
    /// A number is beyond a double's range: some readers refuse it, some read infinity.
    NumberRange,
    /// It has more members than can be compared.
    TooManyMembers,
    /// It is not JSON after all.
    NotJson,
}

impl Ambiguity {
    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RepeatedMember => "repeated_member",
            Self::OddSpelling => "odd_spelling",
            Self::CarriageReturn => "carriage_return",
            Self::LoneSurrogate => "lone_surrogate",
            Self::TooDeep => "too_deep",
            Self::NumberRange => "number_range",
            Self::TooManyMembers => "too_many_members",
            Self::NotJson => "not_json",
        }
    }
}

/// Where a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessagePart {
    /// In the message itself: `method`, `id`, `params` and so on.
    Envelope,
    /// In its parameters.
    Params,
    /// Deeper, or in a result or error.
    Inside,
}

/// An open container.
#[derive(Clone, Copy)]
enum Open {
    Array,
    /// With the number of keys before its own.
    Object(usize, MessagePart),
}

/// The worst ambiguity in the text of a message, which is an object, and where it is. One in the envelope
/// is worse than one below. `is_odd` tells whether a key is almost a meaningful one in its part.
/// With `mends`, half a surrogate pair in a value is no ambiguity: all readers that accept it show the
/// same.
pub fn find(
    text: &str,
    mends: bool,
    is_odd: impl Fn(MessagePart, &str) -> bool,
) -> Option<(MessagePart, Ambiguity)> {
    let mut reader = Reader {
        text,
        cursor: Cursor::new(text.as_bytes()),
        open: Vec::new(),
        keys: Vec::new(),
        decoded: String::new(),
        in_params: false,
        found: None,
        mends,
        is_odd,
    };
    match reader.run() {
        Ok(()) => reader.found,
        Err(_) => Some((MessagePart::Envelope, Ambiguity::NotJson)),
    }
}

/// Whether the bytes of a line contain a carriage return that does not end it.
pub fn has_inner_carriage_return(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    memchr::memchr(b'\r', line).is_some()
}

struct Reader<'a, F> {
    text: &'a str,
    cursor: Cursor<'a>,
    open: Vec<Open>,
    keys: Vec<u64>,
    decoded: String,
    /// Whether the member of the envelope that is being read is `params`.
    in_params: bool,
    found: Option<(MessagePart, Ambiguity)>,
    mends: bool,
    is_odd: F,
}

impl<F: Fn(MessagePart, &str) -> bool> Reader<'_, F> {
    fn note(&mut self, part: MessagePart, what: Ambiguity) {
        if self.found.is_none_or(|(known, _)| part < known) {
            self.found = Some((part, what));
        }
    }

    fn run(&mut self) -> Result<(), Flaw> {
        loop {
            self.value()?;
            let too_much = match (self.open.len() > MAX_DEPTH, self.keys.len() > MAX_KEYS) {
                (true, _) => Some(Ambiguity::TooDeep),
                (false, true) => Some(Ambiguity::TooManyMembers),
                (false, false) => None,
            };
            if let Some(what) = too_much {
                // What follows is not read, so it may be anywhere.
                self.note(MessagePart::Envelope, what);
                return Ok(());
            }
            if !self.next()? {
                return self.cursor.end();
            }
        }
    }

    /// Moves past a scalar, or into a container up to its first value. An empty container is a scalar.
    fn value(&mut self) -> Result<(), Flaw> {
        loop {
            let container = match self.cursor.peek()? {
                b'{' => Container::Object,
                b'[' => Container::Array,
                b'"' => return self.string(),
                _ => return self.scalar(),
            };
            if !self.cursor.enter(container)? {
                return Ok(());
            }
            match container {
                Container::Array => self.open.push(Open::Array),
                Container::Object => {
                    let part = match (self.open.len(), self.in_params) {
                        (0, _) => MessagePart::Envelope,
                        (1, true) => MessagePart::Params,
                        _ => MessagePart::Inside,
                    };
                    self.open.push(Open::Object(self.keys.len(), part));
                    self.key(part)?;
                }
            }
            if self.open.len() > MAX_DEPTH {
                return Ok(());
            }
        }
    }

    fn string(&mut self) -> Result<(), Flaw> {
        let string = self.cursor.check_string()?;
        if string.escaped && !self.mends && has_lone_surrogate(&self.text[string.inner]) {
            self.note(MessagePart::Inside, Ambiguity::LoneSurrogate);
        }
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), Flaw> {
        let start = self.cursor.at();
        self.cursor.check_scalar()?;
        let scalar = &self.text[start..self.cursor.at()];
        if !scalar.starts_with(['t', 'f', 'n']) && !is_in_range(scalar) {
            self.note(MessagePart::Inside, Ambiguity::NumberRange);
        }
        Ok(())
    }

    /// Moves to the next value; false at the end of the text.
    fn next(&mut self) -> Result<bool, Flaw> {
        while let Some(&open) = self.open.last() {
            match open {
                Open::Array => {
                    if self.cursor.more(Container::Array)? {
                        return Ok(true);
                    }
                }
                Open::Object(first, part) => {
                    if self.cursor.more(Container::Object)? {
                        self.key(part)?;
                        return Ok(true);
                    }
                    self.compare(first, part);
                }
            }
            self.open.pop();
        }
        Ok(false)
    }

    /// Forgets the keys of an object that has ended, and notes whether two are the same.
    fn compare(&mut self, first: usize, part: MessagePart) {
        let own = self.keys.get_mut(first..).unwrap_or_default();
        own.sort_unstable();
        let repeats = own.windows(2).any(|pair| pair[0] == pair[1]);
        self.keys.truncate(first);
        if repeats {
            self.note(part, Ambiguity::RepeatedMember);
        }
    }

    fn key(&mut self, part: MessagePart) -> Result<(), Flaw> {
        let key = self.cursor.check_key()?;
        let inner = &self.text[key.inner];
        let mut hasher = FixedState::default().build_hasher();
        let name = match key.escaped {
            false => {
                hasher.write(inner.as_bytes());
                inner
            }
            true => {
                self.decoded.clear();
                let rest = string::decode(inner, MAX_KEY, &mut self.decoded);
                hasher.write(self.decoded.as_bytes());
                // Nothing more is not the same as an empty piece more.
                if !rest.is_empty() {
                    hasher.write(rest.as_bytes());
                }
                &self.decoded
            }
        };
        self.keys.push(hasher.finish());
        let is_odd = (self.is_odd)(part, name);
        if part == MessagePart::Envelope {
            self.in_params = name == "params";
        }
        if is_odd {
            self.note(part, Ambiguity::OddSpelling);
        }
        if key.escaped && has_lone_surrogate(inner) {
            self.note(part, Ambiguity::LoneSurrogate);
        }
        Ok(())
    }
}

fn has_lone_surrogate(inner: &str) -> bool {
    let bytes = inner.as_bytes();
    let may = memchr::memchr_iter(b'\\', bytes)
        .any(|at| matches!(bytes.get(at + 1..at + 3), Some([b'u', b'd' | b'D'])));
    may && Pieces::of(inner).any(|piece| matches!(piece, Piece::LoneSurrogate(_)))
}

fn is_in_range(number: &str) -> bool {
    let is_plain = number.len() < SHORT_NUMBER && !number.contains(['e', 'E']);
    is_plain || number.parse().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn look(text: &str) -> Option<(MessagePart, Ambiguity)> {
        find(text, false, |part, key| {
            part != MessagePart::Inside && key.eq_ignore_ascii_case("name") && key != "name"
        })
    }

    #[test]
    fn what_readers_agree_on_is_clear() {
        for text in [
            "{}",
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":{"a":{"a":[{"a":1},{"a":2}]}}}}"#,
            r#" { "a" : [ ] , "b" : { } , "c" : -0.5e+3, "d":"\ud83d\ude00" } "#,
            r#"{"result":{"Name":1,"name":2,"NAME":"\\ud800"}}"#,
        ] {
            assert_eq!(look(text), None, "{text}");
        }
    }

    #[test]
    fn every_ambiguity_is_found_where_it_is() {
        use Ambiguity::*;
        for (text, part, what) in [
            (r#"{"a":1,"a":1}"#, MessagePart::Envelope, RepeatedMember),
            (
                r#"{"method":1,"\u006dethod":1}"#,
                MessagePart::Envelope,
                RepeatedMember,
            ),
            (
                r#"{"params":{"a":1,"b":2,"a":3}}"#,
                MessagePart::Params,
                RepeatedMember,
            ),
            (
                r#"{"params":[{"a":{"x":0,"x":0}}]}"#,
                MessagePart::Inside,
                RepeatedMember,
            ),
            (
                r#"{"result":{"a":1,"a":1}}"#,
                MessagePart::Inside,
                RepeatedMember,
            ),
            (
                r#"{"params":{"x":{"b":0,"b":0}},"a":1,"a":1}"#,
                MessagePart::Envelope,
                RepeatedMember,
            ),
            (r#"{"params":{"Name":1}}"#, MessagePart::Params, OddSpelling),
            (r#"{"n\u0041me":1}"#, MessagePart::Envelope, OddSpelling),
            (r#"{"a":"\ud800"}"#, MessagePart::Inside, LoneSurrogate),
            (r#"{"\uDC00":1}"#, MessagePart::Envelope, LoneSurrogate),
            (r#"{"a":1e400}"#, MessagePart::Inside, NumberRange),
            (r#"{"a":1} x"#, MessagePart::Envelope, NotJson),
        ] {
            assert_eq!(look(text), Some((part, what)), "{text}");
        }
        let long = format!("{{\"a\":{}}}", "9".repeat(400));
        assert_eq!(look(&long), Some((MessagePart::Inside, NumberRange)));
        let deep =
            |levels: usize| format!("{{\"a\":{}0{}}}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(look(&deep(MAX_DEPTH - 1)), None);
        assert_eq!(
            look(&deep(MAX_DEPTH)),
            Some((MessagePart::Envelope, TooDeep))
        );
        let many: Vec<String> = (0..=MAX_KEYS).map(|key| format!("\"{key}\":0")).collect();
        let many = format!("{{\"a\":{{{}}}}}", many.join(","));
        assert_eq!(look(&many), Some((MessagePart::Envelope, TooManyMembers)));
    }

    #[test]
    fn carriage_returns_inside_of_a_line() {
        assert!(!has_inner_carriage_return(b"{}\r"));
        assert!(!has_inner_carriage_return(b""));
        assert!(has_inner_carriage_return(b"{}\r\r"));
        assert!(has_inner_carriage_return(b"{\r}"));
    }

    proptest! {
        #[test]
        fn agrees_with_a_strict_parser(keys in prop::collection::vec("[ab]|\\\\u0061", 0..4), deep in any::<bool>()) {
            let members: Vec<String> = keys.iter().map(|key| format!("\"{key}\":0")).collect();
            let object = format!("{{{}}}", members.join(","));
            let text = if deep { format!("{{\"x\":[{object}]}}") } else { object };
            let mut plain: Vec<String> = keys.iter().map(|key| key.replace("\\u0061", "a")).collect();
            plain.sort();
            let repeats = plain.windows(2).any(|pair| pair[0] == pair[1]);
            prop_assert_eq!(look(&text).is_some(), repeats);
        }

        #[test]
        fn no_text_panics(text in r#"[\[\]{}":,\\ud8a0e9.-]{0,24}"#) {
            let _ = look(&text);
        }
    }
}
