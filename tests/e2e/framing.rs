//! What stands on the wire besides well-behaved messages.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use mcpinspect_tests::talk::{Talk, oddpeers};
use mcpinspect_tests::tap::Tap;
use mcpinspect_tests::verify::{self, Pids, TO_CLIENT, TO_SERVER};
use tempfile::TempDir;

use crate::{SESSION, each_exact, exact};

/// A file for a plan's `send` and `emit`.
fn file(directory: &TempDir, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = directory.path().join(name);
    std::fs::write(&path, bytes)?;
    Ok(path)
}

const NOTE: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;

#[test]
fn line_ends_and_blank_lines() -> Result<()> {
    let files = tempfile::tempdir()?;
    let wire = format!("{NOTE}\r\n\r\n\n\n  {NOTE}  \n\t{NOTE}\r\n");
    let odd = file(&files, "odd", wire.as_bytes())?;
    let plan = format!(
        "handshake; send {0}; emit {0}; call 300; send {0}; list",
        odd.display()
    );
    exact(oddpeers(&[], &plan, &[])?, Pids::Always)?;
    Ok(())
}

#[test]
fn many_messages_in_one_write_and_a_message_over_many() -> Result<()> {
    let files = tempfile::tempdir()?;
    let many = file(&files, "many", format!("{NOTE}\n").repeat(500).as_bytes())?;
    let plan = format!("handshake; send {0}; emit {0}; call 1", many.display());
    let sessions = ["1000000", "4096", "97"]
        .map(|size| {
            let io = ["--fragment", size, "--buffer", size];
            Ok((format!("pieces of {size}"), oddpeers(&io, &plan, &io)?))
        })
        .into_iter()
        .collect::<Result<_>>()?;
    each_exact(sessions, Pids::Always)
}

#[test]
fn a_banner_before_the_first_message() -> Result<()> {
    let files = tempfile::tempdir()?;
    let text = "Starting server v1.2...\n[info] listening on stdio\n\n=== ready ===\n";
    let banner = file(&files, "banner", text.as_bytes())?;
    let banner = banner.to_string_lossy();
    let plan = "handshake; list; call 300";
    exact(oddpeers(&[], plan, &["--banner", &banner])?, Pids::Always)?;
    Ok(())
}

#[test]
fn the_server_speaks_first() -> Result<()> {
    // The client waits, so that the greeting is the first thing on the wire.
    let plan = "sleep 300; handshake; list; call 300";
    exact(oddpeers(&[], plan, &["--greet"])?, Pids::Always)?;
    Ok(())
}

#[test]
fn lines_that_are_no_messages() -> Result<()> {
    let files = tempfile::tempdir()?;
    let mut lines: Vec<Vec<u8>> = vec![
        b"\xff\xfe not UTF-8 \xc3".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\xff\"}".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"method\":\"cut".to_vec(),
        b"plain text".to_vec(),
        b"0".to_vec(),
        b"null".to_vec(),
        b"\"string\"".to_vec(),
        b"{}".to_vec(),
        b"[]".to_vec(),
        b"{\"jsonrpc\":\"1.0\",\"id\":{},\"method\":7}".to_vec(),
        b"\x1b[31mred\x1b[0m \x07".to_vec(),
        (0..=255).filter(|&byte| byte != b'\n').collect(),
        vec![0; 5000],
    ];
    for depth in [100, 127, 128, 129, 10_000, 100_000] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        lines.push(nested.clone().into_bytes());
        let message = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{nested}}}"#);
        lines.push(message.into_bytes());
        lines.push("{\"a\":".repeat(depth).into_bytes());
    }
    let mut wire = Vec::new();
    for line in &lines {
        wire.extend_from_slice(line);
        wire.push(b'\n');
    }
    let bad = file(&files, "bad", &wire)?;
    let plan = format!(
        "handshake; emit {0}; call 300; send {0}; call 300",
        bad.display()
    );

    let tap = Tap::start()?;
    let truth = Talk::start(oddpeers(&[], &plan, &[])?)?.finish(SESSION)?;
    let finished = tap.finish()?;
    let session = verify::session_of(&truth, &finished.capture)?;
    for (direction, expected, reported) in [
        (TO_SERVER, &truth.to_server, &session.to_server),
        (TO_CLIENT, &truth.to_client, &session.to_client),
    ] {
        let missing = verify::in_order(expected, reported)?;
        ensure!(missing == 0, "{direction}: {missing} lines are missing");
        for wrong in ["plain text", "\"string\"", "0"] {
            let seen = reported.iter().find(|m| m.raw.as_deref() == Some(wrong));
            ensure!(
                seen.is_some_and(|m| m.kind == "invalid"),
                "{direction}: {wrong} is no message: {seen:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn lines_of_every_small_size() -> Result<()> {
    let junk: Vec<String> = (1..=70)
        .map(|size| format!("junk {size}; emit-junk {size}"))
        .collect();
    let plan = format!("handshake; {}; call 1", junk.join("; "));
    exact(oddpeers(&[], &plan, &[])?, Pids::Always)?;
    Ok(())
}

#[test]
fn ids_of_every_kind_and_place() -> Result<()> {
    let plan = r#"handshake; id 0; id "0"; id "a-b"; id -1; id 9007199254740993; id ""; id "é\"\\"; idlast; list; flight 20; ask; call 1"#;
    exact(oddpeers(&[], plan, &[])?, Pids::Always)?;
    Ok(())
}

#[test]
fn every_revision() -> Result<()> {
    let mut sessions = Vec::new();
    for revision in [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "fallback",
    ] {
        let plan = format!("handshake {revision}; list; call 300; ask");
        sessions.push((revision.to_owned(), oddpeers(&[], &plan, &[])?));
    }
    let plan = "handshake stateless; list; call 300";
    let command = oddpeers(&[], plan, &["--stateless"])?;
    sessions.push(("2026-07-28".to_owned(), command));
    let plan = "handshake 2025-03-26; batch 1; batch 20; call 1";
    sessions.push(("batches".to_owned(), oddpeers(&[], plan, &[])?));
    each_exact(sessions, Pids::Always)
}

/// A line longer than anything reasonable costs bounded memory and not the rest of the session.
#[test]
fn a_line_of_a_hundred_megabytes() -> Result<()> {
    const LINE: u64 = 100_000_000;
    let plan = format!("handshake; call 300; emit-junk {LINE}; call 400 500");
    let tap = Tap::start()?;
    let truth = Talk::start(oddpeers(&[], &plan, &[])?)?.finish(SESSION)?;
    let finished = tap.finish()?;
    let session = verify::session_of(&truth, &finished.capture)?;
    verify::same(&truth.to_server, &session.to_server)?;
    let whole = session.to_client.iter().any(|m| m.bytes == LINE);
    ensure!(
        whole
            || session
                .gaps
                .iter()
                .any(|gap| gap.direction == TO_CLIENT && gap.bytes_lost > 0),
        "the long line is neither reported nor known to be lost"
    );
    let missing = verify::in_order(&truth.to_client, &session.to_client)?;
    ensure!(
        missing == usize::from(!whole),
        "{missing} lines are missing"
    );
    let stream = session.stream(TO_CLIENT)?;
    ensure!(
        stream.bytes_written == stream.bytes_captured + stream.bytes_lost
            && stream.bytes_written == stream.bytes_read
            && stream.bytes_written > LINE,
        "the ledger is off: {stream:?}"
    );
    let limit = 192 << 20;
    ensure!(
        finished.peak_memory < limit,
        "the daemon grew to {} MiB",
        finished.peak_memory >> 20
    );
    Ok(())
}
