//! `mcpinspect guard` in front of small servers: what passes, what does not, and that neither side notices
//! anything else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::built;

/// A rule that matches nothing that these tests say, so that every line is judged.
const JUDGED: &str = "[[rule]]\nid = \"a\"\nwhen = { tool = \"never\" }\naction = \"block\"\n";

const RULES: &str = r#"
[[rule]]
id = "no-writes"
when = { method = "tools/call", tool = "write" }
action = "block"
answer = "result"
message = "Read only."

[[rule]]
id = "masked"
on = ["response"]
when = { tool = "env" }
action = "modify"
redact = [{ path = "**", matches = "hunter2" }]

[[rule]]
id = "no-sampling"
when = { method = "sampling/createMessage" }
action = "block"
"#;

struct Workspace(tempfile::TempDir);

impl Workspace {
    fn new(policy: &str) -> Self {
        let workspace = Self(tempfile::tempdir().unwrap());
        std::fs::write(workspace.path("p.toml"), policy).unwrap();
        workspace
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The guard in front of a command.
    fn guard(&self, command: &[&str]) -> Command {
        let mut guard = Command::new(built("mcpinspect"));
        guard
            .arg("guard")
            .arg("--policy")
            .arg(self.path("p.toml"))
            .arg("--log")
            .arg(self.path("log"))
            .arg("--")
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        guard
    }

    /// The guard in front of a Python program.
    fn python(&self, program: &str) -> Command {
        std::fs::write(self.path("server.py"), program).unwrap();
        let path = self.path("server.py").display().to_string();
        self.guard(&["python3", "-u", &path])
    }

    fn decisions(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.path("log")).unwrap();
        log.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Writes all of the input, piece by piece, and reads what comes.
fn talk(mut command: Command, pieces: &[&[u8]]) -> Output {
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
    let writer = std::thread::spawn(move || {
        for piece in pieces {
            if input.write_all(&piece).is_err() {
                return;
            }
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

struct Conversation {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Conversation {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill(
            Pid::from_raw(i32::try_from(self.child.id()).unwrap()),
            signal,
        )
        .unwrap();
    }
}

/// Answers every request with what it was asked, and `env` with a password.
const ECHO: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if isinstance(message, dict) and "id" in message and "method" in message:
        text = "hunter2" if message.get("params", {}).get("name") == "env" else line.strip()
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"said": text}}))
    else:
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/heard", "params": {"said": line.strip()}}))
"#;

fn call(id: u64, tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}})
        .to_string()
}

#[test]
fn rules_are_enforced_in_both_directions() {
    let workspace = Workspace::new(RULES);
    let mut guarded = Conversation::start(workspace.python(ECHO));
    guarded.say(&call(1, "read"));
    assert!(guarded.hear().contains(r#"\"name\":\"read\""#));
    guarded.say(&call(2, "write"));
    let answer: Value = serde_json::from_str(&guarded.hear()).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "Read only.");
    guarded.say(&call(3, "env"));
    let answer = guarded.hear();
    assert_eq!(
        answer,
        r#"{"jsonrpc": "2.0", "id": 3, "result": {"said": "«redacted»"}}"#
    );
    let twice =
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"read","name":"write"}}"#;
    guarded.say(twice);
    let answer: Value = serde_json::from_str(&guarded.hear()).unwrap();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&4.into(), &(-32600).into())
    );
    // The server never heard of any of this.
    guarded.say(&call(5, "last"));
    assert!(guarded.hear().contains("last"));
    drop(guarded.child.stdin.take());
    assert!(guarded.child.wait().unwrap().success());
    let actions: Vec<Value> = workspace
        .decisions()
        .iter()
        .map(|line| line["action"].clone())
        .collect();
    assert_eq!(actions, ["block", "modify", "refuse"]);
    let modified = &workspace.decisions()[1];
    assert_eq!(modified["after"], r#"{"said": "«redacted»"}"#);
    assert_eq!(modified["rules"][0]["id"], "masked");
}

