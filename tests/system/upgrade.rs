//! A new version takes over from the old one and keeps its state.

use anyhow::{Result, ensure};

use crate::{event, field, installed};

#[test]
fn an_upgrade_keeps_the_pins() -> Result<()> {
    let mut container = installed("upgrade")?;
    container.session("kept", "Gives back the message.")?;
    let first = event(&mut container, "mcp_tool_seen", "kept")?;
    ensure!(field(&first, "MCPINSPECT_STATUS")? == "new", "{first:#}");
    container.shell("echo '# mine' >> /etc/mcpinspectd/config.toml")?;
    let before = container.property("MainPID")?;

    let said = container.install(2)?;
    ensure!(
        container.property("ActiveState")? == "active",
        "{said}\n{}",
        container.log()?
    );
    ensure!(container.property("MainPID")? != before, "the old one runs");
    let kept = container.shell("tail -n 1 /etc/mcpinspectd/config.toml")?;
    ensure!(kept == "# mine\n", "the settings were overwritten");

    // The same again is nothing new; another definition is held to the old one's pin.
    container.session("kept", "Gives back the message.")?;
    container.session("kept", "Gives back the message, now to somebody else.")?;
    let changed = event(&mut container, "mcp_tool_changed", "kept")?;
    let previous: serde_json::Value = serde_json::from_str(field(&changed, "MCPINSPECT_JSON")?)?;
    ensure!(
        previous["previous_hash"] == first["MCPINSPECT_HASH"],
        "{previous:#}"
    );
    let new = container.journal(&["MCPINSPECT_SERVER=kept", "MCPINSPECT_STATUS=new"])?;
    ensure!(new.len() == 1, "seen as new {} times", new.len());
    let tools = container.shell("mcpinspect tools --changed --json kept")?;
    ensure!(tools.contains("echo"), "{tools}");
    Ok(())
}

#[test]
fn what_an_administrator_disabled_stays_so() -> Result<()> {
    let container = installed("disabled")?;
    container.shell("systemctl disable --now mcpinspectd")?;
    container.install(2)?;
    let state = container.property("UnitFileState")?;
    ensure!(state == "disabled", "the upgrade made it {state}");
    let state = container.property("ActiveState")?;
    ensure!(state == "inactive", "the upgrade made it {state}");
    Ok(())
}
