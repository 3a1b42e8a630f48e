//! Frames that are not one plain message.

use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
use serde_json::json;

use super::fixture::{Wire, tool};

#[test]
fn lines_that_are_no_messages_are_told_and_a_flood_is_counted() {
    let mut wire = Wire::new();
    wire.line(Down, "Server \u{1b}[31mrunning password=hunter2secret");
    let told = &wire.log.take("mcp_invalid_message")[0];
    assert_eq!(
        (&told["reason"], &told["bytes"]),
        (&json!("not_json"), &json!(42))
    );
    let excerpt = told["excerpt"].as_str().unwrap();
    assert!(
        excerpt.contains("\\u{1b}") && !excerpt.contains("hunter2"),
        "{excerpt}"
    );
    assert_eq!(wire.log.messages[0]["invalid"], "not_json");
    for _ in 0..1000 {
        wire.line(Down, "noise");
    }
    assert_eq!(wire.log.take("mcp_invalid_message").len(), 4);
    assert_eq!(wire.log.messages.len(), 1001);
    wire.script.wait(11_000_000_000);
    wire.line(Down, "noise");
    assert_eq!(wire.log.take("mcp_invalid_message")[0]["suppressed"], 996);
}

#[test]
fn batches_are_one_frame_of_many_messages() {
    let mut wire = Wire::new();
    wire.line(Up, r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#);
    let tools = tool("a", "");
    wire.line(Down, &json!([{"jsonrpc": "2.0", "id": 2, "result": {}}, {"jsonrpc": "2.0", "id": 1, "result": {"tools": [tools]}}]).to_string());
    wire.end();
    assert_eq!(wire.log.messages.len(), 2);
    assert!(
        wire.log
            .messages
            .iter()
            .all(|message| message["kind"] == "batch")
    );
    assert_eq!(wire.log.take("mcp_session_ended")[0]["unanswered"], 0);
    assert_eq!(wire.log.tools(), ["a new"]);
}

#[test]
fn what_two_readers_may_read_differently_is_pointed_out() {
    let mut wire = Wire::new();
    wire.line(
        Up,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#,
    );
    let told = &wire.log.take("mcp_invalid_message")[0];
    assert_eq!(told["reason"], "repeated_member");
    let message = &wire.log.messages[0];
    assert_eq!(
        (&message["kind"], &message["method"], &message["invalid"]),
        (
            &json!("request"),
            &json!("tools/call"),
            &json!("repeated_member")
        )
    );
}
