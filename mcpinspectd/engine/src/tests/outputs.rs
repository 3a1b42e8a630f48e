//! What outputs are shown, and in which order; and several of them at once.

use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
use mcpinspect_core::model::{Action, Input};
use mcpinspect_core::source::script::Script;
use mcpinspect_judge::registry::Registry;
use serde_json::json;

use super::findings::Finder;
use super::fixture::tool;
use crate::event::EventKind;
use crate::{Engine, Limits, MessageSeen, Output, OutputSink, Tee};

/// A word for each thing that it receives, in order.
#[derive(Default)]
struct Order(Vec<String>);

fn what(message: &MessageSeen<'_>) -> String {
    let kind = message.head.kind.as_str();
    match message.method() {
        Some(method) => format!("{kind} {method}"),
        None => kind.to_owned(),
    }
}

impl OutputSink for Order {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Judged(message, judgement) => {
                let events = judgement.events().iter();
                let events: Vec<&str> = events.map(|event| event.kind().name()).collect();
                self.0.push(format!(
                    "judged {}: {:?} {}",
                    what(message),
                    judgement.disposition(),
                    events.join(" ")
                ));
            }
            Output::Message(message) => self.0.push(what(message)),
            Output::Event(event) => self.0.push(event.kind().name().to_owned()),
            _ => {}
        }
    }
}

/// Feeds `sink` what an engine that finds evil makes of these inputs.
fn run<'a>(inputs: impl IntoIterator<Item = Input<'a>>, sink: &mut dyn OutputSink) {
    let registry = Registry::in_memory();
    let mut engine = Engine::new(Limits::default(), registry, Box::new(Finder));
    for input in inputs {
        engine.handle(input, sink);
    }
}

/// A session in which a server lists an evil tool, and the client pings it.
fn evil_session() -> Vec<Input<'static>> {
    let mut script = Script::new("files");
    let mut inputs = vec![script.start()];
    let tools = json!({"tools": [tool("evil", "")]});
    inputs.extend(script.exchange("tools/list", "{}", tools));
    inputs.extend(script.exchange("ping", "{}", "{}"));
    inputs
}

#[test]
fn a_judgement_is_shown_before_anything_of_its_message_is_told() {
    let mut order = Order::default();
    run(evil_session(), &mut order);
    assert_eq!(
        order.0,
        [
            "mcp_session_started",
            "judged request tools/list: None ",
            "request tools/list",
            "judged response tools/list: Alert mcp_tool_seen mcp_detection",
            "response tools/list",
            "mcp_tool_seen",
            "mcp_detection",
            // The next messages are judged on their own.
            "judged request ping: None ",
            "request ping",
            "judged response ping: None ",
            "response ping",
        ]
    );
}

#[test]
fn a_batch_is_judged_as_its_worst_member() {
    let mut script = Script::new("files");
    let call = |id: u32, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    let batch = json!([call(1, "good"), call(2, "evil"), call(3, "good")]);
    let mut order = Order::default();
    run([script.start(), script.line(Up, batch)], &mut order);
    assert_eq!(
        order.0[1..],
        ["judged batch: Warn mcp_detection", "batch", "mcp_detection"]
    );
}

/// The members of batches, and how many messages there were.
#[derive(Default)]
struct Members {
    messages: usize,
    told: Vec<serde_json::Value>,
}

impl OutputSink for Members {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(_) => self.messages += 1,
            Output::Member(member) => {
                assert!(self.messages > 0, "told a member before its batch");
                let answers = member.exchange.answers.as_ref();
                self.told.push(json!([
                    member.frame.sequence,
                    member.frame.position,
                    member.head.kind,
                    member.head.method,
                    member.head.id,
                    answers.map(|request| request.sequence),
                    member.exchange.reply_to(),
                    member.exchange.tool.as_deref(),
                    member.exchange.latency_ns,
                    member.head.invalid_reason,
                    member.bytes.len(),
                ]));
            }
            _ => {}
        }
    }
}

