//! `mcpinspect call`, as a script or an agent uses it: against a real server of the Python SDK in both eras,
//! and against small servers that misbehave in one way each.
#![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A server in a few lines. Its argument says how it behaves.
const SERVER: &str = r#"
import json, os, sys, time
how = sys.argv[1]
if how == "dies":
    print("no configuration", file=sys.stderr)
    sys.exit(3)
modern = how == "modern"
def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "number"}, "b": {"type": "string"}}}
tools = [{"name": "show", "inputSchema": schema}, {"name": "ask", "inputSchema": {"type": "object"}},
         {"name": "crash", "inputSchema": {"type": "object"}}, {"name": "odd", "inputSchema": {"$ref": "https://example.org/x"}}]
waiting = None
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method is None and waiting is not None:
        say({"id": waiting, "result": {"content": [], "structuredContent": {k: message[k] for k in ("result", "error") if k in message}}})
        waiting = None
        continue
    if "id" not in message:
        continue
    answer = lambda result: say({"id": message["id"], "result": result})
    refuse = lambda code: say({"id": message["id"], "error": {"code": code, "message": "no\x1b[31m", "data": 7}})
    if method == "server/discover" and modern:
        answer({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
    elif method == "initialize" and not modern:
        answer({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "little"}})
    elif method == "tools/list":
        start = int(params.get("cursor", 0))
        answer({"tools": tools[start:start + 2], **({"nextCursor": "2"} if start == 0 else {})})
    elif method == "tools/call" and params["name"] == "show":
        say({"method": "notifications/message", "params": {"level": "warning", "logger": "little", "data": "shown"}})
        print("stray", flush=True)
        print("on stderr", file=sys.stderr, flush=True)
        answer({"content": [{"type": "text", "text": json.dumps(params["arguments"])}], "isError": params["arguments"].get("b") == "fail",
                "structuredContent": {"env": os.environ.get("CALLED"), **params["arguments"]}})
    elif method == "tools/call" and params["name"] == "ask" and modern:
        given = params.get("inputResponses")
        answer({"resultType": "complete", "content": [], "structuredContent": given} if given else
               {"resultType": "input_required", "requestState": "s", "inputRequests": {"k": {"method": "elicitation/create", "params": {"message": "Who?"}}}})
    elif method == "tools/call" and params["name"] == "ask":
        waiting = message["id"]
        say({"id": "q1", "method": "sampling/createMessage", "params": {"maxTokens": 1}})
    elif method == "tools/call" and params["name"] == "crash":
        print("out of cheese", file=sys.stderr, flush=True)
        os.abort()
    elif method == "hang":
        time.sleep(600)
    else:
        refuse(-32601)
"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server.py"), SERVER).unwrap();
        Self { folder }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The command of the server that behaves like this.
    fn server(&self, how: &str) -> Vec<String> {
        let script = self.folder.path().join("server.py");
        ["python3", script.to_str().unwrap(), how]
            .map(str::to_owned)
            .to_vec()
    }

    /// Asks the server that behaves like this.
    fn call(&self, how: &str, arguments: &[&str]) -> Output {
        call(arguments, &self.server(how))
    }

    /// The envelope of a call.
    fn envelope(&self, how: &str, arguments: &[&str]) -> Value {
        envelope(&self.call(how, &[arguments, &["--structured"]].concat()))
    }
}

const SCRIPT: &str = r#"
- name: show
  method: tools/call
  tool: show
  arguments: {a: 1, b: text}
  expect:
    - path: result.structuredContent
      schema: {required: [a, b]}
    - path: logs[*].level
      equals: warning
  save: {given: result.structuredContent}
- name: show what was shown
  method: tools/call
  tool: show
  arguments: {a: 2, b: "was ${given}"}
  expect: [{path: result.structuredContent.b, equals: 'was {"a":1,"b":"text","env":null}'}]
- name: wrong
  method: tools/call
  tool: show
  arguments: {a: two}
  expect: [{path: error.category, equals: validation}]
