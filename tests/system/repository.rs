//! The package from a repository, as people who want its updates install it.

use anyhow::{Result, ensure};
use mcpinspect_tests::container::{Container, quoted, seen};
use mcpinspect_tests::places;

/// Has apt know the repository at this path and no other place: there is no network here.
fn use_repository(container: &Container, path: &str) -> Result<()> {
    container.write(
        "/etc/apt/sources.list.d/mcpinspectd.sources",
        &format!(
            "Types: deb\nURIs: file:{path}/apt\nSuites: stable\nComponents: main\n\
             Signed-By: {path}/mcpinspectd.asc\n"
        ),
    )?;
    // What cargo builds need not be readable for apt's own user.
    container.write(
        "/etc/apt/apt.conf.d/test",
        "APT::Sandbox::User \"root\";\nDir::Etc::sourcelist \"/dev/null\";\n",
    )?;
    Ok(())
}

fn apt(container: &Container, arguments: &str) -> Result<String> {
    container.shell(&format!(
        "DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --no-install-recommends {arguments}"
    ))
}

#[test]
fn apt_installs_and_upgrades_from_the_repository() -> Result<()> {
    let container = Container::boot("repository")?;
    let path = seen(&places::package_repository()?)?;
    use_repository(&container, &path)?;
    apt(&container, "update")?;
    let first = container.shell(
        "apt-cache madison mcpinspectd | cut -d '|' -f 2 | sort --version-sort | head -n 1",
    )?;
    apt(&container, &format!("install mcpinspectd={}", first.trim()))?;
    ensure!(container.property("ActiveState")? == "active");
    let said = apt(&container, "upgrade")?;
    let version = container.shell("dpkg-query --show --showformat '${Version}' mcpinspectd")?;
    ensure!(version.ends_with("-2"), "{version}\n{said}");
    ensure!(container.property("ActiveState")? == "active", "{said}");
    Ok(())
}

#[test]
fn an_index_that_somebody_changed_is_refused() -> Result<()> {
    let container = Container::boot("forged")?;
    let path = seen(&places::package_repository()?)?;
    let copy = "/srv/repository";
    container.shell(&format!("cp -r {} {copy}", quoted(&path)))?;
    container.shell(&format!(
        "sed -i 's/^Suite: stable/Suite: evil/' {copy}/apt/dists/stable/InRelease"
    ))?;
    use_repository(&container, copy)?;
    let (_, out, error) = container.try_shell("apt-get update")?;
    ensure!(error.contains("invalid"), "{out}\n{error}");
    let (success, out, error) = container.try_shell("apt-get install --yes mcpinspectd")?;
    ensure!(!success, "{out}\n{error}");
    Ok(())
}
