//! What a hundred servers cost in memory. A suite of its own, because it measures its process.
#![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]

use mcpinspect_core::model::Direction;
use mcpinspect_core::source::script::Script;
use mcpinspect_engine::{Engine, Limits, Output, OutputSink};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_store::registry;
use serde_json::json;

#[derive(Default)]
struct Count(u64);

impl OutputSink for Count {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Message(_) = output {
            self.0 += 1;
        }
    }
}

fn send(
    script: &mut Script,
    engine: &mut Engine,
    count: &mut Count,
    direction: Direction,
    text: &str,
) {
    for bytes in [text.as_bytes(), b"\n"]
        .iter()
        .flat_map(|part| part.chunks(64 << 10))
    {
        engine.handle(script.bytes(direction, bytes), count);
        script.wait(1000);
    }
}

/// Resident memory in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .next()
        .unwrap()
        .parse::<usize>()
        .unwrap()
        * 1024
}

#[test]
fn a_hundred_servers_with_ten_thousand_open_requests_fit() {
    let folder = tempfile::tempdir().unwrap();
    let registry = registry::open(&folder.path().join("registry.db")).unwrap();
    let mut engine = Engine::new(Limits::default(), registry, Box::new(NoDetector));
    let mut count = Count::default();
    let mut scripts: Vec<Script> = Vec::new();
    for index in 0..100 {
        let script = Script::new(&format!("server-{index}")).session(&format!("session-{index}"));
        engine.handle(script.start(), &mut count);
        scripts.push(script);
    }
    let tools: Vec<_> = (0..20)
        .map(|index| json!({"name": format!("tool_{index}"), "description": "x".repeat(1000), "inputSchema": {"type": "object"}}))
        .collect();
    let list = json!({"jsonrpc": "2.0", "id": -1, "result": {"tools": tools}}).to_string();
    let large = json!({"jsonrpc": "2.0", "id": -2, "result": {"content": [{"type": "text", "text": "y".repeat(8 << 20)}]}}).to_string();
    for script in &mut scripts {
        let mut send = |direction, text: &str| {
            send(script, &mut engine, &mut count, direction, text);
        };
        send(
            Direction::ClientToServer,
            r#"{"jsonrpc":"2.0","id":-1,"method":"tools/list"}"#,
        );
        send(Direction::ServerToClient, &list);
        for id in 0..100 {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "tool_1", "arguments": {"a": "b"}}});
            send(Direction::ClientToServer, &call.to_string());
        }
    }
    for script in scripts.iter_mut().take(5) {
        let direction = Direction::ServerToClient;
        send(script, &mut engine, &mut count, direction, &large);
    }
    assert_eq!(count.0, 100 * 102 + 5);
    // The two texts above belong to the test, not to the engine.
    let engine_and_all = resident() - large.len() - list.len();
    println!("resident: {} KiB", engine_and_all / 1024);
    assert!(engine_and_all < 64 << 20, "{} KiB", engine_and_all / 1024);
}
