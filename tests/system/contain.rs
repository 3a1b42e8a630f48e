//! Containing servers from within the service's own confinement.

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::container::Container;

use crate::{event, field, installed};

/// A client that starts what it is told and asks it something now and then, for as long as it gets
/// answers; each answer is a line in a file.
const CLIENT: &str = r#"#!/bin/bash
"$@" < <(
    echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"shell","version":"1"}}}'
    echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
    for id in $(seq 2 2000); do
        echo '{"jsonrpc":"2.0","id":'$id',"method":"tools/list"}'
        sleep 0.05
    done
) | while read -r answer; do echo "$answer" >> "$COUNT"; done
"#;

/// Whether the client gets answers.
fn answers(container: &Container, count: &str) -> Result<bool> {
    let lines =
        || -> Result<usize> { Ok(container.shell(&format!("cat {count}"))?.lines().count()) };
    let before = lines()?;
    // Time for eight requests: a frozen server leaves no sign to wait for.
    std::thread::sleep(std::time::Duration::from_millis(400));
    Ok(lines()? > before)
}

/// Starts a session that lasts, its server being `name`, started through `launcher`.
fn start(container: &Container, name: &str, launcher: &str) -> Result<String> {
    let server =
        mcpinspect_tests::container::seen(&mcpinspect_tests::places::example("rmcp_server")?)?;
    container.write("/usr/local/bin/client", CLIENT)?;
    let count = format!("/tmp/{name}.count");
    container.shell(&format!(
        "chmod +x /usr/local/bin/client && cp --update {server} /usr/local/bin/{name}-server && \
         systemd-run --quiet --unit=client-{name} --setenv=COUNT={count} /usr/local/bin/client {launcher} /usr/local/bin/{name}-server"
    ))?;
    Ok(count)
}

/// A server that is a unit of its own is frozen as a whole by the service manager: the service may
/// not write control groups.
#[test]
fn a_unit_of_its_own_is_frozen_by_the_service_manager() -> Result<()> {
    let mut container = installed("unit")?;
    // A run that was broken off may have left a frozen control group of the same name.
    let unit = format!("mcp-alone-{}", std::process::id());
    let count = start(
        &container,
        "alone",
        &format!("systemd-run --quiet --pipe --wait --collect --unit={unit}"),
    )?;
    event(&mut container, "mcp_tool_seen", "alone")?;
    ensure!(answers(&container, &count)?, "no session");
    // `systemd-run --pipe` stays between the client and the server's unit and holds the server's end of the
    // session as well; that such processes go on is reported.
    let (_, said, missed) = container.try_shell("mcpinspect freeze alone")?;
    ensure!(
        said.contains(&format!("/system.slice/{unit}.service")),
        "{said}{missed}"
    );
    ensure!(
        missed
            .lines()
            .all(|line| line.ends_with("it holds the server's end of the session")),
        "{missed}"
    );
    let state = format!("systemctl show --property=FreezerState --value {unit}");
    ensure!(container.shell(&state)?.trim() == "frozen");
    ensure!(!answers(&container, &count)?, "a frozen server answers");
    let entry = event(&mut container, "mcp_contained", "alone")?;
    ensure!(
        field(&entry, "MCPINSPECT_MEASURE")? == "freeze",
        "{entry:#}"
    );
    let client = container.shell("systemctl show --property=ActiveState --value client-alone")?;
    ensure!(client.trim() == "active", "the client is {client}");
    container.shell("mcpinspect thaw alone")?;
    ensure!(container.shell(&state)?.trim() == "running");
    ensure!(
        answers(&container, &count)?,
        "a thawed server does not answer"
    );
    Ok(())
}

/// A server in its client's unit gets signals, and the client none; a user may do neither.
#[test]
fn a_server_in_its_clients_unit_is_stopped_alone() -> Result<()> {
    let mut container = installed("shared")?;
    container.shell("useradd --create-home eve")?;
    let count = start(&container, "inside", "")?;
    event(&mut container, "mcp_tool_seen", "inside")?;
    for command in ["freeze", "kill"] {
        let (success, out, error) =
            container.try_shell_as("eve", &format!("mcpinspect {command} inside"))?;
        ensure!(
            !success && error.contains("not permitted"),
            "{command}: {out}{error}"
        );
    }
    ensure!(answers(&container, &count)?, "no session");
    let said = container.shell("mcpinspect freeze inside")?;
    ensure!(!said.contains("as a whole"), "{said}");
    ensure!(!answers(&container, &count)?, "a frozen server answers");
    container.shell("mcpinspect thaw inside")?;
    ensure!(
        answers(&container, &count)?,
        "a thawed server does not answer"
    );
    container.shell("mcpinspect kill inside")?;
    container
        .wait("the server to be gone", |container| {
            let (running, _, _) = container.try_shell("pgrep -x inside-server")?;
            Ok((!running).then_some(()))
        })
        .context("killed")?;
    Ok(())
}
