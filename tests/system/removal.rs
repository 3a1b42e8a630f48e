//! Removal asks nothing and keeps the state; purging deletes it.

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::container::{Container, seen};
use mcpinspect_tests::places;

use crate::{event, installed};

#[test]
fn removal_keeps_the_pins_and_purging_forgets_them() -> Result<()> {
    let mut container = installed("removal")?;
    container.session("gone", "Gives back the message.")?;
    event(&mut container, "mcp_tool_seen", "gone")?;
    let pid = container.property("MainPID")?;

    container.shell("dpkg --remove mcpinspectd 2>&1")?;
    let (runs, _, _) = container.try_shell(&format!("kill -0 {pid}"))?;
    ensure!(!runs, "it still runs");
    container.shell(
        "test -s /var/lib/mcpinspectd/registry.db && test -f /etc/mcpinspectd/config.toml",
    )?;
    let (there, out, _) = container
        .try_shell("command -v mcpinspectd || ls /usr/lib/systemd/system/mcpinspectd.service")?;
    ensure!(!there, "left behind: {out}");

    container.shell("dpkg --purge mcpinspectd 2>&1")?;
    let left = container.shell("find / -xdev -path /run/host -prune -o -path /proc -prune -o -name '*mcpinspect*' -print | grep -v -e /usr/local/bin -e whole-machine -e service.d || true")?;
    ensure!(left.is_empty(), "left behind: {left}");
    Ok(())
}

#[test]
fn the_rpm_runs_and_goes_too() -> Result<()> {
    let mut container = Container::boot("rpm")?;
    let package = seen(&places::package("-1.", "rpm")?)?;
    // Debian's own packages are unknown to rpm: what it depends on is there all the same.
    container.shell(&format!("rpm --install --nodeps {package}"))?;
    for (name, wanted) in [("ActiveState", "active"), ("UnitFileState", "enabled")] {
        let found = container.property(name)?;
        ensure!(found == wanted, "{name} is {found}\n{}", container.log()?);
    }
    container.session("rpm", "Gives back the message.")?;
    event(&mut container, "mcp_tool_seen", "rpm")?;
    let first = container.property("MainPID")?;
    container.shell(&format!("rpm --upgrade --force --nodeps {package}"))?;
    ensure!(container.property("MainPID")? != first, "the old one runs");
    container.shell("rpm --erase --nodeps mcpinspectd")?;
    let (there, _, _) = container
        .try_shell("systemctl is-active mcpinspectd || systemctl is-enabled mcpinspectd")?;
    ensure!(!there, "it is still there");
    container
        .shell("test -s /var/lib/mcpinspectd/registry.db")
        .context("the pins are gone")?;
    Ok(())
}
