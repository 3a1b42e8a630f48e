//! Bytes in JSON, for `#[serde(with)]`: text if they are text, Base64 otherwise.
//!
//! Most bytes that cross a wire are JSON messages, and people should be able to read them. So UTF-8
//! becomes a string, and anything else becomes `{"base64": "…"}`. Text with control characters other
//! than line breaks and tabs counts as anything else: a string would write each of them as six
//! bytes. This way the JSON is at most about twice as long as the bytes.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserializer, Serializer};

/// The only key of bytes that are not text.
const BASE64: &str = "base64";

pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    if let Some(text) = as_text(bytes) {
        return serializer.serialize_str(text);
    }
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(BASE64, &STANDARD.encode(bytes))?;
    map.end()
}

fn as_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_plain = |byte: &u8| !byte.is_ascii_control() || matches!(byte, b'\n' | b'\r' | b'\t');
    bytes.iter().all(is_plain).then_some(text)
}

pub(super) fn deserialize<'de, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'a, [u8]>, D::Error> {
    deserializer.deserialize_any(BytesVisitor).map(Cow::Owned)
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an object with the key `base64`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        Ok(text.as_bytes().to_vec())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Vec<u8>, E> {
        Ok(text.into_bytes())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
        let entry: Option<(String, String)> = map.next_entry()?;
        let Some((key, text)) = entry.filter(|(key, _)| key == BASE64) else {
            return Err(Error::missing_field(BASE64));
        };
        if map.next_key::<String>()?.is_some() {
            return Err(Error::custom(format!("{key} must be the only key")));
        }
        STANDARD.decode(text).map_err(Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(transparent)]
    struct Bytes<'a>(#[serde(with = "super")] Cow<'a, [u8]>);

    #[test]
    fn text_stays_readable_and_everything_comes_back() {
        for (bytes, json) in [
            (&b""[..], r#""""#),
            (b"{\"a\":\t1}\r\n", r#""{\"a\":\t1}\r\n""#),
            ("grün \u{2028}".as_bytes(), "\"grün \u{2028}\""),
            (b"\xff\xfe", r#"{"base64":"//4="}"#),
            (b"\x1b[2J", r#"{"base64":"G1sySg=="}"#),
            (b"\0", r#"{"base64":"AA=="}"#),
        ] {
            let bytes = Bytes(Cow::Borrowed(bytes));
            assert_eq!(serde_json::to_string(&bytes).ok().as_deref(), Some(json));
            assert_eq!(serde_json::from_str::<Bytes<'_>>(json).ok(), Some(bytes));
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for json in [
            "1",
            "[]",
            "{}",
            r#"{"base64":1}"#,
            r#"{"base64":"?"}"#,
            r#"{"hex":"00"}"#,
            r#"{"base64":"AA==","hex":"00"}"#,
        ] {
            assert!(serde_json::from_str::<Bytes<'_>>(json).is_err(), "{json}");
        }
    }
}
