//! Losses: they are counted, reported, and never mistaken for a change.

use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
use mcpinspect_core::wire::held::{BufferUsage, Scratch, UNFINISHED_IN_MEMORY, UNFINISHED_SMALL};
use mcpinspect_judge::detect::NoDetector;
use serde_json::{Value, json};

use super::fixture::{Wire, session, tool};
use crate::Limits;

#[test]
fn a_gap_is_told_and_never_a_change() {
    let mut wire = Wire::new();
    wire.list(&[tool("a", ""), tool("b", "")]);
    wire.log.tools();
    // The second page is lost, with its request still seen.
    wire.ask(
        "tools/list",
        json!({}),
        json!({"tools": [tool("a", "")], "nextCursor": "2"}),
    );
    wire.line(
        Up,
        r#"{"jsonrpc":"2.0","id":50,"method":"tools/list","params":{"cursor":"2"}}"#,
    );
    wire.bytes(
        Down,
        br#"{"jsonrpc":"2.0","id":50,"result":{"tools":[{"name":"b","descr"#,
    );
    wire.gap(Down, 40);
    wire.bytes(Down, b"e\":\"not what it was\"}]}}\n");
    // Whatever comes after is read again as soon as a line begins.
    wire.line(
        Down,
        r#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
    );
    wire.ask("tools/list", json!({"cursor": "2"}), json!({"tools": []}));
    let gap = &wire.log.take("mcp_capture_gap")[0];
    assert_eq!(
        (&gap["bytes_lost"], &gap["reason"], &gap["direction"]),
        (&json!(40), &json!("ring_full"), &json!("server_to_client"))
    );
    assert_eq!(wire.log.tools(), [""; 0]);
    assert!(wire.log.take("mcp_invalid_message").is_empty());
    let after = wire
        .log
        .messages
        .iter()
        .find(|message| message["method"] == "notifications/message")
        .unwrap();
    assert_eq!(after["gap"], true, "also where a torn line came between");
    assert!(
        wire.log
            .messages
            .iter()
            .all(|message| message["kind"] != "invalid")
    );
}

#[test]
fn a_whole_message_right_after_a_gap_is_not_lost() {
    let mut wire = Wire::new();
    wire.gap(Up, 100);
    wire.line(Up, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    wire.line(Up, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    let gaps: Vec<&Value> = wire
        .log
        .messages
        .iter()
        .map(|message| &message["gap"])
        .collect();
    assert_eq!(gaps, [true, false]);
}

#[test]
fn bytes_that_jump_are_a_gap() {
    let mut wire = Wire::new();
    wire.script.jump(Up, 64);
    wire.line(Up, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let gap = &wire.log.take("mcp_capture_gap")[0];
    assert_eq!(
        (&gap["bytes_lost"], &gap["position"], &gap["reason"]),
        (&json!(64), &json!(0), &json!("position_jump"))
    );
    assert_eq!(wire.log.messages[0]["gap"], true);
}

#[test]
fn a_message_above_the_maximum_is_lost_and_said() {
    let mut wire = Wire::with(
        Box::new(NoDetector),
        Limits {
            max_message: 200,
            ..Limits::default()
        },
    );
    wire.line(
        Down,
        &json!({"jsonrpc": "2.0", "id": 1, "result": {"x": "y".repeat(500)}}).to_string(),
    );
    wire.line(
        Down,
        r#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
    );
    let gap = &wire.log.take("mcp_capture_gap")[0];
    assert_eq!(gap["reason"], "frame_too_large");
    assert!(gap["bytes_lost"].as_u64().unwrap() > 500);
    assert_eq!(wire.log.messages.len(), 1);
    assert_eq!(wire.log.messages[0]["gap"], true);
}

#[test]
fn many_unfinished_messages_share_one_budget() {
    let limits = Limits {
        max_unfinished: 1 << 20,
        ..Limits::default()
    };
    let mut wire = Wire::with(Box::new(NoDetector), limits);
    let names: Vec<String> = (0..40).map(|index| format!("s{index}")).collect();
    for name in &names {
        wire.start(name, false);
        for _ in 0..16 {
            wire.bytes(Down, &[b'x'; 16 << 10]);
        }
        assert!(
            wire.engine.unfinished.total() <= 2 << 20,
            "{:?}",
            wire.engine.unfinished
        );
    }
    for name in &names {
        wire.script = session(name, wire.script.time());
        wire.end();
    }
    assert_eq!(wire.engine.unfinished, BufferUsage::default());
    let lost = wire.log.take("mcp_capture_gap");
    assert!(
        lost.len() >= 30,
        "what was given up is said: {}",
        lost.len()
    );
}

#[test]
fn large_unfinished_messages_wait_in_files_and_small_ones_have_a_budget() {
    let mut wire = Wire::new();
    wire.engine.scratch = Some(Scratch::new(std::env::temp_dir()));
    let large =
        json!({"jsonrpc": "2.0", "id": 1, "result": {"x": "y".repeat(20 << 20)}}).to_string();
    wire.start("large", false);
    for part in large.as_bytes().chunks(64 << 10) {
        wire.bytes(Down, part);
        assert!(wire.engine.unfinished.memory <= UNFINISHED_IN_MEMORY + (64 << 10));
    }
    assert_eq!(wire.engine.unfinished.files, large.len());
    let script = wire.script.clone();
    for index in 0..400 {
        wire.start(&format!("small-{index}"), false);
        wire.bytes(Down, &[b'x'; 100 << 10]);
        assert!(wire.engine.unfinished.memory <= UNFINISHED_SMALL);
    }
    wire.script = script;
    wire.bytes(Down, b"\n");
    assert_eq!(wire.log.messages.len(), 1);
    assert_eq!(wire.engine.unfinished.files, 0);
}