- name: fails
  method: x/y
  onError: skip-to:last
- name: skipped
  method: tools/list
- name: last
  method: tools/call
  tool: show
  arguments: {a: 3}
  expect: [{path: result.structuredContent.a, equals: 4}]
"#;

fn call(arguments: &[&str], server: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcpinspect"))
        .arg("call")
        .args(arguments)
        .arg("--")
        .args(server)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn envelope(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// A real server of the Python SDK.
fn clock() -> Vec<String> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers/python/bin/python");
    assert!(
        python.exists(),
        "no {}: `cargo xtask test` installs it",
        python.display()
    );
    [python.to_str().unwrap(), "-m", "mcp_server_time"]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn a_real_server_answers_in_both_eras() {
    for (era, spoken) in [
        ("auto", "modern"),
        ("modern", "modern"),
        ("legacy", "legacy"),
    ] {
        let output = call(&["discover", "--era", era], &clock());
        let found = envelope(&output);
        assert_eq!(found["era"], spoken);
        assert_eq!(found["serverInfo"]["name"], "mcp-time");
        assert_eq!(found["tools"][0]["name"], "get_current_time");
        for list in ["resources", "resourceTemplates", "prompts"] {
            assert_eq!(found[list], json!([]), "{list}");
        }
        let ping = call(&["ping", "--era", era], &clock());
        assert_eq!(ping.status.code(), Some(0), "{ping:?}");
        let output = call(
            &[
                "tools/call",
                "--era",
                era,
                "--tool",
                "get_current_time",
                "--arg",
                "timezone=Europe/Paris",
                "--structured",
            ],
            &clock(),
        );
        let told = envelope(&output);
        assert_eq!(
            (&told["success"], &told["error"]),
            (&json!(true), &json!(null)),
            "{told}"
        );
        assert_eq!(
            told["result"]["structuredContent"]["timezone"],
            "Europe/Paris"
        );
    }
}

/// Each failure has a real cause, a category of its own, and an exit status.
#[test]
fn the_table_of_failures_and_exit_codes() {
    let place = Place::new();
    let answers = place.write("answers.json", "{}");
    for (how, arguments, category, code, status) in [
        ("legacy", "tools/list", None, json!(null), 0),
        (
            "legacy",
            "hang --timeout 1",
            Some("transport"),
            json!("timeout"),
            1,
        ),
        ("dies", "tools/list", Some("transport"), json!("exited"), 1),
        (
            "legacy",
            "tools/call --tool crash",
            Some("transport"),
            json!("exited"),
            1,
        ),
        (
            "legacy",
            "prompts/list",
            Some("capability"),
            json!("not_offered"),
            1,
        ),
        (
            "modern",
            "logging/setLevel --level info",
            Some("capability"),
            json!("not_in_revision"),
            1,
        ),
        ("legacy", "x/y", Some("protocol"), json!(-32601), 1),
        (
            "legacy",
            "ping --era modern",
            Some("protocol"),
            json!(-32601),
            1,
        ),
        (
            "modern",
            "ping --era legacy",
            Some("protocol"),
            json!(-32601),
            1,
        ),
        (
            "legacy",
            "prompts/list --unchecked",
            Some("protocol"),
            json!(-32601),
            1,
        ),
        (
            "legacy",
            "tools/call --tool show --arg a=1 --arg b=fail",
            Some("application"),
            json!("is_error"),
            0,
        ),
        (
            "legacy",
            "tools/call --tool show --arg a=1 --arg b=fail --fail-on-error",
            Some("application"),
            json!("is_error"),
            1,
        ),
        (
            "legacy",
            "tools/call --tool show",
            Some("validation"),
            json!("invalid_arguments"),
            1,
        ),
        (
            "legacy",
            "tools/call --tool show --arg a=one",
            Some("validation"),
            json!("invalid_arguments"),
            1,
        ),
        (
            "legacy",
            "tools/call --tool nope",
            Some("validation"),
            json!("unknown_name"),
            1,
        ),
        (
            "legacy",
            "tools/call --tool odd",
            Some("validation"),
            json!("invalid_schema"),
            1,
        ),
        (
            "legacy",
            "tools/call",
            Some("validation"),
            json!("missing_parameter"),
            1,
        ),
        ("legacy", "tools/list --tool show", None, json!(null), 2),
        ("legacy", "tools/call --args-json [1]", None, json!(null), 2),
        (
            "legacy",
            "tools/list --answer /no/such/file",
            None,
            json!(null),
            2,
        ),
        (
            "legacy",
            &format!("tools/list --answer {answers}"),
            None,
            json!(null),
            0,
        ),
    ] {
        let words: Vec<&str> = arguments.split(' ').chain(["--structured"]).collect();
        let output = place.call(how, &words);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{how} {arguments}: {output:?}"
        );
        if status == 2 {
            assert!(
                output.stdout.is_empty() && !output.stderr.is_empty(),
                "{arguments}"
            );
            continue;
        }
        let told = envelope(&output);
        assert_eq!(told["success"], category.is_none(), "{arguments}: {told}");
        assert_eq!(
            told["error"]["category"],
            json!(category),
            "{arguments}: {told}"
        );
        assert_eq!(told["error"]["code"], code, "{arguments}: {told}");
        // Without the envelope, the same exit status and the same failure in words.
        let plain = place.call(how, &words[..words.len() - 1]);
        assert_eq!(plain.status.code(), Some(status), "{arguments}");
        if let Some(category) = category {
            let words = String::from_utf8_lossy(&plain.stderr);
            assert!(
                words.contains(&format!("mcpinspect: {category}: ")),
                "{arguments}: {words}"
            );
        }
    }
}

#[test]
fn a_program_that_cannot_be_started_is_a_failure_of_transport() {
    let place = Place::new();
    let file = place.write("not-a-program", "");
    for (program, code) in [("/no/such/program", "not_found"), (&file, "not_permitted")] {
        let output = call(&["ping", "--structured"], &[program.to_owned()]);
        assert_eq!(output.status.code(), Some(1));
        let told = envelope(&output);
        assert_eq!(told["error"]["category"], "transport");
        assert_eq!(told["error"]["code"], code);
    }
    let output = Command::new(env!("CARGO_BIN_EXE_mcpinspect"))
        .args(["call", "ping"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "no command");
}

#[test]
fn a_crash_shows_how_the_server_ended_and_what_it_said_last() {
    let place = Place::new();
    let told = place.envelope("legacy", &["tools/call", "--tool", "crash"]);
    let details = &told["error"]["details"];
    assert_eq!(
        (&details["signal"], &details["exitStatus"]),
        (&json!(6), &json!(null))
    );
    assert_eq!(details["lastLine"], "out of cheese");
    assert_eq!(told["stderr"], json!(["out of cheese"]));
    let told = place.envelope("dies", &["ping"]);
    assert_eq!(told["error"]["details"]["exitStatus"], 3);
    let message = told["error"]["message"].as_str().unwrap();
    assert!(
        message.ends_with("(exit status: 3) before it answered; it said last: no configuration"),
        "{message}"
    );
}

#[test]
fn the_envelope_has_everything_that_was_heard() {
    let place = Place::new();
    let told = place.envelope(
        "legacy",
        &[
            "tools/call",
            "--tool",
            "show",
            "--arg",
            "a=1.5",
            "--arg",
            "b=2",
            "--env",
            "CALLED=yes",
        ],
    );
    let members: Vec<&String> = told.as_object().unwrap().keys().collect();
    let expected = [
        "durationMs",
        "error",
        "logs",
        "method",
        "result",
        "serverRequests",
        "stderr",
        "structuredVersion",
        "success",
    ];
    assert_eq!(members, expected);
    assert_eq!(told["structuredVersion"], 1);
    assert_eq!(
        told["result"]["structuredContent"],
        json!({"env": "yes", "a": 1.5, "b": "2"})
    );
    assert_eq!(told["stderr"], json!(["on stderr"]));
    let log = &told["logs"][0];
    assert_eq!(
        [&log["level"], &log["message"], &log["logger"]],
        ["warning", "shown", "little"]
    );
    assert!(log["timestamp"].as_str().unwrap().ends_with('Z'));
    assert!(
        told["logs"][1]["message"]
            .as_str()
            .unwrap()
            .contains("no message (not_json): stray")
    );
    assert!(told["durationMs"].as_f64().unwrap() > 0.0);
    let plain = place.call("legacy", &["tools/call", "--tool", "show", "--arg", "a=1"]);
    let result: Value = serde_json::from_slice(&plain.stdout).unwrap();
    assert_eq!(result["structuredContent"]["a"], 1);
    assert!(String::from_utf8_lossy(&plain.stderr).contains("[warning little] shown"));
}

#[test]
fn a_hostile_error_does_not_reach_the_terminal() {
    let place = Place::new();
    for options in [&["x/y"][..], &["x/y", "--structured"]] {
        let output = place.call("legacy", options);
        for bytes in [&output.stdout, &output.stderr] {
            assert!(!bytes.contains(&0x1b), "{output:?}");
        }
    }
}

#[test]
fn what_the_server_asks_is_declined_or_answered_from_a_file() {
    let place = Place::new();
    let answers = json!({"sampling/createMessage": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}},
        "elicitation/create": [{"action": "accept", "content": {"name": "Ann"}}]});
    let answers = place.write("answers.json", &answers.to_string());
    let told = place.envelope("legacy", &["tools/call", "--tool", "ask"]);
    let asked = &told["serverRequests"][0];
    assert_eq!(
        [&asked["method"], &asked["via"], &asked["scripted"]],
        [
            &json!("sampling/createMessage"),
            &json!("request"),
            &json!(false)
        ]
    );
    assert_eq!(asked["answer"]["error"]["code"], -1);
    assert_eq!(
        told["result"]["structuredContent"]["error"]["message"],
        "declined"
    );
    let told = place.envelope(
        "legacy",
        &["tools/call", "--tool", "ask", "--answer", &answers],
    );
    assert_eq!(told["serverRequests"][0]["scripted"], true);
    assert_eq!(told["result"]["structuredContent"]["result"]["model"], "m");

    let told = place.envelope("modern", &["tools/call", "--tool", "ask"]);
    assert_eq!(
        told["result"]["structuredContent"],
        json!({"k": {"action": "decline"}})
    );
    assert_eq!(told["serverRequests"][0]["via"], "input_required");
    let told = place.envelope(
        "modern",
        &["tools/call", "--tool", "ask", "--answer", &answers],
    );
    assert_eq!(
        told["result"]["structuredContent"]["k"]["content"]["name"],
        "Ann"
    );
}

