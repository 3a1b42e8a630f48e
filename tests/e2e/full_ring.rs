//! What begins while the ring between kernel and daemon is full is not seen, and the daemon reports that.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use mcpinspect_tests::talk::Talk;
use mcpinspect_tests::tap::{Capture, Tap};
use nix::sys::signal::Signal;

use crate::http::{Server, await_all, client, in_order};
use crate::{BEHIND, SESSION};

/// Programs whose starts and ends are more than the smallest ring holds.
const PROGRAMS: usize = 600;

fn tells(capture: &Capture) -> bool {
    let mut events = capture.others.iter();
    events.any(|event| event["mechanism"] == "record_lost")
}

#[test]
fn a_connection_that_begins_while_the_ring_is_full_is_told_of() -> Result<()> {
    let (unseen, seen) = (Server::python(&[])?, Server::python(&[])?);
    let mut tap = Tap::configured("[capture]\nring_size = \"64KiB\"\n")?;
    tap.signal(Signal::SIGSTOP)?;
    for _ in 0..PROGRAMS {
        let mut program = Command::new("true")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        program.wait()?;
    }
    let truth = Talk::start(client(&unseen.url("/mcp"), &[5], &[])?)?.finish(SESSION)?;
    tap.signal(Signal::SIGCONT)?;
    tap.wait_until(BEHIND, "word of the loss", tells)?;

    let next = Talk::start(client(&seen.url("/mcp"), &[5, 500], &[])?)?.finish(SESSION)?;
    await_all(&mut tap, std::slice::from_ref(&next));
    let capture = tap.finish()?.capture;
    in_order(&next, &seen, &capture)?;
    let messages = capture.messages.iter();
    let of_unseen = messages.filter(|message| message.server_pid == Some(unseen.pid()));
    let sent = truth.to_server.len() + truth.to_client.len();
    ensure!(
        of_unseen.count() < sent,
        "the ring was not full, so this shows nothing"
    );
    Ok(())
}
