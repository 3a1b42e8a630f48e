//! Real clients and servers of every SDK, directly and through the wrappers that people use.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::Talk;
use mcpinspect_tests::verify::Pids;
use tempfile::TempDir;

use crate::{SESSION, each_exact, exact};

/// A server's command line, and calls that it answers.
struct Server {
    name: &'static str,
    command: Vec<OsString>,
    calls: String,
}

/// Text long enough to cross every buffer, with characters of more than one byte.
fn long_text(length: usize) -> String {
    "Grüße, 世界! ".repeat(length / 18 + 1)
}

fn echo_calls() -> String {
    let short = r#"["echo", {"message": "hello"}]"#;
    let long = format!(r#"["echo", {{"message": "{}"}}]"#, long_text(200_000));
    format!("[{short}, {long}, {short}]")
}

fn package(name: &str) -> Result<OsString> {
    let path = format!("node_modules/@modelcontextprotocol/{name}/dist/index.js");
    Ok(places::node_directory()?.join(path).into())
}

fn everything() -> Result<Server> {
    Ok(Server {
        name: "everything",
        command: vec!["node".into(), package("server-everything")?],
        calls: echo_calls(),
    })
}

fn everything_by_npx() -> Server {
    Server {
        name: "everything through npx",
        command: ["npx", "--no-install", "mcp-server-everything"]
            .map(Into::into)
            .into(),
        calls: echo_calls(),
    }
}

fn filesystem(root: &Path) -> Result<Server> {
    let text = long_text(500_000);
    std::fs::write(root.join("long.txt"), &text)?;
    let calls = serde_json::json!([
        ["list_directory", {"path": root}],
        ["read_text_file", {"path": root.join("long.txt")}],
        ["write_file", {"path": root.join("copy.txt"), "content": text}],
    ]);
    Ok(Server {
        name: "filesystem",
        command: vec!["node".into(), package("server-filesystem")?, root.into()],
        calls: calls.to_string(),
    })
}

fn memory(root: &Path) -> Result<Server> {
    let file = format!("MEMORY_FILE_PATH={}", root.join("memory.jsonl").display());
    Ok(Server {
        name: "memory",
        command: vec![
            "env".into(),
            file.into(),
            "node".into(),
            package("server-memory")?,
        ],
        calls: r#"[["read_graph", {}]]"#.to_owned(),
    })
}

fn typescript() -> Result<Server> {
    let script = places::node_directory()?.join("server.mjs");
    Ok(Server {
        name: "TypeScript SDK",
        command: vec!["node".into(), script.into()],
        calls: echo_calls(),
    })
}

fn bun() -> Result<Server> {
    let script = places::node_directory()?.join("server.mjs");
    Ok(Server {
        name: "TypeScript SDK on Bun",
        command: vec![places::bun()?.into(), script.into()],
        calls: echo_calls(),
    })
}

fn python_module(arguments: &[&str]) -> Result<Vec<OsString>> {
    let script = places::script("python/serve.py")?;
    let mut command = vec![places::python()?.into_os_string(), script.into()];
    command.extend(arguments.iter().map(Into::into));
    Ok(command)
}

fn time() -> Result<Server> {
    Ok(Server {
        name: "time",
        command: python_module(&["mcp_server_time", "--local-timezone", "UTC"])?,
        calls: r#"[["get_current_time", {"timezone": "UTC"}], ["get_current_time", {"timezone": "Mars"}]]"#
            .to_owned(),
    })
}

fn git(root: &Path) -> Result<Server> {
    let repository = root.join("repository");
    let made = Command::new("git")
        .arg("init")
        .arg("-q")
        .arg(&repository)
        .status()?;
    ensure!(made.success(), "git init failed");
    let path = repository.to_string_lossy();
    let calls = serde_json::json!([["git_status", {"repo_path": path}]]);
    Ok(Server {
        name: "git",
        command: python_module(&["mcp_server_git", "--repository", &path])?,
        calls: calls.to_string(),
    })
}

fn rust(pipes: bool) -> Result<Server> {
    let mut command = vec![places::example("rmcp_server")?.into_os_string()];
    command.extend(pipes.then(|| "pipes".into()));
    Ok(Server {
        name: if pipes {
            "Rust SDK, pipes opened anew"
        } else {
            "Rust SDK"
        },
        command,
        calls: echo_calls(),
    })
}

/// Starts a client's command line with a server's behind it; `files` keeps what it shall call.
fn connect(files: &TempDir, client: &[OsString], server: &Server) -> Result<(String, Command)> {
    let calls = files.path().join(server.name);
    std::fs::write(&calls, &server.calls)?;
    let preload = places::script("node/wirelog.cjs")?;
    let mut command = Command::new(&client[0]);
    command
        .args(&client[1..])
        .arg(calls)
        .args(&server.command)
        .env("NODE_OPTIONS", format!("--require {}", preload.display()))
        // Where `npx` finds its packages.
        .current_dir(places::node_directory()?);
    Ok((server.name.to_owned(), command))
}

fn python_client() -> Result<Vec<OsString>> {
    Ok(vec![
        places::python()?.into(),
        places::script("python/client.py")?.into(),
    ])
}

fn sessions(
    files: &TempDir,
    client: &[OsString],
    servers: &[Server],
) -> Result<Vec<(String, Command)>> {
    servers
        .iter()
        .map(|server| connect(files, client, server))
        .collect()
}

#[test]
fn python_client_and_node_servers() -> Result<()> {
    let files = tempfile::tempdir()?;
    let servers = [
        everything()?,
        filesystem(files.path())?,
        memory(files.path())?,
    ];
    each_exact(sessions(&files, &python_client()?, &servers)?, Pids::AtLast)
}

#[test]
fn python_client_and_a_server_through_npx() -> Result<()> {
    let files = tempfile::tempdir()?;
    let (_, command) = connect(&files, &python_client()?, &everything_by_npx())?;
    exact(command, Pids::AtLast)?;
    Ok(())
}

#[test]
fn python_client_and_python_servers() -> Result<()> {
    let files = tempfile::tempdir()?;
    let servers = [time()?, git(files.path())?];
    each_exact(sessions(&files, &python_client()?, &servers)?, Pids::AtLast)
}

#[test]
fn python_client_and_rust_servers() -> Result<()> {
    let files = tempfile::tempdir()?;
    let servers = [rust(false)?, rust(true)?];
    each_exact(sessions(&files, &python_client()?, &servers)?, Pids::AtLast)
}

#[test]
fn node_client() -> Result<()> {
    let script = places::node_directory()?.join("client.mjs");
    let client = ["node".into(), script.into()];
    let files = tempfile::tempdir()?;
    let servers = [
        everything()?,
        filesystem(files.path())?,
        typescript()?,
        time()?,
        rust(false)?,
        rust(true)?,
    ];
    each_exact(sessions(&files, &client, &servers)?, Pids::AtLast)
}

#[test]
fn rust_client() -> Result<()> {
    let files = tempfile::tempdir()?;
    let client = [places::example("rmcp_client")?.into()];
    let servers = [
        rust(false)?,
        rust(true)?,
        everything()?,
        everything_by_npx(),
        time()?,
        bun()?,
    ];
    each_exact(sessions(&files, &client, &servers)?, Pids::AtLast)
}

#[test]
fn bun_client_on_the_sdk() -> Result<()> {
    let files = tempfile::tempdir()?;
    let script = places::node_directory()?.join("client.mjs");
    let client = [places::bun()?.into(), script.into()];
    let servers = [bun()?, everything()?, time()?, rust(true)?];
    each_exact(sessions(&files, &client, &servers)?, Pids::AtLast)
}

#[test]
fn bun_client_on_its_own_processes() -> Result<()> {
    let files = tempfile::tempdir()?;
    let script = places::node_directory()?.join("bun-client.mjs");
    let client = [places::bun()?.into(), script.into()];
    let servers = [bun()?, everything()?, time()?, rust(false)?];
    each_exact(sessions(&files, &client, &servers)?, Pids::AtLast)
}

/// A rule that asks about every call and every answer, and concerns none.
const JUDGES: &str = r#"
[[rule]]
id = "none"
when = { method = "tools/call", tool = { matches = "." }, param = { path = "**", equals = "never said" } }
action = "block"

[[rule]]
id = "none-answered"
when = { result = { path = "**", equals = "never said" } }
action = "block"
"#;

/// With a guard between them, what one side wrote is what the other side read: a session is only good if
/// the logs of both agree.
#[test]
fn a_guard_between_real_peers_changes_no_byte() -> Result<()> {
    let files = tempfile::tempdir()?;
    let node: [OsString; 2] = [
        "node".into(),
        places::node_directory()?.join("client.mjs").into(),
    ];
    for (name, text) in [("empty.toml", ""), ("judges.toml", JUDGES)] {
        let policy = files.path().join(name);
        std::fs::write(&policy, text)?;
        for client in [python_client()?, node.to_vec()] {
            for server in [everything()?, filesystem(files.path())?, time()?] {
                let mut guarded: Vec<OsString> = vec![places::program("mcpinspect")?.into()];
                guarded.extend(["guard".into(), "--policy".into()]);
                guarded.extend([policy.clone().into(), "--".into()]);
                guarded.extend(server.command);
                let server = Server {
                    command: guarded,
                    ..server
                };
                let (name, command) = connect(&files, &client, &server)?;
                let truth = Talk::start(command)
                    .and_then(|talk| talk.finish(SESSION))
                    .with_context(|| format!("{name} with {}", policy.display()))?;
                let both = truth.client_pid.is_some() && truth.server_pid.is_some();
                ensure!(both, "{name}: one side kept no log");
            }
        }
    }
    Ok(())
}
