use std::time::Duration;

use mcpinspect_core::model::{ContainmentAction, Direction, InputSink as _, ServerIdentity};
use mcpinspect_core::source::script::Script;
use mcpinspect_engine::event::testing::party;
use mcpinspect_engine::{Engine, Limits, OutputSink};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::{DecisionKind, Registry, Standing, canonical};
use mcpinspect_runtime::notifier::Notifier;
use serde_json::{Value, json};

use super::*;
use crate::control::{Control, ControlHandle, channel};
use crate::pipeline::testing::TestHost;

/// Events as JSON.
#[derive(Default)]
struct Log(Vec<Value>);

impl OutputSink for Log {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output {
            self.0.push(serde_json::to_value(event).unwrap());
        }
    }
}

/// A daemon without a kernel, and a caller.
struct Daemon {
    pipeline: Pipeline<Log, TestHost>,
    now: Timestamp,
    control: ControlHandle,
    directory: tempfile::TempDir,
    script: Script,
}

/// May decide on all servers; the one here runs as no particular user.
const ALICE: Caller = Caller {
    uid: 1000,
    reads_all: true,
};

const NOW: Timestamp = Timestamp(1_760_000_000_000_000_000);

impl Daemon {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::in_memory();
        let engine = Engine::new(Limits::default(), registry, Box::new(NoDetector));
        let (control, requests) = channel(Notifier::default());
        let host = TestHost {
            suppressions: directory.path().join("suppressions.toml"),
            ..TestHost::default()
        };
        let mut daemon = Self {
            pipeline: Pipeline::new(engine, Log::default(), requests, host),
            now: NOW,
            control,
            directory,
            script: Script::new("files")
                .session("s")
                .identity(ServerIdentity {
                    server_id: ServerId("files".into()),
                    fingerprint: "f".to_owned(),
                    name_source: "script".to_owned(),
                    publisher: None,
                    former: None,
                })
                .paced(NOW, 0),
        };
        daemon.pipeline.input(daemon.script.start());
        daemon
    }

    fn say(&mut self, direction: Direction, message: &Value) {
        self.pipeline.input(self.script.line(direction, message));
    }

    /// The server lists one tool with this description.
    fn list(&mut self, id: u32, description: &str) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
        self.say(Direction::ClientToServer, &request);
        let tools = json!([{"name": "re\u{202e}ad", "description": description, "inputSchema": {"type": "object"}}]);
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}});
        self.say(Direction::ServerToClient, &answer);
    }

    fn decide(&mut self, decision: Decision) -> Result<(), ControlError> {
        self.ask(move |control| control.decide(decision, ALICE))
    }

    /// Asks from another thread, as a caller on the bus does.
    fn ask<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&ControlHandle) -> T + Send + 'static,
    ) -> T {
        let control = self.control.clone();
        let caller = std::thread::spawn(move || ask(&control));
        while !caller.is_finished() {
            let account = || Account {
                written: 3,
                captured: 2,
                lost: 1,
            };
            self.pipeline.attend(NOW, account);
            std::thread::sleep(Duration::from_millis(1));
        }
        caller.join().unwrap()
    }

    fn events(&mut self, kind: &str) -> Vec<Value> {
        // The engine looks for decisions ten times a second.
        self.now.0 += 110_000_000;
        self.pipeline.idle(self.now);
        let all = std::mem::take(&mut self.pipeline.output.0);
        let (wanted, others) = all.into_iter().partition(|event| event["type"] == kind);
        self.pipeline.output.0 = others;
        wanted
    }

    fn hash(&mut self) -> String {
        let event = self.events("mcp_tool_changed").pop().unwrap();
        event["new_hash"].as_str().unwrap().to_owned()
    }
}

fn judge(kind: DecisionKind, tool: &str, hash: &str) -> Decision {
    Decision::Judge {
        kind,
        server: "files".to_owned(),
        tool: tool.to_owned(),
        hash: hash.to_owned(),
    }
}

