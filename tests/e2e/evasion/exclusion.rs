//! An excluded name is worth nothing to a server that takes it later.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::places;
use mcpinspect_tests::tap::Tap;

use super::PYTHON;
use super::server::{Server, Wire};
use super::verdict::{ExpectedSession, Outcome, outcome};
use crate::BEHIND;

/// A tap that excludes servers called `left-alone`.
fn tap() -> Result<Tap> {
    Tap::configured("[[discover.tag]]\naction = \"exclude\"\ncommand = \"left-alone$\"\n")
}

fn turncoat(argument: &str, wire: Wire) -> Result<Server> {
    let mut command = Command::new(PYTHON);
    command
        .arg(places::script("python/turncoat.py")?)
        .arg(argument);
    Server::start(command, wire)
}

/// A server that executes itself anew under an excluded name goes on being seen.
#[test]
fn a_server_that_takes_an_excluded_name_later() -> Result<()> {
    for wire in [Wire::Pipes, Wire::Socket] {
        let mut tap = tap()?;
        let mut server = turncoat("before", wire)?;
        let sent_frames = server.talk()?;
        let name = "turncoat".to_owned();
        let expected = ExpectedSession { name, sent_frames };
        let heard = tap.wait_until(BEHIND, "whole session", |capture| {
            matches!(outcome(&expected, capture), Ok(Outcome::FullyReported))
        });
        server.end()?;
        tap.finish()?;
        heard.with_context(|| format!("on {wire:?}"))?;
    }
    Ok(())
}

/// The exclusion holds for a program that starts under the name.
#[test]
fn a_server_that_starts_with_an_excluded_name() -> Result<()> {
    let tap = tap()?;
    let mut server = turncoat("left-alone", Wire::Pipes)?;
    server.talk()?;
    let pid = server.pid();
    server.end()?;
    let finished = tap.finish()?;
    let messages = finished.capture.messages.iter();
    let reported = messages
        .filter(|message| message.server_pid == Some(pid))
        .count();
    ensure!(reported == 0, "{reported} messages of an excluded server");
    Ok(())
}
