//! MCP over HTTP on Unix sockets.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::talk::Talk;
use mcpinspect_tests::tap::Tap;

use crate::http::{
    INITIALIZE, Server, all_at_once, calls_of_a_crowd, carry, client, one_after_another, post,
};
use crate::{BEHIND, SESSION};

/// The SDK serves requests that name this machine and a port.
const URL: &str = "http://localhost:8000/mcp";

fn client_at(path: &Path, sizes: &[usize], words: &[&str]) -> Result<Command> {
    let mut client = client(URL, sizes, words)?;
    client.env("UNIX_SOCKET", path);
    Ok(client)
}

fn clients_at(path: &Path, clients: usize) -> Result<Vec<Command>> {
    let sizes = calls_of_a_crowd();
    (0..clients)
        .map(|_| client_at(path, &sizes, &["together"]))
        .collect()
}

fn socket_path() -> Result<(tempfile::TempDir, PathBuf)> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("mcp.sock");
    Ok((directory, path))
}

#[test]
fn sessions_with_the_python_sdk() -> Result<()> {
    let (_directory, path) = socket_path()?;
    let server = Server::python_at(&path)?;
    let clients = [&[5][..], &[5, 300_000, 5], &[400_000, 5, 400_000]]
        .into_iter()
        .map(|calls| client_at(&path, calls, &[]))
        .collect::<Result<_>>()?;
    one_after_another(Tap::start()?, &server, clients)
}

#[test]
fn a_server_that_starts_later() -> Result<()> {
    let (_directory, path) = socket_path()?;
    let tap = Tap::start()?;
    let server = Server::python_at(&path)?;
    one_after_another(tap, &server, vec![client_at(&path, &[5, 3000], &[])?])
}

#[test]
fn an_event_says_which_socket_it_is() -> Result<()> {
    let (_directory, path) = socket_path()?;
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let _server = Server::python_at(&path)?;
    Talk::start(client_at(&path, &[5], &[])?)?.end(SESSION)?;
    let encoded = path.display().to_string().replace('/', "%2F");
    let url = format!("http+unix://{encoded}/mcp");
    daemon.event("a session at its URL", |event| {
        event["type"] == "mcp_session_started" && event["url"] == url.as_str()
    })?;
    daemon.stop()?;
    Ok(())
}

#[test]
fn many_clients_on_a_busy_machine() -> Result<()> {
    let (_directory, path) = socket_path()?;
    let server = Server::python_at(&path)?;
    let _busy: Vec<Busy> = (0..6).map(|_| Busy::start()).collect::<Result<_>>()?;
    all_at_once(Tap::start()?, &server, clients_at(&path, 4)?)
}

/// A connection between two ends in this process.
fn connection(path: &Path) -> Result<(UnixStream, UnixStream)> {
    let listener = UnixListener::bind(path)?;
    let client = UnixStream::connect(path)?;
    let (server, _) = listener.accept()?;
    Ok((client, server))
}

fn answer(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn a_connection_that_was_open_before() -> Result<()> {
    const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    const TOOLS: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#;
    let (directory, path) = socket_path()?;
    let (mut client, mut server) = connection(&path)?;
    let hello = answer(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
    carry(&mut client, &mut server, post("", INITIALIZE).as_bytes())?;
    carry(&mut server, &mut client, hello.as_bytes())?;
    let mut tap = Tap::start()?;
    // Something else on another socket of the same process.
    let (mut one, mut other) = connection(&directory.path().join("other.sock"))?;
    for _ in 0..100 {
        carry(&mut one, &mut other, b"l\x01\0\x01\x08\0\0\0")?;
        carry(&mut other, &mut one, b"l\x02\x01\x01")?;
    }
    carry(&mut client, &mut server, post("", LIST).as_bytes())?;
    carry(&mut server, &mut client, answer(TOOLS).as_bytes())?;
    tap.wait_until(BEHIND, "the next request", |capture| {
        capture.messages.len() >= 2
    })?;
    let capture = tap.finish()?.capture;
    let own = Some(std::process::id());
    let session = capture.messages.first().context("no session")?;
    ensure!(session.server_pid == own && session.client_pid == own);
    let messages = capture.messages.len();
    ensure!(messages == 2 && capture.gaps.is_empty(), "{capture:?}");
    Ok(())
}
