//! Calls that wait too long, and calls that take several requests.

use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
use mcpinspect_core::model::Timestamp;
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_judge::detect::{ActiveRules, WeightedRules};
use serde_json::json;

use super::fixture::Wire;
use crate::Limits;

const SECOND: u64 = 1_000_000_000;

fn call(id: u64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "slow"}})
        .to_string()
}

#[test]
fn a_call_without_an_answer_hangs_once_and_is_answered_late() {
    let mut wire = Wire::new();
    wire.line(Up, &call(1));
    wire.line(
        Up,
        r#"{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen"}"#,
    );
    let now = Timestamp(wire.script.time().0 + 59 * SECOND);
    wire.engine.pass_time(now, &mut wire.log);
    assert!(wire.log.take("mcp_call_hung").is_empty());
    for seconds in [61, 63, 200] {
        let now = Timestamp(wire.script.time().0 + seconds * SECOND);
        wire.engine.pass_time(now, &mut wire.log);
    }
    let hung = wire.log.take("mcp_call_hung");
    assert_eq!(hung.len(), 1);
    assert_eq!(hung[0]["tool_name"], "slow");
    assert_eq!(hung[0]["waited_ms"], 60_000);
    wire.script.wait(300 * SECOND);
    wire.line(Down, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let answer = wire.log.messages.last().unwrap();
    assert_eq!(
        (&answer["correlation"], &answer["tool"]),
        (&json!("late"), &json!("slow"))
    );
    wire.end();
    assert_eq!(wire.log.take("mcp_session_ended")[0]["unanswered"], 0);
}

#[test]
fn the_times_of_inputs_count_too_and_progress_is_a_sign_of_life() {
    let mut wire = Wire::new();
    let progress = |wire: &mut Wire| {
        wire.script.wait(50 * SECOND);
        wire.line(Down, r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#);
    };
    wire.line(Up, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"p"}}}"#);
    for _ in 0..4 {
        progress(&mut wire);
        assert_eq!(wire.log.messages.last().unwrap()["concerns"], 1);
    }
    assert!(wire.log.take("mcp_call_hung").is_empty());
    wire.script.wait(61 * SECOND);
    wire.line(
        Down,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#,
    );
    let hung = wire.log.take("mcp_call_hung");
    assert_eq!((&hung[0]["progress"], hung.len()), (&json!(4), 1));
}

#[test]
fn a_server_that_waits_for_its_client_is_not_late() {
    let mut wire = Wire::new();
    wire.line(Up, &call(1));
    wire.line(
        Down,
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#,
    );
    wire.script.wait(500 * SECOND);
    wire.line(
        Up,
        r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#,
    );
    wire.script.wait(59 * SECOND);
    wire.line(Down, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert!(wire.log.take("mcp_call_hung").is_empty());
    assert_eq!(wire.log.messages.last().unwrap()["correlation"], "answer");
}

#[test]
fn a_flood_of_hung_calls_is_counted() {
    let mut wire = Wire::new();
    for id in 0..1000 {
        wire.line(Up, &call(id));
    }
    wire.script.wait(61 * SECOND);
    wire.line(Up, &call(1000));
    assert_eq!(wire.log.take("mcp_call_hung").len(), 5);
    assert_eq!(wire.log.overdue, 1000);
}

/// A server that needs more input, and what its client sends back.
fn chain(returned: &str) -> Wire {
    let active = ActiveRules::new(WeightedRules::builtin());
    let mut wire = Wire::with(
        Box::new(RuntimeDetector::new(active.into())),
        Limits::default(),
    );
    wire.line(Up, &call(1));
    wire.line(Down, r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{},"requestState":"s1"}}"#);
    let retry = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "slow", "requestState": returned, "inputResponses": {}}});
    wire.line(Up, &retry.to_string());
    wire.line(
        Down,
        r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[]}}"#,
    );
    wire
}

#[test]
fn a_retry_belongs_to_its_call() {
    let mut wire = chain("s1");
    assert!(wire.log.take("mcp_detection").is_empty());
    let calls: Vec<_> = wire
        .log
        .messages
        .iter()
        .map(|message| &message["call"])
        .collect();
    assert_eq!(calls, [&json!(null), &json!(null), &json!(1), &json!(1)]);
}

#[test]
fn a_state_that_comes_back_altered_is_a_finding() {
    let mut wire = chain("s2");
    let found = wire.log.take("mcp_detection");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["detection"]["pattern"], "request-state-altered");
    assert_eq!(found[0]["tool_name"], "slow");
}
