//! MCP over plain HTTP between the clients and servers of different languages and libraries.

use std::process::Command;

use anyhow::{Context as _, Result};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::Talk;
use mcpinspect_tests::tap::Tap;

use crate::SESSION;
use crate::http::{Server, await_all, client, in_order, one_after_another};

/// Letters of the calls that each client makes.
const SIZES: [usize; 3] = [5, 300_000, 5];

/// The Rust SDK's, on hyper.
fn rust(words: &[&str]) -> Result<Server> {
    Server::start(|port| {
        let mut command = Command::new(places::example("rmcp_http_server")?);
        command.arg(port.to_string()).args(words);
        Ok(command)
    })
}

/// One on Go's `net/http`.
fn go(words: &[&str]) -> Result<Server> {
    Server::start(|port| {
        let mut command = Command::new(places::go_peer(true)?);
        command.arg("server").arg(port.to_string()).args(words);
        Ok(command)
    })
}

/// `command URL SIZES WORD…`
fn client_of(mut command: Command, server: &Server, words: &[&str]) -> Command {
    let sizes = SIZES.map(|size| size.to_string()).join(",");
    command.arg(server.url("/mcp")).arg(sizes).args(words);
    command
}

/// On reqwest.
fn rust_client(server: &Server) -> Result<Command> {
    let command = Command::new(places::example("rmcp_http_client")?);
    Ok(client_of(command, server, &[]))
}

/// On httpx.
fn python_client(server: &Server) -> Result<Command> {
    client(&server.url("/mcp"), &SIZES, &[])
}

/// On Node's `fetch`, which is undici.
fn node_client(server: &Server) -> Result<Command> {
    let mut command = Command::new("node");
    command.arg(places::node_directory()?.join("http_client.mjs"));
    Ok(client_of(command, server, &[]))
}

fn go_client(server: &Server, words: &[&str]) -> Result<Command> {
    let mut command = Command::new(places::go_peer(true)?);
    command.arg("client");
    Ok(client_of(command, server, words))
}

fn each(server: &Server, clients: Vec<Command>) -> Result<()> {
    one_after_another(Tap::start()?, server, clients)
}

#[test]
fn the_rust_sdk() -> Result<()> {
    for words in [&[][..], &["stateless"]] {
        let server = rust(words)?;
        let clients = vec![
            rust_client(&server)?,
            python_client(&server)?,
            node_client(&server)?,
        ];
        each(&server, clients).with_context(|| format!("{words:?}"))?;
    }
    for words in [&["json"][..], &["json", "stateless"]] {
        let server = rust(words)?;
        let clients = vec![python_client(&server)?, node_client(&server)?];
        each(&server, clients).with_context(|| format!("{words:?}"))?;
    }
    let server = Server::python(&[])?;
    each(&server, vec![rust_client(&server)?])?;
    let server = Server::everything("streamableHttp", |_| {})?;
    each(&server, vec![rust_client(&server)?])
}

#[test]
fn node() -> Result<()> {
    let server = Server::python(&[])?;
    each(&server, vec![node_client(&server)?])?;
    let server = Server::everything("streamableHttp", |_| {})?;
    each(&server, vec![node_client(&server)?])
}

#[test]
fn peers_in_go() -> Result<()> {
    for words in [&[][..], &["events"]] {
        let server = go(words)?;
        let clients = vec![
            go_client(&server, &[])?,
            python_client(&server)?,
            node_client(&server)?,
        ];
        each(&server, clients).with_context(|| format!("{words:?}"))?;
    }
    let server = rust(&["json"])?;
    each(&server, vec![go_client(&server, &[])?])?;
    let server = Server::python(&["json", "stateless"])?;
    each(&server, vec![go_client(&server, &[])?])
}

#[test]
fn peers_in_go_over_http_2() -> Result<()> {
    for words in [&["two"][..], &["two", "events"]] {
        let server = go(words)?;
        each(&server, vec![go_client(&server, &["two"])?]).with_context(|| format!("{words:?}"))?;
    }
    let server = rust(&["json"])?;
    each(&server, vec![go_client(&server, &["two"])?])
}

/// A session whose messages are each sent by a curl of its own.
fn curl(server: &Server, words: &[&str]) -> Result<()> {
    let mut command = Command::new(places::python()?);
    command.arg(places::script("python/curl_client.py")?);
    let mut tap = Tap::start()?;
    let mut truth = Talk::start(client_of(command, server, words))?.finish(SESSION)?;
    // What keeps the log is not what sends.
    truth.client_pid = None;
    truth.server_pid = Some(server.pid());
    await_all(&mut tap, std::slice::from_ref(&truth));
    in_order(&truth, server, &tap.finish()?.capture)
}

#[test]
fn curl_with_servers_of_all_languages() -> Result<()> {
    curl(&Server::python(&[])?, &[]).context("Python")?;
    curl(&Server::everything("streamableHttp", |_| {})?, &[]).context("TypeScript")?;
    curl(&go(&[])?, &[]).context("Go")?;
    curl(&rust(&[])?, &[]).context("Rust")?;
    curl(&rust(&["json"])?, &["two"]).context("Rust over HTTP/2")
}
