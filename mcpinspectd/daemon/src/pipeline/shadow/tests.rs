use mcpinspect_core::model::{Direction, EndReason, InputSink as _, Timestamp};
use mcpinspect_core::source::script::Script;
use mcpinspect_engine::event::testing::party;
use mcpinspect_engine::{Engine, Limits, OutputSink};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::{Attribution, DecidedBy, DecisionKind, ItemKey, Owner};
use mcpinspect_runtime::notifier::Notifier;
use serde_json::{Value, json};

use super::*;
use crate::control::channel;
use crate::pipeline::Pipeline;
use crate::pipeline::testing::TestHost;

const TO_SERVER: Direction = Direction::ClientToServer;
const TO_CLIENT: Direction = Direction::ServerToClient;

#[derive(Default)]
struct Log(Vec<Value>);

impl OutputSink for Log {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output {
            self.0.push(serde_json::to_value(event).unwrap());
        }
    }
}

/// A daemon without a kernel, with one session of user 1000.
struct Watch {
    pipeline: Pipeline<Log, TestHost>,
    script: Script,
}

fn rules(text: &str) -> ShadowPolicy {
    let files = [("p.toml".to_owned(), text.to_owned())];
    ShadowPolicy {
        policy: Arc::new(Policy::compile(&files).unwrap()),
        zone: TimeZone::UTC,
        users: HashMap::from([(1000, "me".to_owned())]),
    }
}

impl Watch {
    fn new(policy: Option<&str>) -> Self {
        let engine = Engine::new(
            Limits::default(),
            Registry::in_memory(),
            Box::new(NoDetector),
        );
        let (_, requests) = channel(Notifier::default());
        let mut watch = Self {
            pipeline: Pipeline::new(engine, Log::default(), requests, TestHost::default()),
            script: Script::new("files").processes(Some(party(4242, 1000)), None),
        };
        watch.pipeline.set_policy(policy.map(rules));
        watch.pipeline.input(watch.script.start());
        watch
    }

    fn say(&mut self, direction: Direction, message: &Value) {
        let line = self.script.line(direction, message);
        self.pipeline.input(line);
    }

    fn call(&mut self, id: u32, tool: &str) {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}});
        self.say(TO_SERVER, &call);
        self.say(
            TO_CLIENT,
            &json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}),
        );
    }

    fn list(&mut self, id: u32, description: &str) {
        self.say(
            TO_SERVER,
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}),
        );
        let tool =
            json!({"name": "read", "description": description, "inputSchema": {"type": "object"}});
        self.say(
            TO_CLIENT,
            &json!({"jsonrpc": "2.0", "id": id, "result": {"tools": [tool]}}),
        );
    }

    /// Rules matched since the last call: the first rule, and the decision.
    fn matched(&mut self) -> Vec<(String, String)> {
        let events = std::mem::take(&mut self.pipeline.output.0);
        let matched = events
            .iter()
            .filter(|event| event["type"] == "mcp_rule_matched");
        matched
            .map(|event| {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                (text(&event["rules"][0]["id"]), text(&event["decision"]))
            })
            .collect()
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
        .collect()
}

const BLOCK: &str = r#"
[[rule]]
id = "no-writes"
name = "Nothing is written"
when = { method = "tools/call", tool = "write", user = "me", server = "files" }
action = "block"

[[rule]]
id = "results-logged"
on = ["response"]
when = { tool = "read" }
action = "log"

[[rule]]
id = "others-pass"
priority = -1
when = { method = "tools/call" }
action = "allow"
"#;

#[test]
fn what_a_guard_would_have_done_becomes_an_event() {
    let mut watch = Watch::new(Some(BLOCK));
    watch.call(1, "write");
    let events = &watch.pipeline.output.0;
    let event = events
        .iter()
        .find(|event| event["type"] == "mcp_rule_matched")
        .unwrap();
    for (field, value) in [
        ("server_id", json!("files")),
        ("direction", json!("client_to_server")),
        ("kind", json!("request")),
        ("method", json!("tools/call")),
        ("tool_name", json!("write")),
        ("message", json!(1)),
        ("decision", json!("block")),
        ("enforced", json!(false)),
        (
            "rules",
            json!([{"id": "no-writes", "name": "Nothing is written", "action": "block"}]),
        ),
        ("reason", Value::Null),
        ("hidden", json!([])),
    ] {
        assert_eq!(event[field], value, "{field}");
    }
    assert_eq!(watch.matched(), pairs(&[("no-writes", "block")]));
    // It was answered all the same, and the answer belongs to a tool.
    watch.call(2, "read");
    assert_eq!(watch.matched(), pairs(&[("results-logged", "log")]));
}