#[test]
fn an_approval_moves_the_pin_and_is_told_with_who_gave_it() {
    let mut daemon = Daemon::new();
    daemon.list(1, "Reads.");
    daemon.list(2, "Reads and writes.");
    let hash = daemon.hash();
    assert!(matches!(
        daemon.decide(judge(DecisionKind::Approve, "nothing", &hash)),
        Err(ControlError::Unknown(_))
    ));
    assert!(matches!(
        daemon.decide(judge(DecisionKind::Approve, r"re\u{202e}ad", "abc")),
        Err(ControlError::Invalid(_))
    ));
    // By its displayed name.
    daemon
        .decide(judge(DecisionKind::Approve, r"re\u{202e}ad", &hash))
        .unwrap();
    let told = daemon.events("mcp_policy").pop().unwrap();
    assert_eq!(
        (&told["decision"], &told["uid"], &told["hash"]),
        (&json!("approve"), &json!(1000), &json!(hash))
    );
    daemon.list(3, "Reads and writes.");
    assert!(daemon.events("mcp_tool_changed").is_empty());
    // It changes between the look and the decision.
    daemon.list(4, "Reads and sends.");
    assert!(matches!(
        daemon.decide(judge(DecisionKind::Approve, r"re\u{202e}ad", &hash)),
        Err(ControlError::Stale(_))
    ));
    let hash = daemon.hash();
    daemon
        .decide(judge(DecisionKind::Reject, r"re\u{202e}ad", &hash))
        .unwrap();
    let told = daemon.events("mcp_policy").pop().unwrap();
    assert_eq!(told["decision"], "reject");
}

#[test]
fn what_a_server_says_of_itself_is_approved_by_its_hash() {
    let mut daemon = Daemon::new();
    let introduce = |daemon: &mut Daemon, id: u32, instructions: &str| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {}});
        daemon.say(Direction::ClientToServer, &request);
        let result = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "serverInfo": {"name": "files", "version": "1"}, "instructions": instructions,
        });
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        daemon.say(Direction::ServerToClient, &answer);
        daemon.events("mcp_server_changed")
    };
    assert!(introduce(&mut daemon, 1, "Ask first.").is_empty());
    let changed = introduce(&mut daemon, 2, "Never ask.").pop().unwrap();
    assert_eq!(changed["item"], "instructions");
    let hash = changed["new_hash"].as_str().unwrap();
    let previous = changed["previous_hash"].as_str().unwrap();
    assert!(matches!(
        daemon.decide(judge(DecisionKind::Approve, "", previous)),
        Err(ControlError::Stale(_))
    ));
    daemon
        .decide(judge(DecisionKind::Approve, "", hash))
        .unwrap();
    let told = daemon.events("mcp_policy").pop().unwrap();
    assert_eq!(
        (&told["decision"], &told["item"], &told["uid"]),
        (&json!("approve"), &json!("instructions"), &json!(1000))
    );
    assert!(introduce(&mut daemon, 3, "Never ask.").is_empty());
}

#[test]
fn a_pause_is_told_and_what_was_missed_as_well() {
    let mut daemon = Daemon::new();
    let set = |server: &str, enabled| Decision::SetMonitoring {
        server: server.to_owned(),
        enabled,
    };
    assert!(matches!(
        daemon.decide(set("nobody", false)),
        Err(ControlError::Unknown(_))
    ));
    daemon.decide(set("files", false)).unwrap();
    daemon.decide(set("files", false)).unwrap();
    assert_eq!(daemon.events("mcp_policy").len(), 1, "nothing new");
    let status = daemon.ask(|control| control.status()).unwrap();
    assert_eq!(
        (status.state.as_str(), status.paused),
        ("watching", vec!["files".to_owned()])
    );
    assert_eq!(
        (
            status.bytes_written,
            status.bytes_captured,
            status.bytes_lost
        ),
        (3, 2, 1)
    );
    daemon.list(1, "Reads.");
    assert!(daemon.events("mcp_tool_seen").is_empty());
    daemon.decide(set("files", true)).unwrap();
    let told = daemon.events("mcp_policy").pop().unwrap();
    assert_eq!(
        (&told["decision"], &told["server_id"]),
        (&json!("resume"), &json!("files"))
    );
    daemon.list(2, "Reads.");
    assert_eq!(daemon.events("mcp_tool_seen").len(), 1);
    let gaps = daemon.events("mcp_capture_gap");
    assert_eq!(gaps.len(), 2, "one in each direction");
    assert!(gaps.iter().all(|gap| gap["reason"] == "monitoring_paused"));

    daemon.decide(set("", false)).unwrap();
    assert_eq!(
        daemon.ask(|control| control.status()).unwrap().state,
        "paused"
    );
    let told = daemon.events("mcp_policy").pop().unwrap();
    assert_eq!(told["server_id"], "*");
}

