//! Sessions as a whole: from start to end, and many at once.

use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
use serde_json::json;

use super::fixture::{Wire, session, tool};

#[test]
fn a_session_from_start_to_end() {
    let mut wire = Wire::new();
    let initialize = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let answer = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "2"}});
    wire.ask("initialize", initialize, answer);
    wire.line(
        Up,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    );
    wire.list(&[tool("read", "Reads a file")]);
    wire.ask(
        "tools/call",
        json!({"name": "read"}),
        json!({"content": [], "isError": true}),
    );
    wire.line(Up, r#"{"jsonrpc":"2.0","id":99,"method":"ping"}"#);
    wire.end();

    let started = &wire.log.take("mcp_session_started")[0];
    assert_eq!(
        (&started["server_id"], &started["fingerprint"]),
        (&json!("files"), &json!("f0"))
    );
    let identified = wire.log.take("mcp_session_identified");
    assert_eq!(identified.len(), 1);
    assert_eq!(identified[0]["server_info"]["name"], "s");
    assert_eq!(identified[0]["client_info"]["name"], "c");
    assert_eq!(identified[0]["protocol_version"], "2025-06-18");
    let ended = &wire.log.take("mcp_session_ended")[0];
    assert_eq!(
        (
            &ended["messages"],
            &ended["unanswered"],
            &ended["bytes_lost"]
        ),
        (&json!(8), &json!(1), &json!(0))
    );
    assert_eq!(
        ended["bytes"],
        wire.script.position(Up) + wire.script.position(Down)
    );

    let last = &wire.log.messages[6];
    assert_eq!(
        (&last["kind"], &last["reply_to"], &last["tool"]),
        (&json!("response"), &json!("tools/call"), &json!("read"))
    );
    assert_eq!(
        (&last["latency"], &last["error"], &last["id"]),
        (&json!(1), &json!(true), &json!("2"))
    );
    assert_eq!(wire.log.messages[2]["kind"], "notification");
    assert_eq!(wire.engine.sessions(), 0);
}

#[test]
fn a_session_joined_under_way_starts_with_the_next_line() {
    let mut wire = Wire::new();
    wire.start("joined", true);
    wire.script.jump(Up, 5000);
    wire.script.jump(Down, 7000);
    wire.bytes(Down, b"est of a line\"}]}}\n");
    wire.line(
        Up,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}"#,
    );
    wire.line(Down, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    // The answer to an earlier request: a list, but it is unknown which page.
    wire.line(
        Down,
        &json!({"jsonrpc": "2.0", "id": 3, "result": {"tools": [tool("a", "")]}}).to_string(),
    );
    assert_eq!(wire.log.messages.len(), 3);
    assert!(
        wire.log
            .messages
            .iter()
            .all(|message| message["gap"] == false && message["kind"] != "invalid")
    );
    assert_eq!(wire.log.messages[1]["tool"], "t");
    assert_eq!(wire.log.tools(), ["a new"]);
    assert!(wire.log.take("mcp_capture_gap").is_empty());
}

#[test]
fn an_unfinished_last_line_is_seen_at_the_end() {
    let mut wire = Wire::new();
    wire.bytes(
        Down,
        br#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
    );
    assert!(wire.log.messages.is_empty());
    wire.end();
    assert_eq!(wire.log.messages[0]["method"], "notifications/message");
    // Nothing of it follows.
    wire.line(
        Down,
        r#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
    );
    assert_eq!(wire.log.messages.len(), 1);
}

#[test]
fn ten_servers_with_the_same_handshake_are_kept_apart() {
    let mut wire = Wire::new();
    let names: Vec<String> = (0..10).map(|index| format!("s{index}")).collect();
    for name in &names {
        wire.start(name, false);
    }
    for direction in [Up, Down] {
        for (index, name) in names.iter().enumerate() {
            wire.script = session(name, wire.script.time());
            let line = match direction {
                Up => format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t{index}"}}}}"#
                ),
                Down => r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(),
            };
            wire.line(direction, &line);
        }
    }
    for message in &wire.log.messages[10..] {
        assert_eq!(
            message["tool"].as_str().unwrap()[1..],
            message["session"].as_str().unwrap()[1..]
        );
        assert_eq!(message["latency"], 10);
    }
}
