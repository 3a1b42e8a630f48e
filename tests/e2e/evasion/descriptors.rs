//! Servers whose descriptors are not where one would look for them: the kernel's objects decide who holds a
//! stream, not the table of a main thread.

use std::process::Command;

use anyhow::{Context, Result};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::places;
use mcpinspect_tests::tap::Tap;

use super::server::{Server, Wire};
use super::verdict::{ExpectedSession, Outcome, outcome};
use super::{Evasion, Family, PYTHON, each_is_reported, fully_reported, on_both};
use crate::BEHIND;

fn evasions() -> Vec<Evasion> {
    let mut all = on_both(&[
        "moved",
        "swapped",
        "wandering",
        "handed",
        "stranger",
        "last-message",
        "nested",
        "taken",
        "shared-table",
        "vanishing",
        "nonblocking",
        "late",
        "hoarder",
    ]);
    // There are no such sockets.
    all.extend(
        ["reopened", "packets", "tiny-pipe", "half-closed"]
            .map(|how| fully_reported(how, Wire::Pipes)),
    );
    all.extend(["moved", "late"].map(|how| fully_reported(how, Wire::Packets)));
    all
}

fn hold(busy: usize) -> Result<()> {
    let family = Family::new("descriptors.py")?;
    each_is_reported(&evasions(), &|evasion| family.start(evasion), busy)
}

#[test]
fn wires_that_are_elsewhere() -> Result<()> {
    hold(0)
}

#[test]
fn wires_that_are_elsewhere_beside_busy_loops() -> Result<()> {
    hold(6)
}

/// Servers that nobody holds a descriptor of for eight seconds, as far as `/proc/PID/fd` shows. All of them at
/// once, because they take so long.
fn hides_its_wire(busy: usize) -> Result<()> {
    let mut tap = Tap::start()?;
    let busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let mut servers = Vec::new();
    for how in ["mainless", "private", "far", "in-flight"] {
        for wire in [Wire::Pipes, Wire::Socket] {
            let mut command = Command::new(PYTHON);
            command.arg(places::script("python/hideout.py")?).arg(how);
            servers.push((format!("{how} on {wire:?}"), Server::start(command, wire)?));
        }
    }
    for (what, server) in &mut servers {
        server.greet().with_context(|| what.clone())?;
    }
    // They stay away for so long that a sweep which trusts the process table forgets them.
    let mut accounts = Vec::new();
    for (what, mut server) in servers {
        for id in 1..=20 {
            server.call(id).with_context(|| what.clone())?;
        }
        let sent_frames = server.sent_frames().clone();
        server.end()?;
        let name = "hideout".to_owned();
        accounts.push((what, ExpectedSession { name, sent_frames }));
    }
    drop(busy);
    let is_seen =
        |expected, capture: &_| matches!(outcome(expected, capture), Ok(Outcome::FullyReported));
    // Without it, the verdict says what is wrong.
    let _ = tap.wait_until(BEHIND, "whole sessions", |capture| {
        accounts
            .iter()
            .all(|(_, expected)| is_seen(expected, capture))
    });
    let capture = tap.finish()?.capture;
    let count = accounts.len();
    let failures =
        accounts
            .into_iter()
            .filter_map(|(what, expected)| match outcome(&expected, &capture) {
                Ok(Outcome::FullyReported) => None,
                other => Some(format!("{what}: {other:?}")),
            });
    crate::verdict(count, failures)
}

#[test]
fn servers_that_hide_their_descriptors() -> Result<()> {
    hides_its_wire(0)
}

#[test]
fn servers_that_hide_their_descriptors_beside_busy_loops() -> Result<()> {
    hides_its_wire(6)
}
