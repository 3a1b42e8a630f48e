//! JSON with comments and trailing commas, as in editors' settings files.

use mcpinspect_core::mcp::json;

/// Blanks out comments, trailing commas and a byte order mark, in place, so that offsets in a
/// parser's message stay correct. Strings are left alone.
pub(super) fn to_json(text: &mut [u8]) {
    if text.starts_with(b"\xef\xbb\xbf") {
        text[..3].fill(b' ');
    }
    let mut at = 0;
    // The last comma, while only blanks follow it.
    let mut comma = None;
    while at < text.len() {
        match text[at..] {
            [b'"', ..] => {
                comma = None;
                at = json::string_end(text, at + 1).map_or(text.len(), |(end, _)| end + 1);
                continue;
            }
            [b'/', b'/', ..] => {
                let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |n| at + n);
                text[at..end].fill(b' ');
                at = end;
                continue;
            }
            [b'/', b'*', ..] => {
                let end = memchr::memmem::find(&text[at + 2..], b"*/")
                    .map_or(text.len(), |n| at + 2 + n + 2);
                text[at..end].fill(b' ');
                at = end;
                continue;
            }
            [b',', ..] => comma = Some(at),
            [b'}' | b']', ..] => {
                if let Some(comma) = comma.take() {
                    text[comma] = b' ';
                }
            }
            [b, ..] if b.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn parse(text: &str) -> Result<Value, serde_json::Error> {
        let mut bytes = text.as_bytes().to_vec();
        to_json(&mut bytes);
        assert_eq!(bytes.len(), text.len());
        serde_json::from_slice(&bytes)
    }

    #[test]
    fn comments_and_trailing_commas_go() {
        let text =
            "\u{feff}{ // one\n \"a\": [1, 2, /* , */ ], \"b//\": \"/* \\\" , ] */\",\n// end\n}";
        assert_eq!(
            parse(text).unwrap(),
            json!({"a": [1, 2], "b//": "/* \" , ] */"})
        );
        assert_eq!(parse("[]").unwrap(), json!([]));
        assert!(parse("{\"a\": /* open").is_err());
        assert!(parse("[1,,]").is_err());
        assert!(parse("\"open").is_err());
        assert!(parse("\"open\\").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes(mut bytes in prop::collection::vec(prop::sample::select(b"\"\\/*,]}\n a".to_vec()), 0..40)) {
            to_json(&mut bytes);
        }

        #[test]
        fn valid_json_means_the_same(strings in prop::collection::vec(".*", 0..6)) {
            let text = serde_json::to_string_pretty(&strings).unwrap();
            prop_assert_eq!(parse(&text).unwrap(), json!(strings));
        }
    }
}
