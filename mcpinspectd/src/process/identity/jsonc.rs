//! JSON as editors' settings files have it: comments and trailing commas.

/// Blanks out comments, trailing commas and a byte order mark, in place, so that offsets in a
/// parser's message stay right. What stands inside strings is left alone.
pub(super) fn to_json(text: &mut [u8]) {
    if text.starts_with(b"\xef\xbb\xbf") {
        text[..3].fill(b' ');
    }
    let mut at = 0;
    // The last comma with nothing but blanks behind it so far.
    let mut comma = None;
    while at < text.len() {
        match text[at..] {
            [b'"', ..] => {
                comma = None;
                at = string_end(text, at);
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

/// Behind the string that begins at `at`.
fn string_end(text: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while let Some(n) = memchr::memchr2(b'"', b'\\', &text[next.min(text.len())..]) {
        next += n;
        if text[next] == b'"' {
            return next + 1;
        }
        next += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing test may panic")]
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
