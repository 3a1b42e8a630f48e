//! Types what the README tells people to type.

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::container::{Container, quoted, seen};
use mcpinspect_tests::places;

use crate::event;

/// The shell commands of the README between two pieces of its text.
fn commands(from: &str, to: &str) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(places::repository().join("README.md"))?;
    let after = text.split_once(from).context(from.to_owned())?.1;
    let part = after.split_once(to).context(to.to_owned())?.0;
    let blocks = part.split("```").skip(1).step_by(2);
    let lines = blocks
        .filter_map(|block| block.strip_prefix("sh\n"))
        .flat_map(str::lines);
    Ok(lines.map(str::to_owned).collect())
}

#[test]
fn the_installation_goes_as_the_readme_says() -> Result<()> {
    let commands = commands("\n## Install\n", "\nRemoving the package")?;
    ensure!(commands.len() > 8, "{commands:?}");
    let mut container = Container::boot("readme")?;
    // The user is root here, and the package is in the current directory.
    let package = seen(&places::package("-1_", "deb")?)?;
    container.write("/usr/local/bin/sudo", "#!/bin/sh\nexec \"$@\"\n")?;
    container.shell(&format!(
        "chmod 755 /usr/local/bin/sudo && useradd --create-home ada && mkdir /root/here && cp {package} /root/here/"
    ))?;
    let mut done = Vec::new();
    for command in commands {
        if command.contains("gdbus") && !container.try_shell("command -v gdbus")?.0 {
            // Desktops have it; a server as small as this one has only `busctl`.
            continue;
        }
        let line = format!("cd /root/here && USER=ada && {command}");
        let (success, out, error) = container.try_shell(&format!("bash -c {}", quoted(&line)))?;
        // journalctl exits with 1 if the journal has no such entries yet.
        let nothing = command.starts_with("journalctl") && error.is_empty();
        ensure!(
            success || nothing,
            "{command}\n{out}\n{error}\n{}",
            container.log()?
        );
        done.push(command);
    }
    ensure!(done.iter().any(|line| line.contains("usermod")), "{done:?}");
    container.session("typed", "Gives back the message.")?;
    event(&mut container, "mcp_tool_seen", "typed")?;
    let tools = container.shell("su ada -c 'mcpinspect tools'")?;
    ensure!(tools.contains("typed"), "{tools}");
    Ok(())
}