#[test]
fn a_server_s_request_is_answered_in_the_client_s_place() {
    let workspace = Workspace::new(RULES);
    let server = r#"
import sys
print('{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{}}')
print("heard " + sys.stdin.readline(), end="")
"#;
    let mut guarded = Conversation::start(workspace.python(server));
    let heard = guarded.hear();
    assert!(
        heard.starts_with(r#"heard {"jsonrpc":"2.0","id":"s","error""#),
        "{heard}"
    );
    assert!(guarded.child.wait().unwrap().success());
}

/// What peers write and should not: everything of it passes.
const ODD: &[u8] = b"stray output\n\n \t\r\n{\"jsonrpc\":\"2.0\" , \"method\":\"x\"}\r\n[ ]\n\xff\xfe\n[{\"jsonrpc\":\"2.0\",\"method\":\"y\"} ]\nno newline";

#[test]
fn every_byte_passes_where_nothing_matches() {
    for policy in ["", JUDGED] {
        let workspace = Workspace::new(policy);
        let output = talk(workspace.guard(&["cat"]), &[ODD]);
        assert_eq!(output.stdout, ODD, "{policy}");
        assert!(output.status.success());
        assert!(workspace.decisions().is_empty());
        // Eight mebibytes in one message, there and back.
        let large = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":\"{}\"}}\n",
            "a\\n".repeat(8 << 20 >> 1)
        );
        let output = talk(workspace.guard(&["cat"]), &[large.as_bytes()]);
        assert!(output.stdout == large.as_bytes());
    }
}

