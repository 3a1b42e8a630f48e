//! `mcpinspect top` on a terminal: a real server, a call that takes its time, and someone at the keys.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::bus::{self, Bus};
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::places;
use mcpinspect_tests::screen::Screen;
use mcpinspect_tests::talk::Talk;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::SESSION;
use crate::recording::{client, everything_program};

/// Seconds that the last call takes; the session ends after it.
const SLOW: u32 = 120;

/// `mcpinspect top` of this daemon.
fn top(bus: &Bus, state: &State, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(places::program("mcpinspect")?);
    command
        .arg("top")
        .args(arguments)
        .arg("--config")
        .arg(state.configuration())
        .env(bus::VARIABLE, bus.address())
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS")
        .env_remove("LINES");
    Ok(command)
}

fn printed(mut command: Command) -> Result<Output> {
    Ok(command.stdin(Stdio::null()).output()?)
}

#[test]
fn someone_watches_a_server_and_freezes_it() -> Result<()> {
    let bus = Bus::start()?;
    let state = State::on(&bus)?;
    let mut daemon = Daemon::start(&state)?;
    let files = tempfile::tempdir()?;
    let calls = format!(
        r#"[["echo", {{"message": "Greetings from Nordkap \u001b[2J"}}],
            ["trigger-long-running-operation", {{"duration": {SLOW}, "steps": 1}}]]"#
    );
    let server = everything_program()?;
    let server = ["node".as_ref(), server.as_os_str()];
    let mut talk = Talk::start(client(files.path(), &calls, &server)?)?;
    daemon.event("for the tools", |event| event["type"] == "mcp_tool_seen")?;

    let mut screen = Screen::start(&top(&bus, &state, &[])?, 100, 30)?;
    // The list, and a call that has no answer yet.
    screen.wait_for(&[
        "watching",
        "everything",
        "running",
        "In flight: 1",
        "tools/call trigger-long-running",
    ])?;
    as_text(&bus, &state)?;

    // Its sessions, the messages of one, and the text of the first call.
    screen.press("\r")?;
    screen.wait_for(&["STARTED", "open", "Calls since recording began", "echo"])?;
    screen.press("\r")?;
    screen.wait_for(&["METHOD", "initialize", "tools/call echo"])?;
    screen.press("/echo\r")?;
    screen.wait("the calls of echo alone", |text| {
        text.contains("tools/call echo") && !text.contains("initialize")
    })?;
    screen.press("g\r")?;
    screen.wait_for(&[
        "\"message\": \"Greetings from Nordkap \\u001b[2J\"",
        "\"name\": \"echo\"",
    ])?;

    // A smaller terminal, and a tiny one.
    screen.resize(40, 12)?;
    screen.wait("less of it", |text| {
        text.contains("\"method\": \"tools/call\"") && !text.contains("Nordkap")
    })?;
    screen.press("G")?;
    screen.wait_for(&["Nordkap"])?;
    screen.resize(18, 4)?;
    screen.wait_for(&["too small"])?;
    screen.resize(100, 30)?;
    screen.wait_for(&["Nordkap"])?;

    // Back, and frozen: not without a yes.
    screen.press("1")?;
    screen.wait_for(&["SERVER", "everything"])?;
    screen.press("f")?;
    screen.wait_for(&["Freeze everything?"])?;
    screen.press("n")?;
    screen.wait("no question", |text| !text.contains("Freeze everything?"))?;
    screen.press("f")?;
    screen.wait_for(&["Freeze everything?"])?;
    screen.press("y")?;
    daemon.event("for the server to be frozen", |event| {
        event["type"] == "mcp_contained" && event["measure"] == "freeze"
    })?;
    screen.wait_for(&["frozen everything: ", "  frozen "])?;
    screen.press("f")?;
    screen.wait_for(&["Let everything run again?"])?;
    screen.press("y")?;
    screen.wait_for(&["thawed everything: ", "  running "])?;
    screen.press("q")?;
    ensure!(screen.end()?.success(), "{}", screen.text());

    // Whoever ends it, the terminal is given back.
    for (signal, status) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
    ] {
        let mut screen = Screen::start(&top(&bus, &state, &[])?, 80, 24)?;
        screen.wait_for(&["everything"])?;
        screen.signal(signal)?;
        ensure!(screen.end()?.code() == Some(status), "{signal}");
    }
    talk.kill()?;
    daemon.stop()?;

    // Without a daemon, what to do about it; and one that starts is seen.
    let mut screen = Screen::start(&top(&bus, &state, &[])?, 80, 24)?;
    screen.wait_for(&["systemctl start mcpinspectd"])?;
    let daemon = Daemon::start(&state)?;
    screen.wait_for(&["watching"])?;
    screen.press("\u{3}")?;
    ensure!(screen.end()?.success());
    daemon.stop()?;
    nobody_to_ask(&bus, &state)
}

