//! What a crate must never reach, however far down.
//!
//! A manifest names what a crate may use itself. It says nothing about what those crates use in turn: one
//! convenient dependency would bring the bus into the core. So the whole tree below each crate is compared
//! with a short list.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::outcome::Outcome;
use crate::shell;

/// Packages that need a kernel, a bus, a database, a command line, a runtime.
const KERNEL: &str = "aya";
const BUS: &str = "zbus";
const DATABASE: &str = "rusqlite";
const COMMAND_LINE: &str = "clap";
const RUNTIME: &str = "tokio";
const HTTP: &str = "hyper";

/// A package, and what it must not depend on, directly or through others.
const BOUNDARIES: &[(&str, &[&str])] = &[
    // The core runs from a tape, in a test, in a fuzzer, inside a guard.
    (
        "mcpinspect-core",
        &[KERNEL, BUS, DATABASE, COMMAND_LINE, RUNTIME, HTTP],
    ),
    (
        "mcpinspect-judge",
        &[KERNEL, BUS, DATABASE, COMMAND_LINE, RUNTIME, HTTP],
    ),
    (
        "mcpinspect-engine",
        &[KERNEL, BUS, DATABASE, COMMAND_LINE, RUNTIME, HTTP],
    ),
    (
        "mcpinspect-process",
        &[KERNEL, BUS, DATABASE, COMMAND_LINE, RUNTIME, HTTP],
    ),
    // What reads the kernel's ring neither judges nor stores.
    (
        "mcpinspect-capture",
        &[
            "mcpinspect-judge",
            BUS,
            DATABASE,
            COMMAND_LINE,
            RUNTIME,
            HTTP,
        ],
    ),
    (
        "mcpinspect-tape",
        &[KERNEL, BUS, DATABASE, COMMAND_LINE, RUNTIME, HTTP],
    ),
    ("mcpinspect-store", &[KERNEL, BUS, COMMAND_LINE, HTTP]),
    // Programs have what their users install them for, and nothing else.
    ("mcpinspect-ci", &[KERNEL, BUS, DATABASE]),
    ("mcpinspect-notify", &[KERNEL, DATABASE, HTTP]),
    ("mcpinspect", &[KERNEL]),
    // The daemon has no network.
    ("mcpinspectd", &[HTTP, "rustls"]),
];

/// Compares every package with the list.
pub(super) fn keep() -> Result<Outcome> {
    let mut breaches = Vec::new();
    for (package, forbidden) in BOUNDARIES {
        let all = tree(package)?;
        ensure!(!all.is_empty(), "there is no package {package}");
        let reached = forbidden.iter().filter(|name| all.contains(**name));
        breaches.extend(reached.map(|name| format!("{package} reaches {name}")));
    }
    ensure!(breaches.is_empty(), "{}", breaches.join("; "));
    Ok(Outcome::Passed)
}

/// The names of all packages below one, without what only tests and build scripts need.
fn tree(package: &str) -> Result<BTreeSet<String>> {
    let mut list = shell::cargo();
    list.args(["tree", "--locked", "--package", package]);
    list.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let listed = shell::output(&mut list)?;
    let names = listed.lines().filter_map(|line| line.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}
