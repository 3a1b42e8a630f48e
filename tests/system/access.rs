//! What others may do: users of the machine read nothing of root's and change nothing; members of
//! the group read.

use anyhow::{Context, Result, ensure};

use crate::{event, field, installed};

const MANAGER: &str = "org.mcpinspect1 /org/mcpinspect1 org.mcpinspect1.Manager";

#[test]
fn users_read_nothing_of_others_and_change_nothing() -> Result<()> {
    let mut container = installed("users")?;
    container.shell("useradd --create-home eve")?;
    container.session("secret", "Gives back the message.")?;
    let entry = event(&mut container, "mcp_tool_seen", "secret")?;
    let id = field(&entry, "MCPINSPECT_EVENT_ID")?;
    for forbidden in [
        "cat /var/lib/mcpinspectd/registry.db".to_owned(),
        "ls /var/lib/mcpinspectd".to_owned(),
        "ls /run/mcpinspectd".to_owned(),
        "mcpinspect tools".to_owned(),
        "mcpinspect approve secret echo".to_owned(),
        "mcpinspectd tap".to_owned(),
        "mcpinspectd run".to_owned(),
        "touch /etc/mcpinspectd/rules.d/mine.toml".to_owned(),
        "echo >> /etc/mcpinspectd/config.toml".to_owned(),
        "systemctl stop mcpinspectd".to_owned(),
        "systemctl reload mcpinspectd".to_owned(),
        format!("busctl call {MANAGER} GetEvent s {id}"),
        format!("busctl call {MANAGER} Approve ss secret echo"),
        format!("busctl call {MANAGER} Reload"),
                    "busctl emit /org/mcpinspect1 org.mcpinspect1.Manager Event s fake && journalctl -q MCPINSPECT_EVENT=mcp_tool_seen | grep secret".to_owned(),
    ] {
        let (success, out, error) = container.try_shell_as("eve", &forbidden)?;
        ensure!(!success, "allowed: {forbidden}\n{out}{error}");
        ensure!(!out.contains("Gives back"), "{forbidden} shows {out}");
    }
    let (_, out, _) =
        container.try_shell_as("eve", "journalctl --no-pager MCPINSPECT_SERVER=secret")?;
    ensure!(!out.contains("secret"), "the journal shows {out}");
    let (success, out, error) = container.try_shell_as(
        "eve",
        &format!("busctl call {MANAGER} ListEvents su '' 100"),
    )?;
    ensure!(
        !out.contains("secret"),
        "listed ({success}, {error}): {out}"
    );
    ensure!(container.property("ActiveState")? == "active", "stopped");
    // The same is there for those who may.
    for allowed in [
        format!("busctl call {MANAGER} GetEvent s {id}"),
        format!("busctl call {MANAGER} ListEvents su '' 100"),
        "mcpinspect tools".to_owned(),
        "mcpinspect approve secret echo".to_owned(),
    ] {
        let out = container.shell(&allowed)?;
        ensure!(out.contains("secret"), "{allowed} says {out}");
    }
    Ok(())
}

#[test]
fn members_of_the_group_read() -> Result<()> {
    let mut container = installed("members")?;
    container.shell("useradd --create-home --groups mcpinspect ada")?;
    container.session("shared", "Gives back the message.")?;
    let entry = event(&mut container, "mcp_tool_seen", "shared")?;
    let id = field(&entry, "MCPINSPECT_EVENT_ID")?;
    for allowed in [
        "mcpinspect tools --json shared".to_owned(),
        format!("busctl call {MANAGER} GetEvent s {id}"),
    ] {
        let (success, out, error) = container.try_shell_as("ada", &allowed)?;
        ensure!(success, "{allowed}: {error}");
        out.contains("echo").then_some(()).context(out)?;
    }
    let registry = "/var/lib/mcpinspectd/registry.db";
    for forbidden in [
        format!("echo x >> {registry}"),
        format!("rm -f {registry}"),
        "mcpinspect approve shared echo".to_owned(),
    ] {
        let (success, out, error) = container.try_shell_as("ada", &forbidden)?;
        ensure!(!success, "allowed: {forbidden}\n{out}{error}");
    }
    Ok(())
}