#[test]
fn lists_have_all_their_pages() {
    let place = Place::new();
    let output = place.call("legacy", &["tools/list"]);
    let listed = envelope(&output);
    assert_eq!(listed["tools"].as_array().unwrap().len(), 4);
    assert!(listed.get("nextCursor").is_none());
    let output = place.call("legacy", &["tools/list", "--params", r#"{"cursor": "2"}"#]);
    assert_eq!(envelope(&output)["tools"].as_array().unwrap().len(), 2);
}

#[test]
fn a_script_runs_over_one_connection_and_says_what_did_not_hold() {
    let place = Place::new();
    let script = place.write("script.yaml", SCRIPT);
    let report = place.folder.path().join("report.xml");
    let output = place.call(
        "legacy",
        &["--script", &script, "--junit", report.to_str().unwrap()],
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = envelope(&output);
    let steps = told.as_array().unwrap();
    let ran: Vec<(u64, bool)> = steps
        .iter()
        .map(|step| {
            (
                step["step"].as_u64().unwrap(),
                step["passed"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        ran,
        [(1, true), (2, true), (3, true), (4, false), (6, false)],
        "{told:#}"
    );
    assert_eq!(steps[4]["expectations"][0]["message"], "it is 3, and not 4");
    assert_eq!(steps[4]["success"], true);
    assert_eq!(
        steps[4]["stderr"],
        json!(["on stderr", "on stderr", "on stderr"])
    );
    let xml = std::fs::read_to_string(report).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let suite = document
        .descendants()
        .find(|node| node.has_tag_name("testsuite"))
        .unwrap();
    let counts = ["tests", "failures", "skipped"].map(|name| suite.attribute(name).unwrap());
    assert_eq!(counts, ["6", "2", "1"]);
    let failures: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("failure"))
        .collect();
    assert_eq!(failures[0].attribute("type"), Some("protocol"));
    assert_eq!(
        failures[1].attribute("message"),
        Some("result.structuredContent.a: it is 3, and not 4")
    );

    let good = place.write("good.json", r#"{"steps": [{"method": "ping", "unchecked": true, "onError": "continue"}, {"method": "tools/list"}]}"#);
    let output = place.call("legacy", &["--script", &good]);
    let told = envelope(&output);
    assert_eq!(
        (&told[0]["passed"], &told[1]["passed"]),
        (&json!(false), &json!(true)),
        "{told:#}"
    );
}

#[test]
fn a_malformed_script_is_refused_before_anything_runs() {
    let place = Place::new();
    let mark = place.folder.path().join("started");
    for (script, reason) in [
        (
            "- method: ping\n- name: two\n  method: tools/call\n",
            "step 2 (two): `tools/call` needs the tool",
        ),
        (
            "- method: ping\n  expects: []\n",
            "step 1: unknown field `expects`",
        ),
        ("[{]", "script"),
    ] {
        let script = place.write("script", script);
        let touch = ["touch".to_owned(), mark.to_str().unwrap().to_owned()];
        let output = call(&["--script", &script], &touch);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(words.contains(reason), "{words}");
        assert!(!mark.exists(), "the server was started");
    }
}

#[test]
fn a_request_is_repeated_and_timed() {
    let place = Place::new();
    let repeated = [
        "tools/call",
        "--tool",
        "show",
        "--arg",
        "a=1",
        "--repeat",
        "50",
        "--concurrency",
        "8",
    ];
    let told = place.envelope("legacy", &repeated);
    let result = &told["result"];
    assert_eq!(
        (&result["answers"], &result["failures"]),
        (&json!(50), &json!(0)),
        "{told}"
    );
    let [min, p50, max] =
        ["min", "p50", "max"].map(|name| result["latencyMs"][name].as_f64().unwrap());
    assert!(0.0 < min && min <= p50 && p50 <= max, "{result}");
    let table = place.call("legacy", &repeated);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.starts_with("50 answers, 0 failures, "), "{table}");
    assert_eq!(table.lines().count(), 7);
    let told = place.envelope("legacy", &["x/y", "--repeat", "3"]);
    assert_eq!(
        (&told["result"]["failures"], &told["error"]["category"]),
        (&json!(3), &json!("protocol"))
    );
}

#[test]
fn a_server_is_started_by_its_name_in_a_configuration() {
    let place = Place::new();
    let [program, script, how] = place.server("legacy").try_into().unwrap();
    let servers = json!({"mcpServers": {"little": {"command": program, "args": [script, how], "env": {"CALLED": "${CALLER}"}}}});
    place.write(".mcp.json", &servers.to_string());
    let ask = |name: &str| {
        Command::new(env!("CARGO_BIN_EXE_mcpinspect"))
            .args(["call", "tools/call", name, "--tool", "show", "--arg", "a=1"])
            .current_dir(place.folder.path())
            .env("HOME", "/nonexistent")
            .env("CALLER", "by name")
            .output()
            .unwrap()
    };
    let output = ask("little");
    assert_eq!(
        envelope(&output)["structuredContent"]["env"],
        "by name",
        "{output:?}"
    );
    assert_eq!(ask("claude-code:little").status.code(), Some(0));
    let output = ask("unknown");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("no configuration of a client has a server `unknown`")
    );
}