#[test]
fn a_suppression_is_written_read_and_told() {
    let mut daemon = Daemon::new();
    daemon.list(1, "Reads.");
    let suppress = |server: &str, tool: &str, days| Decision::Suppress {
        server: server.to_owned(),
        tool: tool.to_owned(),
        rule: "credential-*".to_owned(),
        reason: "test data".to_owned(),
        days,
    };
    for (server, tool, days) in [("nobody", "", 1), ("files", "nothing", 1), ("files", "", 0)] {
        assert!(daemon.decide(suppress(server, tool, days)).is_err());
    }
    daemon.decide(suppress("files", "", 7)).unwrap();
    daemon
        .decide(suppress("files", r"re\u{202e}ad", 7))
        .unwrap();
    assert_eq!(daemon.pipeline.host.rules_read, 2);
    let text = std::fs::read_to_string(daemon.directory.path().join("suppressions.toml")).unwrap();
    assert_eq!(text.matches("[[suppress]]").count(), 2, "{text}");
    assert!(text.contains("re\u{202e}ad"), "the tool's own name: {text}");
    let told = daemon.events("mcp_policy").pop().unwrap();
    assert_eq!(
        (&told["decision"], &told["item"]),
        (&json!("suppress"), &json!("rule"))
    );
    assert!(told["reason"].as_str().unwrap().contains("test data"));
}

#[test]
fn a_mistake_in_the_configuration_is_the_callers_answer() {
    let mut daemon = Daemon::new();
    daemon.pipeline.host.mistake = Some("config.toml:3: no".to_owned());
    let error = daemon.decide(Decision::Reload).unwrap_err();
    assert_eq!(error.to_string(), "config.toml:3: no");
    assert!(daemon.events("mcp_policy").is_empty());
    daemon.pipeline.host.mistake = None;
    daemon.decide(Decision::Reload).unwrap();
    assert_eq!(
        daemon.pipeline.containment.on_block,
        Some(ContainmentAction::Freeze)
    );
    assert_eq!(daemon.events("mcp_policy").len(), 1);
}

#[test]
fn a_server_that_is_not_running_cannot_be_contained() {
    let mut daemon = Daemon::new();
    let result =
        daemon.ask(|control| control.contain("no-such-server", ContainmentAction::Freeze, 0));
    assert!(
        matches!(result, Err(ControlError::Unknown(_))),
        "{result:?}"
    );
}

