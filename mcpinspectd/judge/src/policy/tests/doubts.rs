//! What can be read in two ways does not pass if a rule might concern it.

use super::*;

const NO_WRITES: &str = r#"
    [[rule]]
    id = "no-writes"
    when = { method = "tools/call", tool = "write" }
    action = "block"
    [[rule]]
    id = "no-etc"
    when = { method = "tools/call", param = { path = "arguments.path", contains = "/etc" } }
    action = "block"
"#;

#[test]
fn no_spelling_gets_past_a_rule() {
    for (line, reason) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"write"}}"#,
            "repeated_member",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping","params":{"name":"write"}}"#,
            "repeated_member",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"write"}}"#,
            "odd_spelling",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","name":"write"}}"#,
            "repeated_member",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","n\u0061me":"read"}}"#,
            "repeated_member",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","NAME":"write"}}"#,
            "odd_spelling",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"Path":"/etc"}}}"#,
            "odd_spelling",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"},"params":{"name":"write"}}"#,
            "repeated_member",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{},"params":{"name":"read"}}"#,
            "method_and_outcome",
        ),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"read"}}"#,
            "unusable_id",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"path":"\ud800/etc"}}}"#,
            "lone_surrogate",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"n":1e999}}}"#,
            "number_range",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","x":NaN}}"#,
            "not_json",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write"}"#,
            "truncated_json",
        ),
        (
            r#"{"Jsonrpc":"2.0","Id":1,"Method":"tools/call","Params":{"name":"write"}}"#,
            "not_a_message",
        ),
        (
            "x\r{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"write\"}}",
            "not_json",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\r{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"write\"}}\r}}",
            "carriage_return",
        ),
        (
            r#"[[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write"}}]]"#,
            "nested_batch",
        ),
    ] {
        let became = Tried::new(NO_WRITES).say(TO_SERVER, line);
        if reason == "nested_batch" {
            // No revision of the protocol has them, and no reader takes one for a message.
            continue;
        }
        assert_eq!(became.passed, None, "{line}");
        assert_eq!(became.records[0].reason, Some(reason), "{line}");
        assert_eq!(became.actions(), ["refuse"], "{line}");
    }
    let invalid = [
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","x":""#
            .as_slice(),
        b"\xff\"}}",
    ]
    .concat();
    assert_eq!(
        Tried::new(NO_WRITES).say(TO_SERVER, invalid).records[0].reason,
        Some("invalid_utf8")
    );
    let deep = call(
        1,
        "read",
        &format!("{}{}", "[".repeat(200), "]".repeat(200)),
    );
    assert_eq!(
        Tried::new(NO_WRITES).say(TO_SERVER, deep).records[0].reason,
        Some("too_deep")
    );
}

#[test]
fn escapes_are_no_disguise() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"m\u0065thod":"tools\/call","params":{"n\u0061me":"\u0077rite"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"p\u0061th":"\/\u0065tc/passwd"}}}"#,
        r#"  {"params":{"name":"write"},"id":"x","method":"tools/call"}  "#,
        "\u{feff}{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"write\"}}",
    ] {
        assert_eq!(
            Tried::new(NO_WRITES).say(TO_SERVER, line).actions(),
            ["block"],
            "{line}"
        );
    }
}

#[test]
fn what_no_rule_could_concern_passes_as_it_is() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"Name":1}}"#,
        "Server started {on port 1}",
        "[INFO] listening",
        "[]",
        "{}",
        r#"[{"x":{"other":0}}]"#,
        "17",
        "\u{1f680} {",
    ] {
        let mut tried = Tried::new(NO_WRITES);
        let became = tried.say(TO_SERVER, line);
        if line.contains('\u{1f680}') {
            // A reader that skips anything but ASCII sees a brace first.
            assert_eq!(became.passed, None);
            continue;
        }
        assert_eq!(became.passed.as_deref(), Some(line.as_bytes()), "{line}");
        assert!(became.records.is_empty());
    }
    // An answer to nothing is still not a request.
    for line in [result(7, "{}"), result(7, "{\"a\":0,\"a\":0}")] {
        assert!(Tried::new(NO_WRITES).say(TO_CLIENT, line).passed.is_some());
    }
    // The rules are about the client's messages only.
    let only = NO_WRITES.replace("when = {", "when = { from = \"client\",");
    let line = r#"{"jsonrpc":"2.0","id":1,"result":{},"result":1}"#;
    assert!(Tried::new(&only).say(TO_CLIENT, line).passed.is_some());
    // Nothing is kept back, so nothing has to be certain.
    let log = NO_WRITES.replace("block", "log");
    let line =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","name":"x"}}"#;
    assert!(Tried::new(&log).say(TO_SERVER, line).passed.is_some());
}

#[test]
fn an_answer_to_nothing_could_be_any_answer() {
    let policy = r#"
        [[rule]]
        id = "masked"
        on = ["response"]
        when = { method = "tools/call" }
        action = "modify"
        redact = [{ path = "**", matches = "key" }]
    "#;
    let mut tried = Tried::new(policy);
    assert!(tried.calls(1, "x"));
    for line in [result(7, "\"key\""), result(1, "1").replace(":1,", ":1.0,")] {
        assert_eq!(tried.say(TO_CLIENT, line).passed, None);
    }
    assert_eq!(
        tried.say(TO_CLIENT, result(1, "{\"a\":\"a key\"}")).text(),
        result(1, "{\"a\":\"a «redacted»\"}")
    );
    // The same id once more.
    assert_eq!(tried.say(TO_CLIENT, result(1, "\"key\"")).passed, None);
    // An honest server's text may end in half an emoji.
    assert!(tried.calls(2, "x"));
    assert!(
        tried
            .say(TO_CLIENT, result(2, r#"{"a":"\ud83d"}"#))
            .passed
            .is_some()
    );
    assert!(tried.calls(3, "x"));
    let became = tried.say(TO_CLIENT, result(3, r#"{"a":1,"a":"key"}"#));
    assert!(became.text().contains("\"error\""));
}

#[test]
fn a_listing_that_can_be_read_twice_is_refused_where_tools_are_hidden() {
    let policy = "[[rule]]\nid = \"a\"\nwhen = { tool = \"rm\" }\naction = \"hide\"\n";
    let mut tried = Tried::new(policy);
    tried.say(
        TO_SERVER,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
    );
    let became = tried.say(
        TO_CLIENT,
        result(1, r#"{"tools":[{"name":"rm","name":"ls"}]}"#),
    );
    assert_eq!(became.actions(), ["refuse"]);
}

/// A server answers what it could not read without an id.
#[test]
fn an_error_without_an_id_answers_what_waits() {
    let policy = r#"
        [[rule]]
        id = "no-env"
        on = ["response"]
        when = { tool = "env" }
        action = "block"
    "#;
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no key"}}"#;
    let mut tried = Tried::new(policy);
    assert_eq!(tried.say(TO_CLIENT, error).text(), error);
    assert!(tried.calls(1, "env"));
    let became = tried.say(TO_CLIENT, error);
    assert_eq!(became.actions(), ["block"]);
    assert_eq!(became.passed, None);
    // Either may be meant.
    assert!(tried.calls(2, "x"));
    assert_eq!(tried.say(TO_CLIENT, error).passed, None);
    // A result without an id belongs to no request.
    let mut tried = Tried::new(policy);
    let result = error.replace("error", "result");
    assert_eq!(tried.say(TO_CLIENT, result).passed, None);
}
