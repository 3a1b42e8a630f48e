//! With a guard between them, peers notice nothing: odd lines, small pieces, large messages pass as they came.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, oddclient};
use serde_json::json;

use crate::SESSION;

/// Asks about every message, and concerns none.
const JUDGES: &str = "[[rule]]\nid = \"none\"\non = [\"request\", \"notification\", \"response\"]\nwhen = { tool = \"never\" }\naction = \"block\"\n";

const NOTE: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;

/// The server, with a guard in front of it.
fn guarded(policy: &Path, server: &[&str]) -> Result<Vec<OsString>> {
    let mut command: Vec<OsString> = vec![places::program("mcpinspect")?.into(), "guard".into()];
    command.extend(["--policy".into(), policy.into(), "--".into()]);
    command.extend([places::program("oddpeer")?.into(), "server".into()]);
    command.extend(server.iter().map(Into::into));
    Ok(command)
}

#[test]
fn odd_sessions_pass_byte_for_byte() -> Result<()> {
    let files = tempfile::tempdir()?;
    let file = |name: &str, bytes: &[u8]| -> Result<String> {
        let path = files.path().join(name);
        std::fs::write(&path, bytes)?;
        Ok(path.to_string_lossy().into_owned())
    };
    let blanks = file(
        "blanks",
        format!("{NOTE}\r\n\r\n\n  {NOTE}  \n\t{NOTE}\r\n").as_bytes(),
    )?;
    let banner = file("banner", b"Starting server v1.2...\n\n=== ready ===\n")?;
    let noise = file("noise", b"plain text\n\xff\xfe\xc3\n0\nnull\n[]\n")?;
    let many = file("many", format!("{NOTE}\n").repeat(500).as_bytes())?;
    let sessions: [(&str, String, &[&str], &[&str]); 7] = [
        (
            "blanks",
            format!("handshake; send {blanks}; emit {blanks}; call 300; list"),
            &[],
            &[],
        ),
        (
            "banner",
            "handshake; list; call 1".into(),
            &[],
            &["--banner", &banner],
        ),
        (
            "noise of the server",
            format!("handshake; emit {noise}; call 300; list"),
            &[],
            &[],
        ),
        (
            "small pieces",
            format!("handshake; send {many}; emit {many}; call 1"),
            &["--fragment", "97", "--buffer", "97"],
            &["--fragment", "97", "--buffer", "97"],
        ),
        (
            "one piece",
            format!("handshake; send {many}; emit {many}; call 1"),
            &["--fragment", "1000000"],
            &["--fragment", "1000000"],
        ),
        ("long", "handshake; call 3000000; call 1".into(), &[], &[]),
        (
            "greeting",
            "sleep 300; handshake; list".into(),
            &[],
            &["--greet"],
        ),
    ];
    for (name, text) in [("empty.toml", ""), ("judges.toml", JUDGES)] {
        let policy = files.path().join(name);
        std::fs::write(&policy, text)?;
        for (what, plan, client, server) in &sessions {
            let alone = Talk::start(oddclient(client, plan, &plain(server)?)?)
                .and_then(|talk| talk.finish(SESSION))
                .with_context(|| format!("{what} alone"))?;
            let guarded = Talk::start(oddclient(client, plan, &guarded(&policy, server)?)?)
                .and_then(|talk| talk.finish(SESSION))
                .with_context(|| format!("{what} with {name}"))?;
            let both = guarded.client_pid.is_some() && guarded.server_pid.is_some();
            ensure!(both, "{what}: one side kept no log");
            let hashes = |frames: &[mcpinspect_tests::wirelog::Frame]| -> Vec<_> {
                frames.iter().map(|frame| frame.sha256.clone()).collect()
            };
            ensure!(
                hashes(&guarded.to_server) == hashes(&alone.to_server)
                    && hashes(&guarded.to_client) == hashes(&alone.to_client),
                "{what} with {name} is another session than without"
            );
        }
    }
    Ok(())
}

fn plain(server: &[&str]) -> Result<Vec<OsString>> {
    let mut command: Vec<OsString> = vec![places::program("oddpeer")?.into(), "server".into()];
    command.extend(server.iter().map(Into::into));
    Ok(command)
}

/// A client that people use lists the tools of its server through the guard that was installed in its
/// configuration, and without it once it is taken out again.
#[test]
fn a_client_goes_through_the_guard_while_it_is_installed() -> Result<()> {
    let files = tempfile::tempdir()?;
    let node = places::node_directory()?;
    let server = node.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let configuration = files.path().join("mcporter.json");
    let servers = json!({"mcpServers": {"everything": {"command": "node", "args": [server]}}});
    let before = format!("{servers:#}\n");
    std::fs::write(&configuration, &before)?;
    let policy = files.path().join("policy.toml");
    std::fs::write(
        &policy,
        "[[rule]]\nid = \"hidden\"\nwhen = { tool = \"get-env\" }\naction = \"hide\"\n",
    )?;
    let lists = || -> Result<String> {
        let output = Command::new(node.join("node_modules/.bin/mcporter"))
            .arg("--config")
            .arg(&configuration)
            .args(["list", "everything"])
            .env("HOME", files.path())
            .stdin(Stdio::null())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(text.contains("get-sum"), "{output:?}");
        Ok(text)
    };
    let guard = |options: &[&OsStr]| -> Result<()> {
        let mut guard = Command::new(places::program("mcpinspect")?);
        guard.arg("guard").args(options).env("HOME", files.path());
        let output = guard.stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(())
    };
    ensure!(lists()?.contains("get-env"), "nothing is hidden yet");
    let install = ["install".as_ref(), configuration.as_os_str()];
    guard(&[&install[..], &["--policy".as_ref(), policy.as_os_str()]].concat())?;
    let listed = lists()?;
    ensure!(!listed.contains("get-env"), "{listed}");
    guard(&["uninstall".as_ref(), configuration.as_os_str()])?;
    ensure!(lists()?.contains("get-env"), "it is hidden still");
    ensure!(
        std::fs::read_to_string(&configuration)? == before,
        "the file is another"
    );
    Ok(())
}
