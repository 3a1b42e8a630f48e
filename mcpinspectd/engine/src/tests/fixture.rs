//! An engine, a pair of peers that talk to each other, and a log of what the engine says.

use mcpinspect_core::model::{Direction, EndReason, Input, ServerId, ServerIdentity, Timestamp};
use mcpinspect_core::session::Correlation;
use mcpinspect_core::source::script::Script;
use mcpinspect_judge::detect::{Detector, NoDetector};
use mcpinspect_judge::registry::{Owner, Registry, ServerOf};
use serde_json::{Value, json};

use crate::{Engine, Limits, Output, OutputSink};

/// Writes down what the engine says, one line each.
#[derive(Default)]
pub(super) struct Log {
    pub(super) messages: Vec<Value>,
    pub(super) events: Vec<Value>,
    /// Both, in order.
    pub(super) all: Vec<Value>,
    /// Requests that were reported as overdue.
    pub(super) overdue: usize,
}

impl OutputSink for Log {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => {
                let line = json!({
                    "time": message.frame.time.0, "session": message.session.id.0, "server": message.session.server_id.0,
                    "direction": message.frame.direction, "kind": message.head.kind, "method": message.head.method, "id": message.head.id,
                    "bytes": String::from_utf8_lossy(message.bytes), "gap": message.frame.gap_before, "reply_to": message.exchange.reply_to(),
                    "tool": message.exchange.tool.as_deref(), "correlation": message.exchange.correlation.map(Correlation::as_str), "concerns": message.exchange.concerns,
                    "call": message.exchange.call, "latency": message.exchange.latency_ns, "error": message.exchange.is_error, "invalid": message.head.invalid_reason,
                });
                self.messages.push(line.clone());
                self.all.push(line);
            }
            Output::Overdue(_) => self.overdue += 1,
            Output::Event(event) => {
                let line = serde_json::to_value(event).unwrap();
                self.events.push(line.clone());
                self.all.push(line);
            }
            _ => {}
        }
    }
}

impl Log {
    /// The events of one type since the last call, abbreviated.
    pub(super) fn take(&mut self, kind: &str) -> Vec<Value> {
        let all = std::mem::take(&mut self.events);
        let (taken, kept) = all.into_iter().partition(|event| event["type"] == kind);
        self.events = kept;
        taken
    }

    /// `name status` of the tool events since the last call.
    pub(super) fn tools(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.events);
        all.iter()
            .filter(|event| event["type"] == "mcp_tool_seen" || event["type"] == "mcp_tool_changed")
            .map(|event| {
                format!(
                    "{} {}",
                    event["tool_name"].as_str().unwrap(),
                    event["status"].as_str().unwrap()
                )
            })
            .collect()
    }
}

/// An engine, what it says, and a pair of peers that talk to each other.
pub(super) struct Wire {
    pub(super) engine: Engine,
    pub(super) log: Log,
    pub(super) script: Script,
}

/// A session `name` with the server `files`, which continues at `time`.
pub(super) fn session(name: &str, time: Timestamp) -> Script {
    let identity = ServerIdentity {
        server_id: ServerId("files".into()),
        fingerprint: "f0".to_owned(),
        name_source: "test".to_owned(),
        publisher: None,
        former: None,
    };
    Script::new(name).identity(identity).paced(time, 1)
}

/// The server of [`session`], with an unknown owner.
pub(super) fn files() -> ServerOf<'static> {
    ServerOf::new(Owner::Unknown, "files")
}

impl Wire {
    pub(super) fn new() -> Self {
        Self::with(Box::new(NoDetector), Limits::default())
    }

    pub(super) fn with(detector: Box<dyn Detector + Send>, limits: Limits) -> Self {
        let engine = Engine::new(limits, Registry::in_memory(), detector);
        let mut wire = Self {
            engine,
            log: Log::default(),
            script: session("first", Timestamp(1)),
        };
        wire.input(wire.script.start());
        wire
    }

    pub(super) fn input(&mut self, input: Input<'_>) {
        self.engine.handle(input, &mut self.log);
    }

    pub(super) fn start(&mut self, name: &str, joined_midstream: bool) {
        self.script = session(name, self.script.time());
        if joined_midstream {
            self.script = self.script.clone().joined_midstream();
        }
        self.input(self.script.start());
    }

    pub(super) fn bytes(&mut self, direction: Direction, bytes: &[u8]) {
        let input = self.script.bytes(direction, bytes);
        self.engine.handle(input, &mut self.log);
    }

    pub(super) fn line(&mut self, direction: Direction, text: &str) {
        let input = self.script.line(direction, text);
        self.input(input);
    }

    pub(super) fn gap(&mut self, direction: Direction, bytes_lost: u64) {
        let input = self.script.gap(direction, bytes_lost);
        self.input(input);
    }

    pub(super) fn end(&mut self) {
        self.input(self.script.end(EndReason::ServerExited));
    }

    /// The client asks, the server answers.
    pub(super) fn ask(&mut self, method: &str, params: Value, result: Value) {
        for input in self.script.exchange(method, params, result) {
            self.input(input);
        }
    }

    pub(super) fn list(&mut self, tools: &[Value]) {
        self.ask("tools/list", json!({}), json!({ "tools": tools }));
    }

    pub(super) fn program(&mut self, definition: Value) {
        let definition = serde_json::value::to_raw_value(&definition).unwrap();
        let input = self.script.program(definition);
        self.input(input);
    }
}

pub(super) fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

pub(super) fn package(name: &str, version: &str) -> Value {
    json!({"executable": "/usr/bin/node", "package": name, "version": version})
}
