//! A message's text with its secrets masked, still valid JSON.

use std::borrow::Cow;

use super::{SecretHit, find, placeholder};

/// `text` with its secrets masked; borrowed if there are none. If a secret is not a string (a password that
/// is a number), its replacement becomes one, so that JSON stays JSON.
pub fn json(text: &str) -> Cow<'_, str> {
    let hits = find(text);
    if hits.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    let mut in_string = false;
    for SecretHit { kind, start, end } in hits {
        in_string = ends_in_string(&text[done..start], in_string);
        out.push_str(&text[done..start]);
        let placeholder = placeholder(kind);
        if in_string {
            out.push_str(&placeholder);
        } else {
            out.push('"');
            out.push_str(&placeholder);
            out.push('"');
        }
        in_string = ends_in_string(&text[start..end], in_string);
        done = end;
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Whether `text` ends inside a JSON string, depending on whether it begins inside one.
fn ends_in_string(text: &str, mut in_string: bool) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                bytes.next();
            }
            _ => {}
        }
    }
    in_string
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json as value};

    use super::{Cow, json};

    #[test]
    fn masked_json_is_json_without_the_secrets() {
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
        let values = [
            value!({"password": 123456789012_u64, "n": 1}),
            value!({"a": format!("token {secret} \"quoted\" \\ {secret}"), "password": "hunter2x"}),
            value!({"text": value!({"apiKey": "abcdefgh12345678"}).to_string()}),
            value!({"headers": {"Authorization": "Bearer abcdefgh.ijklmnop"}}),
        ];
        for value in values {
            let text = value.to_string();
            let masked = json(&text);
            assert_ne!(masked, text);
            let parsed: Value = serde_json::from_str(&masked).unwrap();
            let text = parsed.to_string();
            for secret in [secret, "hunter2x", "abcdefgh", "123456789012"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
        let clean = r#"{"a":"b"}"#;
        assert!(matches!(json(clean), Cow::Borrowed(_)));
    }
}