#[test]
fn a_definition_is_checked_against_its_pin_and_not_recorded() {
    const TOOL: &str = "re\u{202e}ad";
    let form = |says: &str| {
        let tool = json!({"name": TOOL, "description": says, "inputSchema": {"type": "object"}});
        let definition = serde_json::value::to_raw_value(&tool).unwrap();
        canonical::hash(&definition)
    };
    fn check(
        daemon: &mut Daemon,
        uid: Option<u32>,
        server: &'static str,
        hashes: &[Option<DefinitionHash>],
    ) -> Vec<Option<Standing>> {
        let name = || TOOL.to_owned();
        let tools = hashes.iter().map(|&hash| ToolForm { name: name(), hash });
        let tools: Vec<ToolForm> = tools.collect();
        daemon
            .ask(move |control| control.check_tools(uid, server, tools))
            .unwrap()
    }

    let mut daemon = Daemon::new();
    daemon.list(1, "Reads.");
    let (same, other) = (Some(form("Reads.")), Some(form("Reads and writes.")));
    assert_eq!(
        check(&mut daemon, None, "files", &[same, other, None]),
        [
            Some(Standing::FirstUse),
            Some(Standing::Changed),
            Some(Standing::FirstUse)
        ]
    );
    for _ in 0..2 {
        // Something asked for twice stays unknown, and another user's says nothing.
        for (uid, server) in [(None, "mail"), (Some(1000), "files")] {
            assert_eq!(check(&mut daemon, uid, server, &[same, None]), [None, None]);
        }
    }
    assert!(daemon.events("mcp_tool_changed").is_empty());
    assert_eq!(daemon.pipeline.engine.registry().list().unwrap().len(), 1);
    // The answer says what the registry finds when the definition arrives.
    daemon.list(2, "Reads and writes.");
    assert_eq!(daemon.hash(), form("Reads and writes.").to_string());
    let hash = form("Reads and writes.").to_string();
    let shown = r"re\u{202e}ad";
    daemon
        .decide(judge(DecisionKind::Approve, shown, &hash))
        .unwrap();
    assert_eq!(
        check(&mut daemon, None, "files", &[same, other, None]),
        [
            Some(Standing::Changed),
            Some(Standing::Accepted),
            Some(Standing::Accepted)
        ]
    );
}

#[test]
fn decisions_are_about_ones_own_servers() {
    const BOB: u32 = 1001;
    let mut daemon = Daemon::new();
    let hash_for = |daemon: &mut Daemon, session: &str, uid: u32, says: &str| {
        let script = Script::new("files").session(session).paced(NOW, 0);
        daemon.script = script.processes(Some(party(7, uid)), None);
        let start = daemon.script.start();
        daemon.pipeline.input(start);
        daemon.list(1, says);
        let seen = daemon.events("mcp_tool_seen").pop().unwrap();
        seen["tool_hash"].as_str().unwrap().to_owned()
    };
    let hers = hash_for(&mut daemon, "hers", ALICE.uid, "Reads.");
    let his = hash_for(&mut daemon, "his", BOB, "Writes.");
    let decide = |daemon: &mut Daemon, uid, reads_all, hash: &str| {
        let decision = judge(DecisionKind::Approve, r"re\u{202e}ad", hash);
        let caller = Caller { uid, reads_all };
        daemon.ask(move |control| control.decide(decision, caller))
    };
    // Each user decides on their own, and one who has none may not decide on one of several.
    decide(&mut daemon, ALICE.uid, true, &hers).unwrap();
    let told = daemon.events("mcp_policy").pop().unwrap();
    assert_eq!(told["server_uid"], ALICE.uid);
    assert!(matches!(
        decide(&mut daemon, ALICE.uid, true, &his),
        Err(ControlError::Stale(_))
    ));
    decide(&mut daemon, BOB, false, &his).unwrap();
    assert!(matches!(
        decide(&mut daemon, BOB, false, &hers),
        Err(ControlError::Stale(_))
    ));
    let error = decide(&mut daemon, 0, true, &hers).unwrap_err().to_string();
    assert!(error.contains("--user"), "{error}");
    assert!(matches!(
        decide(&mut daemon, 1002, false, &hers),
        Err(ControlError::Unknown(_))
    ));

    let suppress = Decision::Suppress {
        server: "files".to_owned(),
        tool: String::new(),
        rule: "credential-*".to_owned(),
        reason: "test data".to_owned(),
        days: 1,
    };
    let caller = Caller {
        uid: BOB,
        reads_all: false,
    };
    daemon
        .ask(move |control| control.decide(suppress, caller))
        .unwrap();
    let text = std::fs::read_to_string(daemon.directory.path().join("suppressions.toml")).unwrap();
    assert!(text.contains("users = [1001]"), "{text}");
}
