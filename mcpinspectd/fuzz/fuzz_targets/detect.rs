//! Arbitrary definitions and messages of several servers cause no panic, verdicts are bounded, and work grows
//! with the text alone.
#![cfg_attr(fuzzing, no_main)]

use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use mcpinspect_core::mcp;
use mcpinspect_core::mcp::Payload;
use mcpinspect_core::model::{
    Action, DefinitionHash, Direction, Pid, ServerId, SessionId, Timestamp, ToolStatus,
};
use mcpinspect_judge::detect::analysis::{Analyser, AnalysisContext, Subject};
use mcpinspect_judge::detect::json::Json;
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_judge::detect::{
    ActiveRules, Detector, MessageInContext, SessionContext, ToolDefinition, Verdict, WeightedRules,
};
use mcpinspectd_fuzz::fuzz_target;
use serde_json::value::RawValue;

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// A definition with arbitrary texts.
    Tool {
        server: u8,
        name: &'a str,
        description: &'a str,
        parameter: &'a str,
        changed: bool,
    },
    /// A definition that is arbitrary JSON.
    Raw {
        server: u8,
        text: &'a str,
    },
    Instructions {
        server: u8,
        text: &'a str,
    },
    /// A result with arbitrary text.
    Result {
        server: u8,
        tool: &'a str,
        text: &'a str,
    },
    /// A message that is arbitrary JSON.
    Message {
        server: u8,
        up: bool,
        text: &'a str,
    },
}

static RULES: LazyLock<Arc<WeightedRules>> = LazyLock::new(WeightedRules::builtin);

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).expect("a value is JSON")
}

fn run(steps: &[Step<'_>]) -> Vec<Verdict> {
    let mut detector = RuntimeDetector::new(Arc::new(ActiveRules::new(Arc::clone(&RULES))));
    let mut verdicts = Vec::new();
    for (time, step) in steps.iter().enumerate() {
        let (Step::Tool { server, .. }
        | Step::Raw { server, .. }
        | Step::Instructions { server, .. }
        | Step::Result { server, .. }
        | Step::Message { server, .. }) = step;
        let server_id = ServerId(format!("s{}", server % 4).into());
        let session_id = SessionId(format!("x{}", server % 8).into());
        let context = SessionContext {
            server_id: &server_id,
            user: (server % 2 == 0).then_some(u32::from(server % 8)),
            session_id: &session_id,
            client: (server % 3 > 0).then_some(Pid(u32::from(server % 3))),
            time: Timestamp(time as u64 * 1_000_000_000),
        };
        let mut tool = |definition: &RawValue, name: &str, pinned: Option<&RawValue>| {
            let tool = ToolDefinition {
                name,
                hash: DefinitionHash::of(definition.get().as_bytes()),
                definition,
                status: if pinned.is_some() {
                    ToolStatus::Changed
                } else {
                    ToolStatus::New
                },
                pinned,
            };
            detector.tool(&context, &tool)
        };
        let verdict = match step {
            Step::Tool {
                name,
                description,
                parameter,
                changed,
                ..
            } => {
                let definition = raw(&serde_json::json!({
                    "name": name, "description": description,
                    "inputSchema": {"properties": {*parameter: {"description": description, "default": parameter}}},
                }));
                let pinned = raw(&serde_json::json!({"name": name, "description": parameter}));
                tool(&definition, name, changed.then_some(&*pinned))
            }
            Step::Raw { text, .. } => match serde_json::from_str::<&RawValue>(text) {
                Ok(definition) => tool(definition, "raw", None),
                Err(_) => continue,
            },
            Step::Instructions { text, .. } => {
                detector.introduction(&context, &raw(&serde_json::json!(text)), ToolStatus::New)
            }
            Step::Result { tool, text, .. } => {
                let line = serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}}).to_string();
                message(
                    &mut detector,
                    &context,
                    &line,
                    Direction::ServerToClient,
                    Some("tools/call"),
                    Some(tool),
                )
            }
            Step::Message { up, text, .. } => {
                let direction = if *up {
                    Direction::ClientToServer
                } else {
                    Direction::ServerToClient
                };
                message(&mut detector, &context, text, direction, None, None)
            }
        };
        check(&verdict);
        verdicts.push(verdict);
    }
    verdicts
}

fn message(
    detector: &mut RuntimeDetector,
    context: &SessionContext<'_>,
    line: &str,
    direction: Direction,
    reply_to: Option<&str>,
    tool: Option<&str>,
) -> Verdict {
    match mcp::parse(line.as_bytes()) {
        Ok(Payload::Single(parsed)) => {
            let message = MessageInContext {
                direction,
                message: &parsed.message,
                reply_to,
                tool,
            };
            detector.message(context, &message)
        }
        _ => Verdict::CLEAN,
    }
}

fn check(verdict: &Verdict) {
    assert_eq!(
        verdict.action == Action::None,
        verdict.max_severity.is_none()
    );
    assert!(verdict.action > Action::None || verdict.detections.is_empty());
    assert!(verdict.detections.len() <= 64);
    for detection in &verdict.detections {
        assert!(detection.matches.len() <= 8 && detection.field.len() <= 2000);
        assert!(detection.explanation.len() <= 4000 && !detection.explanation.is_empty());
        for found in &detection.matches {
            assert!(found.text.len() <= 4000 && found.context.len() <= 8000);
            assert!(!found.text.contains(|c: char| c.is_control()));
        }
    }
}

fuzz_target!(|steps: Vec<Step<'_>>| {
    assert_eq!(
        run(&steps),
        run(&steps),
        "the same inputs, the same verdicts"
    );
    for step in &steps {
        if let Step::Result { text, .. } = step {
            let mut analyser = Analyser::new(Arc::clone(&RULES));
            let value = Json::String((*text).into());
            analyser.value(&value, Subject::ToolResult, AnalysisContext::default());
            let work = analyser.work();
            assert!(
                work <= 20_000 + 600 * text.len() as u64,
                "{work} for {} bytes",
                text.len()
            );
        }
    }
});
