//! Programs that encrypt by a library that is not looked into: they are named, and told of where they speak MCP.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::Talk;
use mcpinspect_tests::tap::{Capture, Tap};
use serde_json::Value;

use crate::http::{Server, await_all, in_order};
use crate::tls::{Certificate, by_process};
use crate::{BEHIND, SESSION};

/// How soon a blind spot is told of after its process speaks MCP.
const SOON: Duration = Duration::from_secs(1);

/// What is told of processes whose library is not looked into, by process.
fn blind_spots(capture: &Capture) -> BTreeMap<u64, Vec<&Value>> {
    let mut blind_spots: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    let events = capture.others.iter();
    for event in events.filter(|event| event["mechanism"] == "tls_library") {
        let pid = event["pid"].as_u64().unwrap_or_default();
        blind_spots.entry(pid).or_default().push(event);
    }
    blind_spots
}

/// Waits until this is told of a process, once, and what was found names its program.
fn is_told(tap: &mut Tap, pid: u32, program: &str) -> Result<()> {
    let begun = Instant::now();
    tap.wait_until(BEHIND, "the blind spot", |capture| {
        blind_spots(capture).contains_key(&u64::from(pid))
    })?;
    let took = begun.elapsed();
    ensure!(took <= SOON, "after {took:?}");
    tap.wait_until(BEHIND, "the program's name, once", |capture| {
        let events = blind_spots(capture)
            .remove(&u64::from(pid))
            .unwrap_or_default();
        let found = |event: &Value| {
            let text = event["found"].as_str().unwrap_or_default();
            text.starts_with("no known TLS library in /") && text.ends_with(program)
        };
        events.len() == 1 && found(events[0])
    })
}

/// Bun has a BoringSSL without symbols inside. Its server's end has the bytes, and the owner of the socket says
/// who the client is.
#[test]
fn bun_is_named_and_told_of() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.python(&["json"])?;
    let mut tap = by_process()?;
    let client = certificate.script_client(places::bun()?, &server, &[5, 300_000])?;
    let talk = Talk::start(client)?;
    let pid = talk.pid();
    let truth = talk.finish(SESSION)?;
    is_told(&mut tap, pid, "/bun.exe")?;
    await_all(&mut tap, std::slice::from_ref(&truth));
    let capture = tap.finish()?.capture;
    in_order(&truth, &server, &capture)?;
    let nameless = capture.messages.iter();
    let nameless = nameless
        .filter(|message| message.server_pid == Some(server.pid()))
        .filter(|message| message.client_pid != Some(pid));
    ensure!(nameless.count() == 0, "messages without their client");
    Ok(())
}

/// `mcpinspect call` has rustls inside.
#[test]
fn rustls_is_named_and_told_of() -> Result<()> {
    let certificate = Certificate::new()?;
    let server = certificate.python(&["json"])?;
    let mut tap = by_process()?;
    let mut command = Command::new(places::program("mcpinspect")?);
    command
        // One that ends at once cannot be found.
        .args(["call", "tools/list", "--watch", "2s"])
        .args(["--url", &server.secure_url("/mcp")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    certificate.give(&mut command);
    let mut client = command.spawn()?;
    let pid = client.id();
    let has_spoken = tap.wait_until(BEHIND, "its messages", |capture| {
        let mut messages = capture.messages.iter();
        messages.any(|message| message.server_pid == Some(server.pid()))
    });
    let verdict = has_spoken.and_then(|()| is_told(&mut tap, pid, "/mcpinspect"));
    let ended = client.wait()?;
    verdict?;
    ensure!(ended.success(), "{ended}");
    tap.finish()?;
    Ok(())
}

/// A web server over TLS with one page. It has nothing to do with MCP.
struct Web {
    server: Server,
    _pages: tempfile::TempDir,
}

impl Web {
    fn start(certificate: &Certificate) -> Result<Self> {
        let pages = tempfile::tempdir()?;
        std::fs::write(pages.path().join("page.html"), "a page")?;
        let server = Server::start(|port| {
            let mut command = Command::new(places::python()?);
            command
                .arg(places::script("python/https_pages.py")?)
                .arg(port.to_string())
                .current_dir(pages.path());
            certificate.give(&mut command);
            Ok(command)
        })?;
        Ok(Self {
            server,
            _pages: pages,
        })
    }

    /// Loads the page, in a script for Bun.
    fn load(&self) -> String {
        let url = self.server.secure_url("/page.html");
        format!(
            "const page = await fetch('{url}'); if (await page.text() !== 'a page') process.exit(1);"
        )
    }
}

/// Runs a script on Bun.
fn bun(certificate: &Certificate, script: &str) -> Result<Child> {
    Ok(scripted(&places::bun()?, certificate, script).spawn()?)
}

/// Bun under any name, with a script.
fn scripted(program: &Path, certificate: &Certificate, script: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("-e").arg(script).stdin(Stdio::null());
    certificate.give(&mut command);
    command
}

/// An agent that has a server on its pipes, and speaks TLS to somebody else, before or after.
#[test]
fn a_client_of_servers_on_pipes_is_told_of() -> Result<()> {
    let certificate = Certificate::new()?;
    let web = Web::start(&certificate)?;
    let python = places::python()?;
    let server = places::script("python/echo.py")?;
    let greeting = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}"#;
    let meet = format!(
        "const server = Bun.spawn([{python:?}, {server:?}], {{stdin: 'pipe', stdout: 'pipe'}}); server.stdin.write({greeting:?} + '\\n'); server.stdin.flush(); await server.stdout.getReader().read();"
    );
    let load = web.load();
    let mut tap = by_process()?;
    for steps in [[&meet, &load], [&load, &meet]] {
        let script = format!(
            "{} {} await Bun.sleep(3000); server.kill();",
            steps[0], steps[1]
        );
        let mut agent = bun(&certificate, &script)?;
        let pid = agent.id();
        let has_spoken = tap.wait_until(BEHIND, "its session", |capture| {
            let mut messages = capture.messages.iter();
            messages.any(|message| message.client_pid == Some(pid))
        });
        let verdict = has_spoken.and_then(|()| is_told(&mut tap, pid, "/bun.exe"));
        let ended = agent.wait()?;
        verdict?;
        ensure!(ended.success(), "{ended}");
    }
    tap.finish()?;
    Ok(())
}

/// A client whose configuration lists one server elsewhere, at the host `localhost`.
struct Agent {
    folder: tempfile::TempDir,
}

impl Agent {
    fn new(server: &Server) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let url = server.secure_url("/mcp").replace("127.0.0.1", "localhost");
        let configuration = serde_json::json!({"mcpServers": {"elsewhere": {"url": url}}});
        std::fs::write(folder.path().join(".mcp.json"), configuration.to_string())?;
        Ok(Self { folder })
    }

    /// Runs a script on Bun in its project, as a program of this name.
    fn run(&self, name: &str, certificate: &Certificate, script: &str) -> Result<Child> {
        let program = self.folder.path().join(name);
        std::fs::copy(places::bun()?, &program)?;
        let mut command = scripted(&program, certificate, script);
        Ok(command.current_dir(self.folder.path()).spawn()?)
    }
}

