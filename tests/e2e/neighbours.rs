//! What is not MCP is not reported, and the daemon does not watch itself.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, oddclient, oddpeers};
use mcpinspect_tests::tap::Tap;
use mcpinspect_tests::verify;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::SESSION;

/// Runs each command under one tap; nothing with the marker in it may be reported, while a real
/// session beside it is.
fn unreported(marker: &str, commands: Vec<Command>) -> Result<()> {
    let tap = Tap::start()?;
    for command in commands {
        Talk::start(command)?.end(SESSION)?;
    }
    let truth = Talk::start(oddpeers(&[], "handshake; list", &[])?)?.finish(SESSION)?;
    let finished = tap.finish()?;
    verify::session_of(&truth, &finished.capture)?;
    let marked = |message: &&mcpinspect_tests::tap::Message| {
        message.raw.as_ref().is_some_and(|raw| raw.contains(marker))
    };
    if let Some(message) = finished.capture.messages.iter().find(marked) {
        bail!("this is no MCP: {message:?}");
    }
    Ok(())
}

fn shell(script: String) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

#[test]
fn a_language_server() -> Result<()> {
    let marker = format!("lsp-{}", std::process::id());
    let files = tempfile::tempdir()?;
    let talk = files.path().join("talk");
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"rootUri":"{marker}","capabilities":{{}}}}}}"#
    );
    // Some put a newline behind the body; the header still says what it is.
    let framed = format!("Content-Length: {}\r\n\r\n{message}", message.len());
    let lined = format!("Content-Length: {}\r\n\r\n{message}\n", message.len() + 1);
    std::fs::write(&talk, format!("{framed}{framed}{lined}{lined}"))?;
    let plan = format!("send {0}; sleep 50; send {0}", talk.display());
    let commands = ["pipe", "socketpairs"]
        .map(|transport| oddclient(&["--transport", transport], &plan, &["cat"]))
        .into_iter()
        .collect::<Result<_>>()?;
    unreported(&marker, commands)
}

