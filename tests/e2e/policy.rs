//! Policies on real sessions: what the daemon says that a guard would have done, what it does itself, and that
//! a server is the same with a guard in front of it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::listening::Listening;
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, oddclient};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::SESSION;
use crate::http::{Server, client};

/// A server with a name of its own, and a policy.
struct Workspace {
    directory: TempDir,
    name: String,
}

impl Workspace {
    fn new(test: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let name = format!("policy-{test}");
        std::fs::copy(places::program("oddpeer")?, directory.path().join(&name))?;
        Ok(Self { directory, name })
    }

    fn policy(&self) -> PathBuf {
        self.directory.path().join("policy.toml")
    }

    fn write(&self, id: &str, action: &str) -> Result<()> {
        let rule = format!(
            "[[rule]]\nid = {id:?}\nwhen = {{ method = \"tools/call\", tool = \"echo\", server = {:?} }}\naction = {action:?}\n",
            self.name
        );
        Ok(std::fs::write(self.policy(), rule)?)
    }

    /// A daemon that asks the policy.
    fn state(&self) -> Result<State> {
        let state = State::new()?;
        let mut file = OpenOptions::new()
            .append(true)
            .open(state.configuration())?;
        writeln!(file, "\n[policy]\npath = {:?}", self.policy())?;
        Ok(state)
    }

    fn server(&self) -> [OsString; 2] {
        [
            self.directory.path().join(&self.name).into(),
            "server".into(),
        ]
    }

    /// The server, with a guard in front of it.
    fn guarded(&self) -> Result<Vec<OsString>> {
        let mut command: Vec<OsString> =
            vec![places::program("mcpinspect")?.into(), "guard".into()];
        command.extend(["--policy".into(), self.policy().into(), "--".into()]);
        command.extend(self.server());
        Ok(command)
    }

    fn talk(&self, plan: &str) -> Result<Talk> {
        Talk::start(oddclient(&[], plan, &self.server())?)
    }
}

fn matched<'a>(rule: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |event| event["type"] == "mcp_rule_matched" && event["rules"][0]["id"] == rule
}