/// Claude Code's own program has a BoringSSL without symbols inside, and may have all its servers elsewhere. Its
/// configuration says which they are, and its greetings say when it connects to one: to begin with, or later.
#[test]
fn a_client_of_servers_elsewhere_is_told_of() -> Result<()> {
    let certificate = Certificate::new()?;
    let web = Web::start(&certificate)?;
    let agent = Agent::new(&web.server)?;
    let (other, listed) = (web.load(), web.load().replace("127.0.0.1", "localhost"));
    let mut tap = by_process()?;
    for steps in [
        format!("{listed} await Bun.sleep(3000);"),
        format!("{{ {other} }} await Bun.sleep(1000); {listed} await Bun.sleep(3000);"),
    ] {
        let mut client = agent.run("claude", &certificate, &steps)?;
        let pid = u64::from(client.id());
        let blind_spots = tap.wait_until(BEHIND, "the blind spot, once", |capture| {
            let events = blind_spots(capture).remove(&pid).unwrap_or_default();
            let found = |event: &Value| {
                let text = event["found"].as_str().unwrap_or_default();
                text.starts_with("no known TLS library in /")
                    && text.ends_with("/claude, which connects to localhost")
            };
            events.len() == 1 && found(events[0])
        });
        let ended = client.wait()?;
        blind_spots?;
        ensure!(ended.success(), "{ended}");
    }
    tap.finish()?;
    Ok(())
}

/// A client that connects to anything else is not told of, nor is another program in the same project: a person
/// may look at the server's site with a browser.
#[test]
fn a_client_may_encrypt_what_is_for_others() -> Result<()> {
    let certificate = Certificate::new()?;
    let web = Web::start(&certificate)?;
    let agent = Agent::new(&web.server)?;
    let (other, listed) = (web.load(), web.load().replace("127.0.0.1", "localhost"));
    let tap = by_process()?;
    for (name, script) in [("claude", other), ("browser", listed)] {
        let ended = agent.run(name, &certificate, &script)?.wait()?;
        ensure!(ended.success(), "{ended}");
    }
    std::thread::sleep(SOON);
    let capture = tap.finish()?.capture;
    ensure!(
        blind_spots(&capture).is_empty(),
        "{:?}",
        blind_spots(&capture)
    );
    Ok(())
}

/// Neither of them is told of where it has nothing to do with MCP.
#[test]
fn others_may_encrypt_by_what_they_like() -> Result<()> {
    let certificate = Certificate::new()?;
    let web = Web::start(&certificate)?;
    let tap = by_process()?;
    for _ in 0..3 {
        let ended = bun(&certificate, &web.load())?.wait()?;
        ensure!(ended.success(), "{ended}");
    }
    // Nothing can show that nothing comes.
    std::thread::sleep(SOON);
    let capture = tap.finish()?.capture;
    ensure!(
        blind_spots(&capture).is_empty(),
        "{:?}",
        blind_spots(&capture)
    );
    Ok(())
}
