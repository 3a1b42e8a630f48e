#![expect(clippy::panic, reason = "a failed assumption fails the test")]
use proptest::prelude::*;

use super::*;

fn single(text: &str) -> Parsed<'_> {
    match parse(text.as_bytes()) {
        Ok(Payload::Single(parsed)) => parsed,
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn malformed(text: impl AsRef<[u8]>, expected: Malformed) {
    match parse(text.as_ref()) {
        Err(malformed) => assert_eq!(malformed, expected),
        Ok(payload) => panic!("{payload:?}"),
    }
}

fn id(text: &str) -> Option<String> {
    single(text).message.id().map(|id| id.0.to_owned())
}

#[test]
fn the_three_kinds() {
    let request = single(r#"{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"x"}}"#);
    assert!(matches!(&request.message, Message::Request(request)
        if request.method == "tools/call" && request.id == Id("0") && request.params.unwrap().get() == r#"{"name":"x"}"#));
    assert_eq!(request.irregular, None);
    let notification = single("  {\"method\":\"notifications/initialized\",\"jsonrpc\":\"2.0\"}\r");
    assert!(matches!(
        notification.message,
        Message::Notification(Notification { params: None, .. })
    ));
    assert_eq!(notification.irregular, None);
    let result = single(r#"{"result":{},"jsonrpc":"2.0","id":"a-1"}"#);
    assert!(matches!(
        result.message,
        Message::Response(Response {
            id: Some(Id("\"a-1\"")),
            outcome: Outcome::Result(_)
        })
    ));
    let error = single(r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":""}}"#);
    assert!(matches!(
        error.message,
        Message::Response(Response {
            id: None,
            outcome: Outcome::Error(_)
        })
    ));
    assert_eq!(error.irregular, None);
}

#[test]
fn ids_of_every_sort() {
    for text in [
        "0",
        "-1",
        "1.5",
        "18446744073709551616",
        "1e3",
        r#""""#,
        r#""x\u0041""#,
    ] {
        let message = format!(r#"{{"jsonrpc":"2.0","method":"m","id":{text}}}"#);
        assert_eq!(id(&message).as_deref(), Some(text));
    }
    for text in ["null", "true", "[1]", "{}"] {
        let message = format!(r#"{{"jsonrpc":"2.0","method":"m","id":{text}}}"#);
        let parsed = single(&message);
        assert!(matches!(parsed.message, Message::Notification(_)));
        assert_eq!(parsed.irregular, Some(Irregularity::UnusableId));
    }
    assert_eq!(
        single(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#).irregular,
        None
    );
    assert_eq!(
        single(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#).irregular,
        Some(Irregularity::UnusableId)
    );
}

#[test]
fn oddities_are_messages_with_a_note() {
    let odd = |text| single(text).irregular;
    assert_eq!(
        odd(r#"{"id":1,"method":"a"}"#),
        Some(Irregularity::ForeignVersion)
    );
    assert_eq!(
        odd(r#"{"id":1,"method":"a","jsonrpc":"1.0"}"#),
        Some(Irregularity::ForeignVersion)
    );
    assert_eq!(
        odd(r#"{"id":1,"method":"a","jsonrpc":2.0}"#),
        Some(Irregularity::ForeignVersion)
    );
    assert_eq!(
        odd(r#"{"jsonrpc":"2.0","id":1,"method":"a","result":1}"#),
        Some(Irregularity::MethodAndOutcome)
    );
    assert_eq!(
        odd(r#"{"jsonrpc":"2.0","id":1,"error":{},"result":1}"#),
        Some(Irregularity::ResultAndError)
    );
    assert_eq!(
        odd(r#"{"jsonrpc":"2.0","id":1,"error":null,"result":1}"#),
        None
    );
    assert_eq!(odd(r#"{"jsonrpc":"2.0","id":1,"result":null}"#), None);
    assert_eq!(
        odd(r#"{"jsonrpc":"2.0","id":1,"method":"a","extra":[1]}"#),
        None
    );

    let repeated = single(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a","\u006dethod":"b"}"#);
    assert_eq!(repeated.irregular, Some(Irregularity::RepeatedMember));
    assert_eq!(repeated.message.method(), Some("b"));
    assert_eq!(repeated.message.id(), Some(Id("2")));
}

#[test]
fn malformed_frames() {
    malformed(b"{\"method\":\"\xff\"}", Malformed::InvalidUtf8);
    malformed("Server running on stdio", Malformed::NotJson);
    malformed("", Malformed::NotJson);
    malformed("{", Malformed::TruncatedJson);
    malformed(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"#,
        Malformed::TruncatedJson,
    );
    malformed("{}{}", Malformed::NotJson);
    malformed("{'a':1}", Malformed::NotJson);
    malformed("\"text\"", Malformed::NotAnObject);
    malformed("12", Malformed::NotAnObject);
    malformed("{}", Malformed::NotAMessage);
    malformed(r#"{"jsonrpc":"2.0","id":1}"#, Malformed::NotAMessage);
    malformed(
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        Malformed::NotAMessage,
    );
    malformed("[]", Malformed::EmptyBatch);
    malformed(
        r#"[{"jsonrpc":"2.0","method":"a"},"#,
        Malformed::TruncatedJson,
    );
    malformed("[INFO] starting", Malformed::NotJson);
}

#[test]
fn batches() {
    let text = r#"[{"jsonrpc":"2.0","id":1,"method":"a"}, {"jsonrpc":"2.0","id":2,"result":{}}, 7, [], {"x":1}]"#;
    let Ok(Payload::Batch(batch)) = parse(text.as_bytes()) else {
        panic!("no batch")
    };
    let mut seen = Vec::new();
    batch.for_each(|message| {
        seen.push(message.map(|parsed| parsed.message.id().map(|id| id.0.to_owned())))
    });
    assert_eq!(
        seen,
        [
            Ok(Some("1".to_owned())),
            Ok(Some("2".to_owned())),
            Err(Malformed::NotAnObject),
            Err(Malformed::NotAnObject),
            Err(Malformed::NotAMessage),
        ]
    );
}

#[test]
fn depth_costs_no_stack() {
    let depth = 1 << 20;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}{}}}"#,
        "[".repeat(depth),
        "]".repeat(depth)
    );
    assert_eq!(single(&deep).message.method(), Some("m"));
    malformed("[".repeat(depth), Malformed::TruncatedJson);
    let objects = "{\"a\":".repeat(depth);
    malformed(&objects, Malformed::TruncatedJson);
}

#[test]
fn lone_surrogates_are_read_as_clients_read_them() {
    let parsed =
        single(r#"{"jsonrpc":"2.0","\udc00":1,"method":"a\ud800","params":{"x":"\udfff"}}"#);
    assert!(parsed.message.method().unwrap().starts_with('a'));
    assert_eq!(parsed.irregular, None);
}

proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn never_panics_on_almost_json(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("{"), Just("}"), Just("["), Just("]"), Just(","), Just(":"), Just("\"jsonrpc\""), Just("\"2.0\""),
                Just("\"id\""), Just("\"method\""), Just("\"result\""), Just("null"), Just("-1"), Just("\"\\ud800\""), Just(" "),
            ],
            0..30,
        )
    ) {
        if let Ok(Payload::Batch(batch)) = parse(parts.concat().as_bytes()) {
            batch.for_each(|_| {});
        }
    }

    /// No proper suffix of a message's text is a message, which tentative frames rely on.
    #[test]
    fn no_suffix_of_a_message_is_one(text in ".{0,40}", number in any::<i64>(), nested in ".{0,10}") {
        let message = serde_json::json!({
            "jsonrpc": "2.0", "id": number, "method": text,
            "params": { "name": nested, "arguments": [{ text.clone(): nested.clone() }, number] },
        })
        .to_string();
        for start in (1..message.len()).filter(|&start| message.is_char_boundary(start)) {
            prop_assert!(parse(&message.as_bytes()[start..]).is_err());
        }
    }
}
