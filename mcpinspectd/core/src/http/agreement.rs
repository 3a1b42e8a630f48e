//! Compares header fields that repeat what a message says with the message (2026-07-28).
//!
//! Gateways route and authorise by `Mcp-Method` and `Mcp-Name`, so that they need not read the body, and
//! servers act on the body. A request whose head says `tools/list` but whose body calls a tool passes
//! the former and reaches the latter.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::event::Mirrored;
use super::head::McpFields;
use crate::mcp::view::Params;
use crate::mcp::{Message, Parsed, Payload, parse};

/// The longest text to show, in bytes.
const SHOWN: usize = 256;

/// Compares the fields of a head with its message. `differ` receives the field, what it says, and what the
/// message says.
pub(super) fn compare(
    fields: &McpFields,
    message: &[u8],
    differ: &mut dyn FnMut(Mirrored, &str, Option<&str>),
) {
    let McpFields {
        version,
        method,
        name,
        ..
    } = fields;
    if version.is_none() && method.is_none() && name.is_none() {
        return;
    }
    // Batches predate the fields, and a response has nothing that they repeat.
    let Ok(Payload::Single(Parsed { message, .. })) = parse(message) else {
        return;
    };
    let (Message::Request(_) | Message::Notification(_)) = message else {
        return;
    };
    let mut check = |field, head: Option<&str>, message: Option<&str>, must_stand: bool| {
        if let Some(head) = head
            && message != Some(head)
            && (must_stand || message.is_some())
        {
            differ(field, shown(head), message.map(shown));
        }
    };
    check(Mirrored::Method, method.as_deref(), message.method(), true);
    let params = message.params().map(Params::read).unwrap_or_default();
    let named = match message.method() {
        Some("tools/call" | "prompts/get") => params.name.as_deref(),
        Some(method) if method.starts_with("resources/") => params.uri.as_deref(),
        _ => params.name.as_deref().or(params.uri.as_deref()),
    };
    let name = name.as_deref().map(decoded);
    check(Mirrored::Name, name.as_deref(), named, true);
    // Before 2026-07-28, messages do not state their version.
    let meta = params.meta.and_then(|meta| meta.protocol_version);
    check(
        Mirrored::Version,
        version.as_deref(),
        meta.as_deref(),
        false,
    );
}

/// The field of a head that contradicts its message, if there is one. A batch has nothing that
/// such a field could repeat.
pub fn disagreement(fields: &McpFields, message: &[u8]) -> Option<Mirrored> {
    let mut found = None;
    compare(fields, message, &mut |field, _, _| {
        found.get_or_insert(field);
    });
    let names_one = fields.method.is_some() || fields.name.is_some();
    if names_one && matches!(parse(message), Ok(Payload::Batch(_))) {
        found = Some(Mirrored::Method);
    }
    found
}

/// A field's decoded value: text that a field cannot hold is encoded as `=?base64?…?=`.
pub fn decoded(value: &str) -> Cow<'_, str> {
    const PREFIX: &str = "=?base64?";
    let start = value.get(..PREFIX.len());
    let inner = start
        .filter(|start| start.eq_ignore_ascii_case(PREFIX))
        .and_then(|_| value[PREFIX.len()..].strip_suffix("?="));
    let bytes = inner.and_then(|inner| STANDARD.decode(inner).ok());
    match bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => text.into(),
        None => value.into(),
    }
}

fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(
        fields: [Option<&str>; 3],
        message: &str,
    ) -> Vec<(Mirrored, String, Option<String>)> {
        let [method, name, version] = fields.map(|field| field.map(Into::into));
        let fields = McpFields {
            method,
            name,
            version,
            ..McpFields::default()
        };
        let mut seen = Vec::new();
        compare(&fields, message.as_bytes(), &mut |field, head, message| {
            seen.push((field, head.to_owned(), message.map(str::to_owned)));
        });
        seen
    }

    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"grün",
        "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;

    #[test]
    fn what_agrees_is_no_finding() {
        let encoded = "=?base64?Z3LDvG4=?=";
        for fields in [
            [Some("tools/call"), Some(encoded), Some("2026-07-28")],
            [Some("tools/call"), Some("=?BASE64?Z3LDvG4=?="), None],
            [None, None, None],
        ] {
            assert_eq!(differences(fields, CALL), []);
        }
        let older = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert_eq!(differences([None, None, Some("2025-06-18")], older), []);
        let response = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert_eq!(differences([Some("tools/call"), None, None], response), []);
        let read = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}"#;
        assert_eq!(
            differences([Some("resources/read"), Some("a:b"), None], read),
            []
        );
    }

    #[test]
    fn a_batch_agrees_with_no_field() {
        let fields = McpFields {
            method: Some("tools/list".into()),
            ..McpFields::default()
        };
        let listing = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        assert_eq!(disagreement(&fields, listing.as_bytes()), None);
        let batch = format!("[{listing}]");
        assert_eq!(
            disagreement(&fields, batch.as_bytes()),
            Some(Mirrored::Method)
        );
        assert_eq!(disagreement(&McpFields::default(), batch.as_bytes()), None);
    }

    #[test]
    fn what_disagrees_is_one() {
        let fields = [Some("tools/list"), Some("safe"), Some("2025-11-25")];
        let expected = [
            (
                Mirrored::Method,
                "tools/list".to_owned(),
                Some("tools/call".to_owned()),
            ),
            (Mirrored::Name, "safe".to_owned(), Some("grün".to_owned())),
            (
                Mirrored::Version,
                "2025-11-25".to_owned(),
                Some("2026-07-28".to_owned()),
            ),
        ];
        assert_eq!(differences(fields, CALL), expected);
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let unnamed = [(Mirrored::Name, "safe".to_owned(), None)];
        assert_eq!(
            differences([Some("ping"), Some("safe"), None], ping),
            unnamed
        );
    }
}
