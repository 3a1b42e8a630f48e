//! What a guard does beside the wire: it asks a person, copies messages, and posts decisions.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::bus::Bus;
use crate::support::desktop::Desktop;
use crate::support::{built, eventually, require};

/// Answers every request with the name of the tool that was called.
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = {"content": [{"type": "text", "text": "done: " + message.get("params", {}).get("name", "")}]}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
        if message["method"] == "ping":
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/x"}), flush=True)
"#;

/// A guard in front of that server, and its client.
struct Guarded {
    directory: tempfile::TempDir,
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Guarded {
    fn start(policy: &str, arguments: &[&str], bus: Option<&str>) -> Self {
        require(&["python3"]);
        let directory = tempfile::tempdir().unwrap();
        let policy = policy.replace("PLACE", &directory.path().display().to_string());
        std::fs::write(directory.path().join("p.toml"), policy).unwrap();
        std::fs::write(directory.path().join("server.py"), SERVER).unwrap();
        let mut child = Command::new(built("mcpinspect"))
            .arg("guard")
            .arg("--policy")
            .arg(directory.path().join("p.toml"))
            .arg("--log")
            .arg(directory.path().join("log"))
            .args(arguments)
            .args(["--server=files", "--", "python3", "-u"])
            .arg(directory.path().join("server.py"))
            .env(
                "DBUS_SESSION_BUS_ADDRESS",
                bus.unwrap_or("unix:path=/nowhere"),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self {
            directory,
            child,
            lines,
        }
    }

    fn say(&mut self, message: &Value) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn call(&mut self, id: u64, tool: &str) {
        self.say(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}}),
        );
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Ends the session, and returns what was decided and what standard error says.
    fn end(mut self) -> (Vec<Value>, String, tempfile::TempDir) {
        drop(self.child.stdin.take());
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        self.child.wait().unwrap();
        (
            lines(self.directory.path().join("log")),
            errors,
            self.directory,
        )
    }
}

fn lines(path: impl AsRef<std::path::Path>) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

const ASK: &str = r#"
[[rule]]
id = "writes"
name = "Files change"
when = { method = "tools/call", tool = { in = ["write", "<b>edit</b>"] } }
action = "ask"
question = "Is this meant?"
timeout = "TIME"
answer = "result"
"#;