/// One picture, and JSON.
fn as_text(bus: &Bus, state: &State) -> Result<()> {
    let mut once = top(bus, state, &["--once"])?;
    once.env("COLUMNS", "120").env("LINES", "20");
    let picture = printed(once)?;
    ensure!(picture.status.success(), "{picture:?}");
    let picture = String::from_utf8(picture.stdout)?;
    ensure!(
        picture.contains("everything") && picture.contains("trigger-long-running-operation"),
        "{picture}"
    );
    ensure!(!picture.contains('\u{1b}'), "{picture:?}");

    let json = printed(top(bus, state, &["--json"])?)?;
    let json: Value = serde_json::from_slice(&json.stdout).with_context(|| format!("{json:?}"))?;
    let server = &json["servers"][0];
    ensure!(
        server["server_id"] == "everything" && server["state"] == "running",
        "{json:#}"
    );
    ensure!(server["in_flight"] == 1, "{json:#}");
    ensure!(
        server["last_minute"]["p99_ns"].as_u64() > Some(0),
        "{json:#}"
    );
    let call = &json["calls_in_flight"][0];
    ensure!(
        call["tool"] == "trigger-long-running-operation" && call["age_ns"].as_u64() > Some(0),
        "{json:#}"
    );
    Ok(())
}

/// Without a terminal or a daemon, the error says what to do.
fn nobody_to_ask(bus: &Bus, state: &State) -> Result<()> {
    for (arguments, expected) in [
        (&[][..], "`mcpinspect top --once`"),
        (&["--once"], "systemctl start mcpinspectd"),
        (&["--json"], "systemctl start mcpinspectd"),
    ] {
        let output = printed(top(bus, state, arguments)?)?;
        let error = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(2), "{arguments:?}: {error}");
        ensure!(error.contains(expected), "{arguments:?}: {error}");
        ensure!(output.stdout.is_empty(), "{arguments:?}");
    }
    Ok(())
}

/// A server that was quiet when the view was opened is there as well.
#[test]
fn calls_that_waited_before_are_found() -> Result<()> {
    let bus = Bus::start()?;
    let state = State::on(&bus)?;
    let mut daemon = Daemon::start(&state)?;
    let files = tempfile::tempdir()?;
    let server = everything_program()?;
    let server = ["node".as_ref(), server.as_os_str()];
    let calls = r#"[["trigger-long-running-operation", {"duration": 20, "steps": 1}]]"#;
    let waits = Talk::start(client(files.path(), calls, &server)?)?;
    daemon.event("for the tools", |event| event["type"] == "mcp_tool_seen")?;
    // More messages than a look reads.
    let busy = tempfile::tempdir()?;
    let echo: Vec<String> = (0..600)
        .map(|number| format!(r#"["echo", {{"message": "{number}"}}]"#))
        .collect();
    let talk = Talk::start(client(
        busy.path(),
        &format!("[{}]", echo.join(",")),
        &server,
    )?)?;
    talk.finish(SESSION)?;
    std::thread::sleep(Duration::from_millis(600));
    let json = printed(top(&bus, &state, &["--json"])?)?;
    let json: Value = serde_json::from_slice(&json.stdout).with_context(|| format!("{json:?}"))?;
    let waiting = json["calls_in_flight"].as_array().context("calls")?;
    ensure!(
        waiting
            .iter()
            .any(|call| call["tool"] == "trigger-long-running-operation"),
        "{json:#}"
    );
    waits.finish(SESSION)?;
    daemon.stop()?;
    Ok(())
}
