//! Decisions that people make about pins on disk become events of the engine, once each.
#![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]

use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
use mcpinspect_core::model::{ItemKind, Timestamp};
use mcpinspect_core::source::script::Script;
use mcpinspect_engine::{Engine, Limits, Output, OutputSink};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::{Attribution, DecidedBy, DecisionKind, ItemKey, Owner, ServerOf};
use mcpinspect_store::registry;
use serde_json::{Value, json};

/// How often the engine looks for decisions, in nanoseconds.
const LOOK_EVERY: u64 = 100_000_000;

/// The events of an engine.
#[derive(Default)]
struct Log(Vec<Value>);

impl OutputSink for Log {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output {
            self.0.push(serde_json::to_value(event).unwrap());
        }
    }
}

/// An engine in whose only session a server introduces itself and lists a tool.
fn listed(path: &std::path::Path) -> (Engine, Log) {
    let registry = registry::open(path).unwrap();
    let mut engine = Engine::new(Limits::default(), registry, Box::new(NoDetector));
    let (mut log, mut script) = (Log::default(), Script::new("files").paced(Timestamp(1), 1));
    engine.handle(script.start(), &mut log);
    let result = json!({"serverInfo": {"name": "s"}, "instructions": "Reads files."});
    let tools = json!({"tools": [{"name": "read", "description": "x", "inputSchema": {}}]});
    for (id, method, result) in [(1, "initialize", result), (2, "tools/list", tools)] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}});
        let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
        engine.handle(script.line(Up, request.to_string()), &mut log);
        engine.handle(script.line(Down, response.to_string()), &mut log);
    }
    log.0.clear();
    (engine, log)
}

#[test]
fn decisions_become_events_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let (mut engine, mut log) = listed(&path);
    let files = ServerOf::new(Owner::Unknown, "files");

    let mut person = registry::open_existing(&path).unwrap();
    let by = Attribution {
        by: DecidedBy::Person(1000),
        time: Timestamp(77_000),
        reason: "password=hunter2hunter2",
    };
    let read = ItemKey::tool("read");
    let hash = person
        .decide(files, &read, DecisionKind::Reject, None, by)
        .unwrap();
    let instructions = ItemKey::only(ItemKind::Instructions);
    person
        .decide(files, &instructions, DecisionKind::Unpin, None, by)
        .unwrap();
    let mut idle = |now| {
        engine.idle(Timestamp(now), &mut log);
        std::mem::take(&mut log.0)
    };
    let events = idle(LOOK_EVERY);
    assert_eq!(events.len(), 2);
    assert_eq!(
        events[0],
        json!({
            "type": "mcp_policy", "timestamp": "1970-01-01T00:00:00.000077Z", "session_id": "",
            "server_id": "files", "server_type": "stdio", "server_pid": null,
            "item": "tool", "tool_name": "read", "hash": hash.to_string(),
            "decision": "reject", "by": "person", "uid": 1000, "reason": events[0]["reason"],
        })
    );
    let reason = events[0]["reason"].as_str().unwrap();
    assert!(reason.contains("«redacted"), "{reason}");
    assert_eq!(
        [
            &events[1]["item"],
            &events[1]["tool_name"],
            &events[1]["decision"]
        ],
        [&json!("instructions"), &json!(null), &json!("unpin")]
    );
    assert_eq!(idle(10 * LOOK_EVERY), [""; 0]);

    // Checked at most ten times a second, and at once if the clock was set back.
    person
        .decide(files, &instructions, DecisionKind::Unpin, None, by)
        .unwrap();
    assert_eq!(idle(11 * LOOK_EVERY - 1), [""; 0]);
    assert_eq!(idle(11 * LOOK_EVERY).len(), 1);
    person
        .decide(files, &instructions, DecisionKind::Unpin, None, by)
        .unwrap();
    assert_eq!(idle(1).len(), 1);
}