/// A batch of requests, and one of their responses the other way round.
fn batches() -> (Vec<Input<'static>>, [usize; 2]) {
    let up = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read"}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        7,
    ]);
    let down = json!([{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}]);
    let (up, down) = (up.to_string(), down.to_string());
    let lengths = [up.len(), down.len()];
    let mut script = Script::new("files");
    let inputs = vec![
        script.start(),
        script.line(Up, r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#),
        script.line(Up, up),
        script.line(Down, down),
    ];
    (inputs, lengths)
}

#[test]
fn members_of_batches_are_told_singly_with_their_exchange() {
    let (inputs, [up, down]) = batches();
    let mut members = Members::default();
    run(inputs, &mut members);
    assert_eq!(members.messages, 3);
    assert_eq!(
        members.told,
        [
            json!([
                2,
                41,
                "request",
                "tools/call",
                "1",
                null,
                null,
                "read",
                null,
                null,
                up
            ]),
            json!([
                2,
                41,
                "notification",
                "notifications/cancelled",
                null,
                null,
                null,
                null,
                null,
                null,
                up
            ]),
            json!([
                2,
                41,
                "invalid",
                null,
                null,
                null,
                null,
                null,
                null,
                "not_an_object",
                up
            ]),
            json!([
                3,
                0,
                "response",
                null,
                "1",
                2,
                "tools/call",
                "read",
                1,
                null,
                down
            ]),
        ]
    );
}

#[test]
fn of_a_huge_batch_not_all_members_are_told() {
    let ping = r#"{"jsonrpc":"2.0","method":"x"}"#;
    let mut script = Script::new("files");
    let batch = format!("[{}]", vec![ping; 16_385].join(","));
    let inputs = [script.start(), script.line(Up, batch)];
    let mut members = Members::default();
    run(inputs, &mut members);
    assert_eq!((members.messages, members.told.len()), (1, 16_384));
}

/// Collects messages.
#[derive(Default)]
struct Messages(Vec<String>);

impl OutputSink for Messages {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Message(message) = output {
            self.0.push(what(message));
        }
    }
}

/// Collects events, and the most severe action requested.
#[derive(Default)]
struct Events {
    kinds: Vec<EventKind>,
    worst: Option<Action>,
}

impl OutputSink for Events {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Judged(_, judgement) => {
                self.worst = self.worst.max(Some(judgement.disposition()))
            }
            Output::Event(event) => self.kinds.push(event.kind()),
            _ => {}
        }
    }
}

#[test]
fn one_engine_drives_several_outputs() {
    let mut messages = Messages::default();
    let mut events = Events::default();
    let mut order = Order::default();
    let absent: Option<Order> = None;
    let mut all = Tee(
        Tee(&mut messages, &mut events),
        Tee(absent, Some(&mut order)),
    );
    run(evil_session(), &mut all);
    assert_eq!(
        messages.0,
        [
            "request tools/list",
            "response tools/list",
            "request ping",
            "response ping"
        ]
    );
    assert_eq!(
        events.kinds,
        [
            EventKind::SessionStarted,
            EventKind::ToolSeen,
            EventKind::Detection
        ]
    );
    assert_eq!(events.worst, Some(Action::Alert));
    // Each receives everything, as if it were alone.
    let mut alone = Order::default();
    run(evil_session(), &mut alone);
    assert_eq!(order.0, alone.0);
}

#[test]
fn every_output_sees_a_judgement_before_any_is_told_the_message() {
    /// Writes into one list, under a name.
    struct NamedSink<'a>(&'static str, &'a std::cell::RefCell<Vec<String>>);

    impl OutputSink for NamedSink<'_> {
        fn output(&mut self, output: Output<'_>) {
            match output {
                Output::Judged(_, _) => self.1.borrow_mut().push(format!("{} judged", self.0)),
                Output::Message(_) => self.1.borrow_mut().push(format!("{} message", self.0)),
                _ => {}
            }
        }
    }

    let told = std::cell::RefCell::default();
    let mut script = Script::new("files");
    let start = script.start();
    let ping = script.line(Up, r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#);
    run(
        [start, ping],
        &mut Tee(NamedSink("one", &told), NamedSink("other", &told)),
    );
    assert_eq!(
        told.into_inner(),
        ["one judged", "other judged", "one message", "other message"]
    );
}