#[test]
fn the_end_of_the_server_is_the_end_of_the_guard() {
    let workspace = Workspace::new(JUDGED);
    let ends = |script: &str| talk(workspace.guard(&["sh", "-c", script]), &[]);
    let output = ends("echo out; echo err >&2; exit 42");
    assert_eq!(
        (output.status.code(), &*output.stdout, &*output.stderr),
        (Some(42), b"out\n".as_slice(), b"err\n".as_slice())
    );
    assert_eq!(ends("kill -KILL $$").status.signal(), Some(9));
    assert_eq!(ends("kill -TERM $$").status.signal(), Some(15));
    assert_eq!(ends("kill -SEGV $$").status.signal(), Some(11));
    assert_eq!(ends("echo $THING; exit 0").stdout, b"\n");
    let mut with = workspace.guard(&["sh", "-c", "echo $THING; pwd"]);
    with.env("THING", "there").current_dir("/usr");
    assert_eq!(talk(with, &[]).stdout, b"there\n/usr\n");
    let missing = talk(workspace.guard(&["/nonexistent/server"]), &[]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot start"));
    // A helper that keeps the pipes does not keep the guard.
    let started = Instant::now();
    let mut child = workspace
        .guard(&["sh", "-c", "sleep 30 2>/dev/null & echo on; exit 3"])
        .spawn()
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn signals_reach_the_server() {
    let server = r#"
import signal, sys, time
def on(number, frame):
    print(f"got {number}", flush=True)
    if number == signal.SIGTERM:
        sys.exit(5)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, on)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"#;
    let workspace = Workspace::new(JUDGED);
    let mut guarded = Conversation::start(workspace.python(server));
    assert_eq!(guarded.hear(), "ready");
    for (signal, heard) in [
        (Signal::SIGHUP, "got 1"),
        (Signal::SIGUSR1, "got 10"),
        (Signal::SIGTERM, "got 15"),
    ] {
        guarded.signal(signal);
        assert_eq!(guarded.hear(), heard);
    }
    assert_eq!(guarded.child.wait().unwrap().code(), Some(5));
    // Whoever kills the guard means the server.
    let mut guarded =
        Conversation::start(workspace.guard(&["sh", "-c", "echo $$; exec sleep 600"]));
    let server: i32 = guarded.hear().parse().unwrap();
    guarded.signal(Signal::SIGKILL);
    guarded.child.wait().unwrap();
    let gone = Instant::now() + Duration::from_secs(10);
    while PathBuf::from(format!("/proc/{server}/exe"))
        .read_link()
        .is_ok()
    {
        assert!(Instant::now() < gone, "the server runs on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn half_closed_pipes_stay_half_closed() {
    let workspace = Workspace::new(JUDGED);
    // The client closes its side first, and still gets its answers.
    let server = "import sys\nall = sys.stdin.read()\nprint(len(all))\nsys.exit(4)\n";
    let output = talk(workspace.python(server), &[b"{}\n", b"rest"]);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(4), b"7\n".as_slice())
    );
    // The server closes its output, and still reads.
    let server = "import os, sys\nos.close(1)\nall = sys.stdin.read()\nopen(sys.argv[0] + '.heard', 'w').write(all)\nos._exit(6)\n";
    let mut guarded = Conversation::start(workspace.python(server));
    assert_eq!(guarded.lines.read(&mut [0; 1]).unwrap(), 0);
    guarded.say("{\"late\":1}");
    drop(guarded.child.stdin.take());
    assert_eq!(guarded.child.wait().unwrap().code(), Some(6));
    let heard = std::fs::read(workspace.path("server.py.heard")).unwrap();
    assert_eq!(heard, b"{\"late\":1}\n");
    // The server closes its input: the client's pipe breaks, as it would have.
    let mut guarded =
        Conversation::start(workspace.guard(&["sh", "-c", "exec 0<&-; sleep 2; exit 7"]));
    let mut input = guarded.child.stdin.take().unwrap();
    let breaks = Instant::now() + Duration::from_secs(10);
    while input.write_all(b"{}\n").is_ok() {
        assert!(Instant::now() < breaks, "the pipe does not break");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(guarded.child.wait().unwrap().code(), Some(7));
    // The client closes its output: the server's pipe breaks.
    let mut guarded = Conversation::start(workspace.guard(&[
        "sh",
        "-c",
        "while echo {} 2>/dev/null; do sleep 0.01; done; exit 8",
    ]));
    assert_eq!(guarded.hear(), "{}");
    let Conversation { mut child, lines } = guarded;
    drop(lines);
    let status = child.wait().unwrap();
    // The shell is killed by the signal, or sees the error.
    assert!(
        status.signal() == Some(13) || status.code() == Some(8),
        "{status:?}"
    );
}

#[test]
fn what_a_slow_client_has_not_read_is_not_lost() {
    let workspace = Workspace::new(JUDGED);
    let mut child = workspace
        .guard(&[
            "sh",
            "-c",
            "head -c 3000000 /dev/zero | tr '\\0' x; echo; exit 9",
        ])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let mut all = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    assert_eq!(
        (all.len(), child.wait().unwrap().code()),
        (3_000_001, Some(9))
    );
}

#[test]
fn what_is_too_long_to_be_judged() {
    let long = format!("{{\"a\":\"{}\"}}\nshort\n", "x".repeat(65 << 20));
    for (how, length) in [("closed", 6), ("open", long.len())] {
        let workspace = Workspace::new(JUDGED);
        let mut guard = Command::new(built("mcpinspect"));
        guard
            .args(["guard", "--on-failure", how, "--policy"])
            .arg(workspace.path("p.toml"));
        guard
            .arg("--log")
            .arg(workspace.path("log"))
            .args(["--", "cat"]);
        guard.stdin(Stdio::piped()).stdout(Stdio::piped());
        let output = talk(guard, &[long.as_bytes()]);
        assert_eq!(output.stdout.len(), length, "{how}");
        assert_eq!(workspace.decisions()[0]["reason"], "too_long");
    }
}

#[test]
fn a_policy_with_a_mistake_is_not_enforced_in_part() {
    let workspace = Workspace::new("[[rule]]\nid = \"a\"\n");
    let output = talk(workspace.guard(&["echo", "started"]), &[]);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(2), b"".as_slice())
    );
    let mut guard = Command::new(built("mcpinspect"));
    guard
        .args(["guard", "--on-failure", "open", "--policy"])
        .arg(workspace.path("p.toml"));
    guard.args(["--", "echo", "started"]);
    guard
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = talk(guard, &[]);
    assert_eq!(&*output.stdout, b"started\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("without one"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// However the bytes come, each line is judged once, and what passes is what no rule matches.
    #[test]
    fn splits_make_no_difference(
        tools in prop::collection::vec(prop::sample::select(vec!["read", "write", "x"]), 1..20),
        cuts in prop::collection::vec(1_usize..60, 1..40),
    ) {
        let workspace = Workspace::new(RULES);
        let mut text = Vec::new();
        for (id, tool) in tools.iter().enumerate() {
            text.extend(call(id as u64, tool).into_bytes());
            text.extend(if id % 3 == 0 { b"\r\n".as_slice() } else { b"\n" });
        }
        let mut pieces: Vec<&[u8]> = Vec::new();
        let (mut rest, mut cuts) = (&text[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        let output = talk(workspace.guard(&["cat"]), &pieces);
        let lines: Vec<&[u8]> = output.stdout.split_inclusive(|byte| *byte == b'\n').collect();
        let passed: Vec<u8> = lines.iter().copied().filter(|line| !line.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\"")).flatten().copied().collect();
        let expected: Vec<u8> = text
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| !line.windows(7).any(|part| part == b"\"write\""))
            .flatten()
            .copied()
            .collect();
        prop_assert_eq!(passed, expected);
        let blocked = tools.iter().filter(|tool| **tool == "write").count();
        prop_assert_eq!(workspace.decisions().len(), blocked);
        let answers = lines.iter().filter(|line| line.windows(10).any(|part| part == b"Read only.")).count();
        prop_assert_eq!(answers, blocked);
    }
}
