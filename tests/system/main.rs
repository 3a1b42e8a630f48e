//! The package as people get it: installed into a clean Debian with a real systemd, journal and
//! system bus, and taken away again.

mod access;
mod chapter;
mod contain;
mod fleet;
mod privileges;
mod readme;
mod removal;
mod repository;
mod service;
mod upgrade;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::container::Container;
use serde_json::Value;

/// Boots a container and installs the package.
fn installed(name: &str) -> Result<Container> {
    let container = Container::boot(name)?;
    let said = container.install(1)?;
    let state = container.property("ActiveState")?;
    ensure!(
        state == "active",
        "the service is {state}:\n{said}\n{}",
        container.log()?
    );
    Ok(container)
}

/// Waits until the service looks into TLS, which is some seconds after its start.
fn await_tls(container: &Container) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let until = Instant::now() + PATIENCE;
    while !container.log()?.contains("TLS is decrypted from now on") {
        ensure!(Instant::now() < until, "no TLS\n{}", container.log()?);
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Waits for an event of a server in the journal, and returns its entry.
fn event(container: &mut Container, kind: &str, server: &str) -> Result<Value> {
    let matches = [
        format!("MCPINSPECT_EVENT={kind}"),
        format!("MCPINSPECT_SERVER={server}"),
    ];
    container.wait(&format!("{kind} of {server}"), |container| {
        let entries = container.journal(&[&matches[0], &matches[1]])?;
        Ok(entries.into_iter().next_back())
    })
}

/// A field of a journal entry.
fn field<'a>(entry: &'a Value, name: &str) -> Result<&'a str> {
    let value = entry[name].as_str();
    value.with_context(|| format!("no {name} in {entry:#}"))
}
