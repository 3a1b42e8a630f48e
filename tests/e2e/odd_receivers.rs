//! Clients over HTTP that take their answers from the socket by calls and flags whose results do not mean what
//! they seem to: bytes that were not copied to the client are reported as lost, never as messages.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::places;
use mcpinspect_tests::tap::Tap;
use mcpinspect_tests::verify;

use crate::BEHIND;
use crate::http::Server;

/// Answers to `initialize` and to five calls.
const ANSWERS: usize = 6;

/// Has a client take one answer in an odd way, of which `missing` answers are lost.
fn is_reported(how: &str, missing: usize) -> Result<()> {
    let server = Server::python(&["json"])?;
    let mut tap = Tap::start()?;
    let client = Command::new("/usr/bin/python3")
        .arg(places::script("python/odd_receiver.py")?)
        .arg(server.port().to_string())
        .arg(how)
        .output()?;
    ensure!(
        client.status.success(),
        "{}",
        String::from_utf8_lossy(&client.stderr)
    );
    let text = |answer: usize| format!("call {answer}");
    // The last answer is the end of the session.
    let _ = tap.wait_until(BEHIND, "the last answer", |capture| {
        let mut raw = capture.messages.iter().filter_map(|m| m.raw.as_deref());
        raw.any(|raw| raw.contains(&text(5)) && raw.contains("result"))
    });
    let capture = tap.finish()?.capture;
    let sessions = verify::sessions(&capture);
    let session = sessions
        .iter()
        .find(|session| {
            session
                .messages()
                .any(|m| m.server_pid == Some(server.pid()))
        })
        .context("no session is reported")?;
    ensure!(
        session.to_client.len() == ANSWERS - missing,
        "{} answers: {:?}",
        session.to_client.len(),
        session.to_client
    );
    let forged = session.messages().find(|message| {
        let raw = message.raw.as_deref().unwrap_or_default();
        raw.contains("forged") || message.direction == verify::TO_CLIENT && raw.contains("method")
    });
    ensure!(forged.is_none(), "never sent: {forged:?}");
    let reasons: Vec<&str> = session.gaps.iter().map(|gap| gap.reason.as_str()).collect();
    ensure!(
        reasons == vec!["not_copied"; missing],
        "losses: {:?}",
        session.gaps
    );
    let accused = capture
        .others
        .iter()
        .find(|event| event["type"] == "mcp_detection");
    ensure!(accused.is_none(), "accused of {accused:?}");
    Ok(())
}

#[test]
fn bytes_that_the_kernel_threw_away_are_not_words() -> Result<()> {
    is_reported("truncating", 1)
}

#[test]
fn bytes_that_were_mapped_are_reported_as_lost() -> Result<()> {
    is_reported("mapping", 1)
}

#[test]
fn a_socket_has_a_queue_of_its_own_packets() -> Result<()> {
    is_reported("error-queue", 0)
}