#[test]
fn without_rules_nothing_is_kept_and_nothing_said() {
    for policy in [None, Some("")] {
        let mut watch = Watch::new(policy);
        watch.call(1, "write");
        assert_eq!(watch.matched(), []);
        assert!(watch.pipeline.shadow.sessions.is_empty());
    }
}

#[test]
fn another_policy_counts_from_the_next_message_on() {
    let mut watch = Watch::new(None);
    watch.call(1, "write");
    watch.pipeline.set_policy(Some(rules(BLOCK)));
    watch.call(2, "write");
    assert_eq!(watch.matched(), pairs(&[("no-writes", "block")]));
    watch.pipeline.set_policy(None);
    watch.call(3, "write");
    assert_eq!(watch.matched(), []);
}

#[test]
fn a_session_that_ends_leaves_nothing() {
    let mut watch = Watch::new(Some(BLOCK));
    watch.call(1, "x");
    assert_eq!(watch.pipeline.shadow.sessions.len(), 1);
    watch
        .pipeline
        .input(watch.script.end(EndReason::ServerExited));
    assert!(watch.pipeline.shadow.sessions.is_empty());
}

#[test]
fn answers_to_requests_that_were_not_seen_are_no_ambiguity() {
    let mut watch = Watch::new(Some(
        "[[rule]]\nid = \"masked\"\non = [\"response\"]\nwhen = { result = { path = \"x\", exists = true } }\naction = \"modify\"\nredact = [{ path = \"x\", secrets = true }]\n",
    ));
    watch.say(
        TO_CLIENT,
        &json!({"jsonrpc": "2.0", "id": 77, "result": {}}),
    );
    assert_eq!(watch.matched(), []);
    // One that really can be read two ways is.
    watch.say(
        TO_SERVER,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    );
    let line = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":1,\"x\":2}}";
    let line = watch.script.line(TO_CLIENT, line);
    watch.pipeline.input(line);
    assert_eq!(watch.matched(), pairs(&[("masked", "refuse")]));
}

#[test]
fn the_status_of_a_tool_follows_its_pin() {
    let mut watch = Watch::new(Some(
        r#"
        [[rule]]
        id = "unapproved"
        when = { method = "tools/call", tool_status = "unapproved" }
        action = "block"

        [[rule]]
        id = "changed"
        priority = 1
        when = { method = "tools/call", tool_status = "changed" }
        action = "alert"

        [[rule]]
        id = "changed-hidden"
        when = { tool_status = "changed" }
        action = "hide"
        "#,
    ));
    watch.list(1, "reads");
    watch.call(2, "read");
    assert_eq!(watch.matched(), pairs(&[("unapproved", "block")]));

    let server = ServerOf::new(Owner::User(1000), "files");
    let by = Attribution {
        by: DecidedBy::Person(1000),
        time: Timestamp(1),
        reason: "",
    };
    let registry = watch.pipeline.engine.registry_mut();
    let key = ItemKey::tool("read");
    registry
        .decide(server, &key, DecisionKind::Approve, None, by)
        .unwrap();
    watch.pipeline.idle(Timestamp::now());
    watch.call(3, "read");
    assert_eq!(watch.matched(), []);

    // Hidden in the same listing that shows the change.
    watch.list(4, "reads more");
    watch.call(5, "read");
    assert_eq!(
        watch.matched(),
        pairs(&[("changed-hidden", "hide"), ("changed", "block")])
    );
}

#[test]
fn memory_of_a_hostile_session_is_bounded() {
    let mut watch = Watch::new(Some(BLOCK));
    for id in 0..20_000 {
        watch.say(
            TO_SERVER,
            &json!({"jsonrpc": "2.0", "id": format!("{id}{}", "x".repeat(500)), "method": "ping"}),
        );
    }
    let watched = watch.pipeline.shadow.sessions.values().next().unwrap();
    let kept = watched.session.waiting();
    assert!(kept <= 1024, "{kept}");
}
