//! `mcpinspect replay`, as someone uses it who has a tape: against a small real server, the same one changed,
//! and servers that misbehave; in the server's place; and alone.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::built;
use crate::support::folder::Folder;
use crate::support::running::RunningServer;

/// A server in a few lines. Its argument says how it behaves.
const SERVER: &str = r#"
import json, os, subprocess, sys, time
how = sys.argv[1]
pid_file = sys.argv[2] if len(sys.argv) > 2 else None
if how == "dies":
    print("no configuration", file=sys.stderr)
    sys.exit(3)
tools = [{"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}},
         {"name": "now", "description": "The time.", "inputSchema": {"type": "object"}}]
if how == "changed":
    tools = [{"name": "add", "description": "Adds numbers.", "inputSchema": {"type": 7}}]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "little", "version": "1"}}
    elif how == "hangs":
        child = subprocess.Popen(["sleep", "600"])
        open(pid_file, "w").write(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    elif how == "junk":
        os.write(1, b"\x1b[31mjunk\n" + b"\xff" * 100 + b"\n" + b"x" * 70_000_000 + b"\n")
        answer["result"] = {}
    elif how == "floods":
        while True:
            os.write(1, b'{"jsonrpc":"2.0","method":"notifications/x"}\n' * 1000)
    elif method == "tools/list":
        answer["result"] = {"tools": tools, "_meta": {"timestamp": time.time()}}
    elif params.get("name") == "now" and how != "changed":
        answer["result"] = {"content": [{"type": "text", "text": str(time.time())}]}
    elif params.get("name") == "add":
        numbers = params["arguments"]
        answer["result"] = {"content": [{"type": "text", "text": str(numbers["a"] + numbers["b"])}]}
    else:
        answer["error"] = {"code": -32602, "message": "no such tool"}
    print(json.dumps(answer), flush=True)
"#;

struct Workspace {
    folder: Folder,
}

impl Workspace {
    fn new() -> Self {
        let folder = Folder::with_server(SERVER);
        folder.write("session.jsonl", &tape());
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    fn tape(&self) -> PathBuf {
        self.path("session.jsonl")
    }

    /// Replays to the server that behaves like this.
    fn replay(&self, options: &[&str], how: &str) -> Output {
        Command::new(built("mcpinspect"))
            .arg("replay")
            .arg(self.tape())
            .args(options)
            .args(["--to", "--"])
            .args(self.folder.server(how))
            .arg(self.path("pids"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn report(&self, options: &[&str], how: &str) -> Value {
        let output = self.replay(&[options, &["--json"]].concat(), how);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }
}

/// What a client and the server said.
fn tape() -> String {
    let header = json!({"format": "mcpinspect-tape", "version": 1, "session_id": "s", "server_id": "little",
        "fingerprint": "f", "name_source": "x", "transport": "stdio", "protocol_version": "2025-06-18",
        "started": "2026-11-23T12:00:00Z"});
    let call = |id: u64, name: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": name, "arguments": {"a": 1, "b": 2}}})
    };
    let result = |id: u64, text: &str| {
        json!({"jsonrpc": "2.0", "id": id,
            "result": {"content": [{"type": "text", "text": text}]}})
    };
    let tool = |name: &str, description: &str| {
        json!({"name": name, "description": description,
            "inputSchema": {"type": "object"}})
    };
    let messages = [
        (
            "client_to_server",
            json!({"jsonrpc": "2.0", "id": 50, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}),
        ),
        (
            "server_to_client",
            json!({"jsonrpc": "2.0", "id": 50, "result": {"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}}, "serverInfo": {"name": "little", "version": "1"}}}),
        ),
        (
            "client_to_server",
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ),
        (
            "client_to_server",
            json!({"jsonrpc": "2.0", "id": 51, "method": "tools/list"}),
        ),
        (
            "server_to_client",
            json!({"jsonrpc": "2.0", "id": 51, "result": {
            "tools": [tool("add", "Adds."), tool("now", "The time.")], "_meta": {"timestamp": 1}}}),
        ),
        ("client_to_server", call(52, "add")),
        ("server_to_client", result(52, "3")),
        ("client_to_server", call(53, "now")),
        ("server_to_client", result(53, "1700000000.5")),
    ];
    let mut lines = vec![header.to_string()];
    for (at, (direction, message)) in messages.iter().enumerate() {
        let entry = json!({"time": format!("2026-11-23T12:00:0{at}Z"), "direction": direction, "kind": "x",
            "sequence": at + 1, "transport": "stdio", "bytes": 0, "message": message});
        lines.push(entry.to_string());
    }
    lines.join("\n")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const NOW: &str = "tools/call[name=now].result.content[0].text";

#[test]
fn the_exit_status_says_whether_the_server_is_the_same() {
    let workspace = Workspace::new();
    let output = workspace.replay(&[], "same");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains(&format!("value      {NOW}")));
    for options in [
        &["--ignore", NOW][..],
        &["--compare", "structure"],
        &["--skip", "tools/call"],
    ] {
        let output = workspace.replay(options, "same");
        assert_eq!(output.status.code(), Some(0), "{options:?}: {output:?}");
        assert!(text(&output.stdout).ends_with("no differences\n"));
    }
    let output = workspace.replay(&["--compare-volatile", "--only", "tools/list"], "same");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("tools/list.result._meta.timestamp"));
}

#[test]
fn the_report_names_what_broke() {
    let workspace = Workspace::new();
    let report = workspace.report(&[], "changed");
    let found: Vec<_> = report["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["kind"].as_str().unwrap(), one["path"].as_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            ("outcome", "tools/call[name=now]"),
            ("missing", "tools/list.result.tools[name=now]"),
            ("type", "tools/list.result.tools[name=add].inputSchema.type"),
            ("value", "tools/list.result.tools[name=add].description"),
        ]
    );
    assert_eq!(report["same"], false);
    assert_eq!(report["answers"], 4);
}

#[test]
fn values_are_substituted() {
    let workspace = Workspace::new();
    let set = [
        "--set",
        "tools/call[name=add].arguments.a=40",
        "--only",
        "tools/call",
        "--skip",
        "x",
    ];
    let report = workspace.report(&[&set[..], &["--ignore", NOW]].concat(), "same");
    let differences = report["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 1, "{report:#}");
    assert_eq!(differences[0]["is"], "\"42\"");
    assert_eq!(report["substitutions"][0]["places"], 1);
}

fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    // One that nobody has waited for yet is dead all the same.
    status.is_ok_and(|stat| !stat.contains(") Z"))
}

#[test]
fn servers_that_misbehave_are_reported_and_leave_nothing_behind() {
    let workspace = Workspace::new();
    let output = workspace.replay(&[], "dies");
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(
        error.contains("exit status: 3") && error.contains("no configuration"),
        "{error}"
    );

    let started = Instant::now();
    let report = workspace.report(&["--timeout", "1"], "hangs");
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(
        report["stopped"]
            .as_str()
            .unwrap()
            .contains("did not answer"),
        "{report:#}"
    );
    let pids = std::fs::read_to_string(workspace.path("pids")).unwrap();
    for pid in pids.split_whitespace() {
        let gone = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            !is_alive(pid)
        });
        assert!(gone, "{pid} is still there");
    }

    let output = workspace.replay(&[], "junk");
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(
        shown.contains("not a message") && !shown.contains('\u{1b}'),
        "{shown}"
    );

    let report = workspace.report(&["--timeout", "60"], "floods");
    assert!(
        report["stopped"]
            .as_str()
            .unwrap()
            .contains("unrequested messages"),
        "{report:#}"
    );
}

#[test]
fn a_server_at_a_url_is_asked_too() {
    let workspace = Workspace::new();
    workspace
        .folder
        .write("odd.py", include_str!("call_cli/odd_http.py"));
    let mut server = Command::new("python3");
    let server = server
        .arg(workspace.path("odd.py"))
        .arg(workspace.path("requests"));
    let server = RunningServer::start(server);
    let replay = |path: &str| {
        let output = Command::new(built("mcpinspect"))
            .arg("replay")
            .arg(workspace.tape())
            .args(["--json", "--header", "A: b", "--to"])
            .arg(format!("http://127.0.0.1:{}{path}", server.first_line))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report
    };
    let report = replay("/plain");
    assert_eq!(report["requests"], report["answers"], "{report}");
    let kinds = |report: &Value| report["differences"].to_string();
    assert!(!kinds(&report).contains("no_answer"), "{report}");
    // A request that fails by itself is not waited for.
    let began = Instant::now();
    let report = replay("/gone");
    assert!(kinds(&report).contains("Session not found"), "{report}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn what_is_not_possible_is_an_error() {
    let workspace = Workspace::new();
    let run = |arguments: &[&str]| {
        let output = Command::new(built("mcpinspect"))
            .arg("replay")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        text(&output.stderr).to_owned()
    };
    let tape = workspace.tape();
    let tape = tape.to_str().unwrap();
    assert!(run(&[tape, "--to", "http://127.0.0.1:1/mcp"]).contains("refused the connection"));
    assert!(run(&[tape, "--to", "localhost"]).contains("not an HTTP URL"));
    assert!(run(&[tape, "--to", "--", "/no/such/server"]).contains("cannot start"));
    assert!(run(&["/no/such/tape", "--to", "--", "true"]).contains("cannot read"));
    assert!(run(&[tape, "--to"]).contains("no server given"));
    assert!(run(&[tape, "--as-server", "--to", "--", "true"]).contains("cannot be used with"));
    assert!(run(&[tape, "--fail", "ping"]).contains("--as-server"));
    assert!(run(&[tape, "--speed", "0", "--to", "--", "true"]).contains("0.1 to 100"));
    assert!(run(&[tape, "--ignore", ".x", "--to", "--", "true"]).contains("begin with a method"));
    let cut = workspace.path("cut.jsonl");
    std::fs::write(&cut, &tape_bytes(&workspace)[..900]).unwrap();
    assert!(run(&[cut.to_str().unwrap(), "--to", "--", "true"]).contains("is truncated"));
}

/// Lets a client say this to the server that the tape stands for.
fn serve(workspace: &Workspace, options: &[&str], said: &[Value]) -> Output {
    let mut child = Command::new(built("mcpinspect"))
        .arg("replay")
        .arg(workspace.tape())
        .arg("--as-server")
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for message in said {
        writeln!(input, "{message}").unwrap();
    }
    drop(input);
    child.wait_with_output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    let lines = text(&output.stdout).lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn ask(id: &str, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: &str, name: &str) -> Value {
    ask(
        id,
        "tools/call",
        json!({"name": name, "arguments": {"b": 2, "a": 1}}),
    )
}

#[test]
fn a_tape_stands_for_its_server() {
    let workspace = Workspace::new();
    let said = [
        ask("i", "initialize", json!({"protocolVersion": "2025-06-18"})),
        ask("l", "tools/list", json!({})),
        call("n", "now"),
        call("a", "add"),
    ];
    let output = serve(&workspace, &[], &said);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answers = lines(&output);
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[3]["id"], "a");
    assert_eq!(answers[3]["result"]["content"][0]["text"], "3");

    let report = workspace.path("report.json");
    let options = ["--match", "strict", "--report", report.to_str().unwrap()];
    let output = serve(&workspace, &options, &[said[0].clone(), call("n", "now")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(lines(&output)[1]["error"]["code"].is_i64());
    let message = text(&output.stderr);
    assert!(
        message.contains("not on the tape: tools/call[name=now]"),
        "{message}"
    );
    assert!(
        message.contains("not requested: tools/list (message 4)"),
        "{message}"
    );
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    assert_eq!(report["complete"], false);
    assert_eq!(report["not_consumed"].as_array().unwrap().len(), 3);

    let options = [
        "--fail",
        "tools/call[name=now]:-7",
        "--delay",
        "tools/list:300",
        "--set",
        "tools/call[name=add].result.content[0].text=\"4\"",
    ];
    let output = serve(&workspace, &options, &said);
    let answers = lines(&output);
    let ids: Vec<&str> = answers
        .iter()
        .map(|answer| answer["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["i", "n", "a", "l"]);
    assert_eq!(answers[1]["error"]["code"], -7);
    assert_eq!(answers[2]["result"]["content"][0]["text"], "4");
}

/// Plays the tape with these commands.
fn play(workspace: &Workspace, options: &[&str], commands: &str) -> String {
    let mut child = Command::new(built("mcpinspect"))
        .arg("replay")
        .arg(workspace.tape())
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that is told to quit does not read the rest.
    let _ = child.stdin.take().unwrap().write_all(commands.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    text(&output.stdout).to_owned()
}

#[test]
fn a_tape_is_played_alone() {
    let workspace = Workspace::new();
    let shown = play(&workspace, &["--speed", "max"], "");
    assert_eq!(shown.lines().count(), 9);
    assert!(
        shown.contains("    3.000s  → 4 request tools/list  {"),
        "{shown}"
    );
    let shown = play(&workspace, &["--speed", "max", "--break", "tool=now"], "");
    assert_eq!(shown.lines().count(), 8);
    let commands = "step 2\nseek 7\nnonsense\n\nseek 0s\nstep\nquit\nstep\n";
    let shown = play(&workspace, &["--step", "--json"], commands);
    let numbers: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["number"].clone())
        .collect();
    assert_eq!(numbers, [1, 2, 7, 1]);
    let shown = play(
        &workspace,
        &["--speed", "20", "--from", "4", "--until", "4.5s"],
        "",
    );
    assert_eq!(shown.lines().count(), 2, "{shown}");
}

fn tape_bytes(workspace: &Workspace) -> Vec<u8> {
    std::fs::read(workspace.tape()).unwrap()
}