#[test]
fn the_daemon_says_what_a_guard_would_have_done() -> Result<()> {
    let workspace = Workspace::new("shadow")?;
    workspace.write("first", "block")?;
    let state = workspace.state()?;
    let mut daemon = Daemon::start(&state)?;
    // It arrived, and was answered: what both sides logged says so.
    let truth = workspace
        .talk("handshake; list; call 300; sleep 100")?
        .finish(SESSION)?;
    ensure!(truth.to_client.len() >= 3);
    let event = daemon.event("for a rule", matched("first"))?;
    for (field, value) in [
        ("server_id", json!(workspace.name)),
        ("decision", json!("block")),
        ("enforced", json!(false)),
        ("kind", json!("request")),
        ("tool_name", json!("echo")),
    ] {
        ensure!(event[field] == value, "{field} in {event}");
    }

    // Another policy, without a restart; one with a mistake changes nothing.
    let reload = || {
        kill(Pid::from_raw(i32::try_from(daemon.pid())?), Signal::SIGHUP)
            .map_err(anyhow::Error::from)
    };
    workspace.write("second", "alert")?;
    reload()?;
    let read = |daemon: &Daemon<'_>, count| daemon.log().matches("policy loaded").count() >= count;
    while !read(&daemon, 2) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    workspace.write("third", "nothing")?;
    reload()?;
    while !daemon
        .log()
        .contains("the previous configuration stays in use")
    {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    workspace
        .talk("handshake; call 300; sleep 100")?
        .finish(SESSION)?;
    let event = daemon.event("for the other rule", matched("second"))?;
    ensure!(
        event["enforced"] == true && event["decision"] == "alert",
        "{event}"
    );
    ensure!(state.mentions("\"third\"")? == 0);
    ensure!(
        daemon.log().contains("unknown action `nothing`"),
        "{}",
        daemon.log()
    );
    daemon.stop()?;
    Ok(())
}

#[test]
fn a_rule_has_a_server_killed() -> Result<()> {
    let workspace = Workspace::new("kill")?;
    workspace.write("deadly", "kill")?;
    let state = workspace.state()?;
    let mut daemon = Daemon::start(&state)?;
    let mut talk = workspace.talk("handshake; list; call 300; sleep 20000; call 300")?;
    let event = daemon.event("for the end of the server", |event| {
        event["type"] == "mcp_contained" && event["pattern"] == "deadly"
    })?;
    ensure!(
        event["measure"] == "kill" && event["missed"] == json!([]),
        "{event}"
    );
    ensure!(event["server_id"] == json!(workspace.name), "{event}");
    let ended = daemon.event("for the session's end", |other| {
        other["type"] == "mcp_session_ended" && other["session_id"] == event["session_id"]
    })?;
    ensure!(ended["reason"] == "server_exited", "{ended}");
    let rule = daemon.event("for the rule", matched("deadly"))?;
    ensure!(rule["enforced"] == true, "{rule}");
    talk.kill()?;
    daemon.stop()?;
    Ok(())
}

/// What passes a guard is told once, under the server's name.
#[test]
fn a_server_behind_a_guard_is_told_once() -> Result<()> {
    let workspace = Workspace::new("once")?;
    let blocked = "[[rule]]\nid = \"no-echo\"\nwhen = { method = \"tools/call\", tool = \"echo\" }\naction = \"block\"\n";
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let sessions = [
        ("", "handshake; list; call 300; call 100000; list"),
        (blocked, "handshake; list; sleep 100"),
    ];
    for (before, (policy, plan)) in sessions.into_iter().enumerate() {
        std::fs::write(workspace.policy(), policy)?;
        let command = oddclient(&[], plan, &workspace.guarded()?)?;
        Talk::start(command)?.end(SESSION)?;
        let ended = |_: &Value| {
            let events = state.events().unwrap_or_default();
            let ended = events.iter().filter(|event| {
                event["type"] == "mcp_session_ended" && event["server_id"] == json!(workspace.name)
            });
            ended.count() == before + 1
        };
        daemon.event("for the server's side", ended)?;
    }
    // Longer than anything waits.
    std::thread::sleep(std::time::Duration::from_secs(5));
    let in_front = json!(format!("{}-guard", workspace.name));
    let events = state.events()?;
    let event = events.iter().find(|event| event["server_id"] == in_front);
    ensure!(event.is_none(), "{event:?}");

    // What the guard answers in the server's place, the server did not say.
    let command = oddclient(&[], "handshake; list; call 300", &workspace.guarded()?)?;
    let mut talk = Talk::start(command)?;
    // The peer takes the refusal for a fault.
    let _ = talk.end(SESSION);
    let started = daemon.event("for the guard's side", |event| {
        event["type"] == "mcp_session_started" && event["server_id"] == in_front
    })?;
    let ended = daemon.event("for its end", |event| {
        event["type"] == "mcp_session_ended" && event["session_id"] == started["session_id"]
    })?;
    ensure!(
        ended["messages"] == 2 && ended["unanswered"] == 0,
        "{ended}"
    );
    daemon.stop()?;
    Ok(())
}

/// So is one on HTTP, with several clients at once.
#[test]
fn an_http_server_behind_a_guard_is_told_once() -> Result<()> {
    told_once(
        |server, policy| Listening::guard(&server.url("/mcp"), policy, "/dev/null"),
        |_, guard, sizes| client(&guard.url, sizes, &[]),
    )
}

/// And one that clients reach through a forward proxy.
#[test]
fn an_http_server_behind_a_forward_proxy_is_told_once() -> Result<()> {
    told_once(
        |_, policy| Listening::forward_proxy(policy, "/dev/null"),
        |server, guard, sizes| {
            let mut client = client(&server.url("/mcp"), sizes, &[])?;
            client.env("http_proxy", &guard.url);
            Ok(client)
        },
    )
}

/// Starts a guard without rules and one that blocks, and talks to a server through each.
fn told_once(
    guard: impl Fn(&Server, &Path) -> Result<Listening>,
    client: impl Fn(&Server, &Listening, &[usize]) -> Result<Command>,
) -> Result<()> {
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let server = Server::python(&[])?;
    let folder = tempfile::tempdir()?;
    let policy = folder.path().join("policy.toml");
    let blocked = "[[rule]]\nid = \"no-echo\"\nwhen = { method = \"tools/call\", tool = \"echo\" }\naction = \"block\"\n";
    let of = |kind: &str, pid: u32| -> Vec<Value> {
        let events = state.events().unwrap_or_default().into_iter();
        events
            .filter(|event| event["type"] == kind && event["server"]["pid"] == json!(pid))
            .collect()
    };
    for (round, rules) in ["", blocked].into_iter().enumerate() {
        std::fs::write(&policy, rules)?;
        let guard = guard(&server, &policy)?;
        let talks = [&[300, 20_000][..], &[300], &[5]];
        let talks = talks.map(|sizes| client(&server, &guard, sizes).and_then(Talk::start));
        for talk in talks {
            // A refused call is an error for the client.
            let _ = talk?.end(SESSION);
        }
        let begun = |_: &Value| of("mcp_session_started", server.pid()).len() == 3 * (round + 1);
        daemon.event("for the server's sessions", begun)?;
        // Longer than anything waits.
        std::thread::sleep(std::time::Duration::from_secs(5));
        let in_front = of("mcp_session_started", guard.pid());
        if round == 0 {
            ensure!(in_front.is_empty(), "{in_front:?}");
            continue;
        }
        // What the guard answers in the server's place, the server did not say.
        ensure!(in_front.len() == 3, "{in_front:?}");
        for started in in_front {
            let ended = daemon.event("for its end", |event| {
                event["type"] == "mcp_session_ended" && event["session_id"] == started["session_id"]
            })?;
            ensure!(ended["unanswered"] == 0, "{ended}");
            let name = ended["server_id"].as_str().unwrap_or_default();
            ensure!(name.ends_with("-guard"), "{ended}");
        }
    }
    daemon.stop()?;
    Ok(())
}

/// The server keeps its name and its pins, and what the guard says to its client is pinned apart.
#[test]
fn a_server_behind_a_guard_has_its_name_and_its_pins() -> Result<()> {
    let workspace = Workspace::new("guarded")?;
    let hidden = "[[rule]]\nid = \"hidden\"\nwhen = { tool = \"echo\" }\naction = \"hide\"\n";
    std::fs::write(workspace.policy(), hidden)?;
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let plain = json!(workspace.name);
    let in_front = json!(format!("{}-guard", workspace.name));
    workspace
        .talk("handshake; list; call 300; sleep 100")?
        .finish(SESSION)?;
    let is = |event: &Value, kind: &str, server: &Value| {
        event["type"] == kind && event["server_id"] == *server
    };
    let started = daemon.event("for a session", |event| {
        is(event, "mcp_session_started", &plain)
    })?;

    for round in 1..=2 {
        let command = oddclient(&[], "handshake; list; sleep 100", &workspace.guarded()?)?;
        Talk::start(command)?.end(SESSION)?;
        let ended = |server: &Value| {
            let events = state.events().unwrap_or_default();
            events
                .iter()
                .filter(|event| is(event, "mcp_session_ended", server))
                .count()
        };
        daemon.event("for both sides of the guard", |_| {
            ended(&plain) > round && ended(&in_front) >= round
        })?;
    }
    let mut sessions = 0;
    for event in state.events()? {
        if is(&event, "mcp_session_started", &plain) {
            ensure!(event["fingerprint"] == started["fingerprint"], "{event}");
            sessions += 1;
        }
        let is_ours = event["server_id"] == plain || event["server_id"] == in_front;
        let is_told = event["type"] == "mcp_tool_changed" || event["type"] == "mcp_detection";
        ensure!(!(is_ours && is_told), "{event}");
    }
    ensure!(sessions == 3, "{sessions}");
    // The server's tool is new once, and the client never sees it.
    let new = |server: &Value| -> Result<usize> {
        let events = state.events()?;
        let seen = events
            .iter()
            .filter(|event| is(event, "mcp_tool_seen", server));
        Ok(seen
            .filter(|event| event["status"] == "new" && event["tool_name"] == "echo")
            .count())
    };
    ensure!(
        new(&plain)? == 1 && new(&in_front)? == 0,
        "{:#?}",
        state.events()?
    );
    daemon.stop()?;
    Ok(())
}
