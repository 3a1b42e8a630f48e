//! However a message is written, and whatever precedes and follows it in either direction: what a rule keeps
//! back reaches no reader, strict or lenient.

use std::fmt;

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;

const RULES: &str = r#"
    [[rule]]
    id = "no-writes"
    when = { method = "tools/call", tool = "write" }
    action = "block"
    [[rule]]
    id = "no-samples"
    when = { from = "server", method = "sampling/createMessage" }
    action = "block"
    [[rule]]
    id = "no-secrets"
    when = { result = { path = "content", contains = "hunter2" } }
    action = "block"
"#;

/// An object as written: repeated members, in order.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// How a program reads an object.
#[derive(Clone, Copy, Debug)]
struct Reader {
    takes_first: bool,
    ignores_case: bool,
    ends_lines_at_returns: bool,
}

impl Reader {
    fn all() -> impl Iterator<Item = Self> {
        (0..8).map(|bits| Self {
            takes_first: bits & 1 > 0,
            ignores_case: bits & 2 > 0,
            ends_lines_at_returns: bits & 4 > 0,
        })
    }

    /// The messages in what arrives.
    fn messages(self, line: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(line);
        let lines: Vec<&str> = match self.ends_lines_at_returns {
            true => text.split('\r').collect(),
            false => vec![&text],
        };
        let mut messages = Vec::new();
        for line in lines {
            match serde_json::from_str::<Vec<Box<RawValue>>>(line) {
                Ok(members) => messages.extend(members.iter().map(|raw| raw.get().to_owned())),
                Err(_) => messages.push(line.to_owned()),
            }
        }
        messages
    }

    fn member(self, object: &str, name: &str) -> Option<String> {
        let Members(members) = serde_json::from_str(object).ok()?;
        let mut values = members
            .into_iter()
            .filter(|(key, _)| match self.ignores_case {
                true => key.eq_ignore_ascii_case(name),
                false => key == name,
            });
        let value = match self.takes_first {
            true => values.next(),
            false => values.next_back(),
        };
        Some(value?.1.get().to_owned())
    }

    fn word(self, object: &str, name: &str) -> Option<String> {
        serde_json::from_str(&self.member(object, name)?).ok()
    }

    fn calls(self, message: &str, method: &str, tool: Option<&str>) -> bool {
        let called = || self.word(&self.member(message, "params")?, "name");
        self.word(message, "method").as_deref() == Some(method)
            && tool.is_none_or(|tool| called().as_deref() == Some(tool))
    }

    fn tells_a_secret(self, message: &str) -> bool {
        let result = self.member(message, "result").unwrap_or_default();
        self.word(&result, "content")
            .is_some_and(|content| content.contains("hunter2"))
    }
}

/// A text as JSON, with some letters escaped.
fn spelled(text: &'static str) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::bool::weighted(0.05), text.len()).prop_map(move |escaped| {
        let letters = text.chars().zip(escaped);
        let letters = letters.map(|(letter, escaped)| match escaped {
            true => format!("\\u{:04x}", u32::from(letter)),
            false => letter.to_string(),
        });
        format!("\"{}\"", letters.collect::<String>())
    })
}

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(words).prop_flat_map(spelled)
}

fn object(
    member: impl Strategy<Value = String>,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = String> {
    prop::collection::vec(member, count).prop_map(|members| format!("{{{}}}", members.join(", ")))
}

fn member(
    names: &'static [&'static str],
    value: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    (one_of(names), value).prop_map(|(name, value)| format!("{name}:{value}"))
}

fn message() -> impl Strategy<Value = String> {
    let params = object(
        member(
            &["name", "name", "name", "Name", "x"],
            one_of(&["write", "read"]),
        ),
        0..3,
    );
    let result = object(
        member(
            &["content", "content", "Content"],
            one_of(&["hunter2", "fine"]),
        ),
        0..3,
    );
    let methods = one_of(&["tools/call", "tools/call", "sampling/createMessage", "ping"]);
    let any = prop_oneof![
        3 => member(&["method", "method", "method", "METHOD"], methods),
        3 => member(&["params", "params", "params", "Params"], params),
        2 => member(&["id", "id", "id", "ID"], (0..4_u8).prop_map(|id| id.to_string())),
        1 => member(&["result", "result", "Result"], result),
        1 => member(&["jsonrpc"], Just("\"2.0\"".to_owned())),
    ];
    object(any, 2..6)
}

fn frame() -> impl Strategy<Value = String> {
    let several = || prop::collection::vec(message(), 1..3);
    prop_oneof![
        6 => message(),
        1 => several().prop_map(|all| format!("[{}]", all.join(","))),
        1 => several().prop_map(|all| all.join("\r")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_reader_meets_what_a_rule_keeps_back(
        frames in prop::collection::vec((frame(), any::<bool>()), 1..12),
    ) {
        let mut tried = Tried::new(RULES);
        for (frame, to_server) in frames {
            let direction = if to_server { TO_SERVER } else { TO_CLIENT };
            let Some(passed) = tried.say(direction, &frame).passed else {
                continue;
            };
            for reader in Reader::all() {
                for message in reader.messages(&passed) {
                    let meets = match to_server {
                        true => reader.calls(&message, "tools/call", Some("write")),
                        false => {
                            reader.calls(&message, "sampling/createMessage", None)
                                || reader.tells_a_secret(&message)
                        }
                    };
                    prop_assert!(!meets, "{reader:?} meets it in {message}, of {frame}");
                }
            }
        }
    }
}

/// The readers of the test above are not blind.
#[test]
fn each_reader_meets_what_is_written_for_it() {
    for (line, meets) in [
        (r#"{"method":"tools/call","params":{"name":"write"}}"#, 8),
        (
            r#"{"method":"tools/call","params":{"name":"read","n\u0061me":"write"}}"#,
            4,
        ),
        (
            r#"[{"method":"tools/call","params":{"name":"read","NAME":"write"}}]"#,
            2,
        ),
        (
            "1\r{\"method\":\"tools/call\",\"params\":{\"name\":\"write\"}}",
            4,
        ),
        (r#"{"method":"ping","params":{"name":"write"}}"#, 0),
    ] {
        let met = Reader::all().filter(|reader| {
            let messages = reader.messages(line.as_bytes());
            messages
                .iter()
                .any(|message| reader.calls(message, "tools/call", Some("write")))
        });
        assert_eq!(met.count(), meets, "{line}");
    }
}