#[test]
fn log_shippers_and_json_pipelines() -> Result<()> {
    let marker = format!("log-{}", std::process::id());
    let line = format!(r#"{{"level":"info","id":7,"method":"GET","msg":"{marker}","result":200}}"#);
    let files = tempfile::tempdir()?;
    let log = files.path().join("log");
    std::fs::write(&log, format!("{line}\n").repeat(2000))?;
    // What `cat` gives back has to fit into the pipe: this client does not read.
    let short = files.path().join("short");
    std::fs::write(&short, format!("{line}\n").repeat(100))?;
    let (log, short) = (log.display(), short.display());
    let commands = vec![
        shell(format!("cat '{log}' | cat | cat")),
        shell(format!("tail -n 1000 '{log}' | grep info | sort | uniq")),
        shell(format!(
            "for i in 1 2 3 4 5; do echo '{line}'; sleep 0.02; done | cat"
        )),
        shell(format!(
            "cat '{log}' | sed 's/info/warn/' | tee /dev/null | head -n 1999"
        )),
        oddclient(
            &[],
            &format!("send {short}; sleep 50; send {short}"),
            &["cat"],
        )?,
        oddclient(
            &["--transport", "socketpairs"],
            &format!("send {short}"),
            &["cat"],
        )?,
    ];
    unreported(&marker, commands)
}

/// Newline-delimited JSON-RPC of other protocols, with methods that MCP does not have.
#[test]
fn another_protocol_on_the_same_framing() -> Result<()> {
    let marker = format!("rpc-{}", std::process::id());
    let files = tempfile::tempdir()?;
    let talk = files.path().join("talk");
    let requests = (1..50)
        .map(|id| {
            format!(r#"{{"id":{id},"method":"Page.navigate","params":{{"url":"{marker}"}}}}"#)
                + "\n"
        })
        .collect::<String>();
    std::fs::write(&talk, requests)?;
    let plan = format!("send {}; sleep 50", talk.display());
    unreported(&marker, vec![oddclient(&[], &plan, &["cat"])?])
}

/// Stops a pipeline however its test ends.
struct Pipeline(Child);

impl Drop for Pipeline {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(-(self.0.id() as i32)), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// The daemon's output, piped on and even turned back into MCP messages, is not captured: it would
/// feed on itself for ever.
#[test]
fn its_own_output_in_a_pipeline() -> Result<()> {
    use std::os::unix::process::CommandExt;
    let files = tempfile::tempdir()?;
    let (lines, raw) = (files.path().join("lines"), files.path().join("raw"));
    let unwrap = r#"s/.*"raw":"//; s/\\"/"/g"#;
    let script = format!(
        "'{}' tap --format jsonl --raw | tee '{}' | sed -u '{unwrap}' | cat | tee '{}' | cat >/dev/null",
        places::daemon()?.display(),
        lines.display(),
        raw.display()
    );
    let mut pipeline = Pipeline(
        shell(script)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()?,
    );
    let shell_pid = pipeline.0.id();
    let deadline = Instant::now() + Duration::from_secs(20);
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    while !read(&lines).contains("tap_ready") {
        ensure!(Instant::now() < deadline, "no tap_ready in the pipeline");
        std::thread::sleep(Duration::from_millis(10));
    }
    let children = std::fs::read_to_string(format!("/proc/{shell_pid}/task/{shell_pid}/children"))?;
    let children: Vec<u64> = children
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let truth =
        Talk::start(oddpeers(&[], "handshake; list; calls 50 300", &[])?)?.finish(SESSION)?;
    // Time for an echo to come back, if there is one.
    std::thread::sleep(Duration::from_millis(500));
    let daemon = children.iter().find(|&&pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "mcpinspectd"
    });
    let daemon = daemon.context("the daemon in the pipeline")?;
    kill(Pid::from_raw(i32::try_from(*daemon)?), Signal::SIGINT)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while pipeline.0.try_wait()?.is_none() {
        ensure!(Instant::now() < deadline, "the pipeline does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let said: Vec<serde_json::Value> = read(&lines)
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let own = |value: &serde_json::Value| value.as_u64().is_some_and(|pid| children.contains(&pid));
    let echo = said
        .iter()
        .find(|line| own(&line["server_pid"]) || own(&line["client_pid"]));
    ensure!(echo.is_none(), "it captured its own output: {echo:?}");
    let client = truth.client_pid.map(u64::from);
    let messages = said
        .iter()
        .filter(|line| line["type"] == "mcp_message" && line["client_pid"].as_u64() == client)
        .count();
    let sent = truth.to_server.len() + truth.to_client.len();
    ensure!(messages == sent, "{sent} frames sent, {messages} reported");
    ensure!(
        read(&raw).contains(r#""method":"tools/list""#),
        "the pipeline carries no messages"
    );
    Ok(())
}

/// A tap that is told which server to show shows that one and no other.
#[test]
fn only_the_server_asked_for() -> Result<()> {
    let files = tempfile::tempdir()?;
    let (ready, go) = (files.path().join("ready"), files.path().join("go"));
    let plan = format!(
        "mark {}; wait {}; handshake; list",
        ready.display(),
        go.display()
    );
    let mut wanted = Talk::start(oddpeers(&[], &plan, &[])?)?;
    wanted.wait_for(&ready, SESSION)?;
    let server = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", wanted.pid()))?;
    let tap = Tap::start_with("", &["--pid", server.trim()])?;
    std::fs::write(&go, "")?;
    let other = Talk::start(oddpeers(&[], "handshake; list", &[])?)?.finish(SESSION)?;
    let truth = wanted.finish(SESSION)?;
    let finished = tap.finish()?;
    verify::exact(&truth, &finished.capture, verify::Pids::Always)?;
    ensure!(
        verify::session_of(&other, &finished.capture).is_err(),
        "another server was shown too"
    );
    Ok(())
}