#[test]
fn a_person_is_asked_and_the_other_direction_goes_on() {
    require(&["dbus-daemon"]);
    let bus = Bus::session();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let desktop = Desktop::default();
    let connection = desktop.on(&bus, &runtime);
    let address = bus.address();
    let policy = ASK.replace("TIME", "60s");
    let mut guarded = Guarded::start(&policy, &[], Some(&address));
    let asked = |number: usize| {
        eventually("a question", || {
            desktop.shown.lock().unwrap().get(number).cloned()
        })
    };

    guarded.call(1, "write");
    let question = asked(0);
    assert_eq!(question.summary, "May write of files be called?");
    assert!(
        question.body.starts_with("Is this meant?\n"),
        "{}",
        question.body
    );
    assert_eq!(
        question.actions,
        [
            "allow",
            "Allow once",
            "allow-session",
            "Allow in this session",
            "deny",
            "Deny"
        ]
    );
    desktop.press(&connection, &runtime, question.id, "allow");
    assert_eq!(
        guarded.hear()["result"]["content"][0]["text"],
        "done: write"
    );
    // Taken off the screen, and asked about again.
    eventually("the end of the question", || {
        desktop
            .closed
            .lock()
            .unwrap()
            .contains(&question.id)
            .then_some(())
    });

    guarded.call(2, "write");
    desktop.press(&connection, &runtime, asked(1).id, "deny");
    let denied = guarded.hear();
    assert_eq!(denied["id"], 2);
    assert_eq!(
        denied["result"]["content"][0]["text"],
        "Not allowed by the user: Files change"
    );

    // Markup in names is no markup on the screen.
    guarded.call(3, "<b>edit</b>");
    let question = asked(2);
    assert!(!question.body.contains("<b>"), "{}", question.body);
    desktop.press(&connection, &runtime, question.id, "allow-session");
    assert_eq!(guarded.hear()["id"], 3);
    guarded.call(4, "<b>edit</b>");
    assert_eq!(guarded.hear()["id"], 4);
    // Another tool of the same rule is still asked about.
    guarded.call(5, "write");
    desktop.press(&connection, &runtime, asked(3).id, "deny");
    assert_eq!(guarded.hear()["id"], 5);

    let (decisions, errors, _place) = guarded.end();
    let words: Vec<_> = decisions
        .iter()
        .map(|one| {
            (
                one["action"].as_str().unwrap(),
                one["asked"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        words,
        [
            ("allow", "allowed"),
            ("block", "denied"),
            ("allow", "allowed"),
            ("allow", "allowed"),
            ("block", "denied"),
        ]
    );
    assert_eq!(errors, "");
}

#[test]
fn silence_and_a_missing_desktop_are_a_no() {
    require(&["dbus-daemon"]);
    let bus = Bus::session();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let desktop = Desktop::default();
    let _connection = desktop.on(&bus, &runtime);
    let policy = ASK.replace("TIME", "1s");
    let mut guarded = Guarded::start(&policy, &[], Some(&bus.address()));
    let start = Instant::now();
    guarded.call(1, "write");
    assert_eq!(guarded.hear()["result"]["isError"], true);
    assert!(start.elapsed() >= Duration::from_secs(1));
    eventually("the end of the question", || {
        (!desktop.closed.lock().unwrap().is_empty()).then_some(())
    });
    assert_eq!(guarded.end().0[0]["asked"], "no_answer");

    let mut guarded = Guarded::start(&policy, &[], None);
    guarded.call(1, "write");
    assert_eq!(guarded.hear()["result"]["isError"], true);
    assert_eq!(guarded.end().0[0]["asked"], "no_one_to_ask");

    let mut guarded = Guarded::start(&policy, &["--on-failure", "open"], None);
    guarded.call(1, "write");
    assert_eq!(
        guarded.hear()["result"]["content"][0]["text"],
        "done: write"
    );
    let decisions = guarded.end().0;
    assert_eq!(
        (&decisions[0]["asked"], &decisions[0]["action"]),
        (&json!("no_one_to_ask"), &json!("allow"))
    );
}

#[test]
fn copies_are_whole_and_what_cannot_be_copied_is_told() {
    let policy = r#"
[[rule]]
id = "file"
when = { method = "tools/call" }
on = ["request", "response"]
action = "fork"
to = { file = "PLACE/copies" }

[[rule]]
id = "command"
when = { method = "tools/call" }
action = "fork"
to = { command = ["sh", "-c", "cat > PLACE/piped"] }

[[rule]]
id = "nowhere"
when = { method = "tools/call" }
action = "fork"
to = { file = "PLACE/missing/copies" }
"#;
    let mut guarded = Guarded::start(policy, &[], None);
    let long = "x".repeat(100_000);
    for id in 0..20 {
        guarded.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "a", "arguments": {"password": long}}}));
        assert_eq!(guarded.hear()["id"], id);
    }
    let (_, errors, directory) = guarded.end();
    assert!(
        errors.contains("the rule `nowhere` cannot copy") && errors.lines().count() == 1,
        "{errors}"
    );
    let copies = lines(directory.path().join("copies"));
    assert_eq!(copies.len(), 40);
    for (number, copy) in copies.iter().enumerate() {
        let direction = ["client_to_server", "server_to_client"][number % 2];
        assert_eq!(copy["direction"], direction);
        assert_eq!(
            (&copy["server_id"], &copy["rule"]),
            (&json!("files"), &json!("file"))
        );
        assert_eq!(copy["message"]["id"], number / 2);
    }
    assert_eq!(
        copies[0]["message"]["params"]["arguments"]["password"],
        long
    );
    eventually("what the command writes", || {
        (lines(directory.path().join("piped")).len() == 20).then_some(())
    });
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(directory.path().join("copies")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
}

/// Reads one request, and answers it with a status.
fn answer(listener: &TcpListener, status: &str) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
fn decisions_are_posted_and_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (bodies, posted) = mpsc::channel();
    std::thread::spawn(move || {
        for status in ["503 Later", "200 OK", "204 No Content"] {
            bodies.send(answer(&listener, status)).unwrap();
        }
    });
    let policy = format!(
        "[[rule]]\nid = \"hook\"\nwhen = {{ tool = \"write\" }}\naction = \"webhook\"\nurl = \"{url}\"\n"
    );
    let mut guarded = Guarded::start(&policy, &[], None);
    guarded.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "write", "arguments": {"password": "hunter22hunter22"}}}));
    assert_eq!(guarded.hear()["id"], 1);
    guarded.call(2, "read");
    assert_eq!(guarded.hear()["id"], 2);
    guarded.call(3, "write");
    assert_eq!(guarded.hear()["id"], 3);
    let wait = || {
        posted
            .recv_timeout(Duration::from_secs(30))
            .expect("a post")
    };
    let (first, again, second) = (wait(), wait(), wait());
    assert_eq!(first, again);
    assert!(!first.contains("hunter22"), "{first}");
    let (first, second): (Value, Value) = (
        serde_json::from_str(&first).unwrap(),
        serde_json::from_str(&second).unwrap(),
    );
    assert_eq!(
        (&first["action"], &first["id"]),
        (&json!("webhook"), &json!("1"))
    );
    assert_eq!(second["id"], "3");
    let (decisions, errors, _place) = guarded.end();
    assert_eq!((decisions.len(), errors.as_str()), (2, ""));
}

#[test]
fn a_url_that_refuses_is_told_and_holds_nothing_up() {
    let policy = "[[rule]]\nid = \"hook\"\nwhen = { tool = \"write\" }\naction = \"webhook\"\nurl = \"http://127.0.0.1:1/secret?token=x\"\n";
    let mut guarded = Guarded::start(policy, &[], None);
    let start = Instant::now();
    guarded.call(1, "write");
    assert_eq!(guarded.hear()["id"], 1);
    assert!(start.elapsed() < Duration::from_secs(20));
    let (_, errors, _place) = guarded.end();
    assert!(!errors.contains("token"), "{errors}");
}
