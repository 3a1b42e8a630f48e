//! The files of a package and their places.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::contents::{PROGRAMS, Package};
use super::files::{install, into, listed, modes, write};
use super::{documents, page};
use crate::shell;

/// Files of the repository, and where they are installed.
const FILES: &[(&str, &str)] = &[
    (
        "systemd/mcpinspectd.service",
        "usr/lib/systemd/system/mcpinspectd.service",
    ),
    (
        "systemd/mcpinspect-notify.service",
        "usr/lib/systemd/user/mcpinspect-notify.service",
    ),
    (
        "systemd/mcpinspectd.sysusers",
        "usr/lib/sysusers.d/mcpinspectd.conf",
    ),
    (
        "systemd/mcpinspectd.tmpfiles",
        "usr/lib/tmpfiles.d/mcpinspectd.conf",
    ),
    (
        "packaging/90-mcpinspectd.preset",
        "usr/lib/systemd/system-preset/90-mcpinspectd.preset",
    ),
    (
        "packaging/90-mcpinspect-notify.preset",
        "usr/lib/systemd/user-preset/90-mcpinspect-notify.preset",
    ),
    (
        "packaging/mcpinspectd.catalog",
        "usr/lib/systemd/catalog/mcpinspectd.catalog",
    ),
    (
        "packaging/org.mcpinspect1.conf",
        "usr/share/dbus-1/system.d/org.mcpinspect1.conf",
    ),
    (
        "packaging/org.mcpinspect1.service",
        "usr/share/dbus-1/system-services/org.mcpinspect1.service",
    ),
    (
        "packaging/org.mcpinspect1.policy",
        "usr/share/polkit-1/actions/org.mcpinspect1.policy",
    ),
    (
        "packaging/restart-backoff.conf",
        "usr/lib/mcpinspectd/restart-backoff.conf",
    ),
    ("packaging/config.toml", "etc/mcpinspectd/config.toml"),
];

/// Scripts of the repository, and where they are installed.
const SCRIPTS: &[(&str, &str)] = &[(
    "packaging/restart-backoff",
    "usr/lib/mcpinspectd/restart-backoff",
)];

/// Where the introspection data goes: all of `packaging/*.xml`.
const INTERFACES: &str = "usr/share/dbus-1/interfaces";

/// Directories that are empty after installation.
const DIRECTORIES: &[&str] = &["etc/mcpinspectd/policy.d", "etc/mcpinspectd/rules.d"];

/// What differs between distributions.
pub(super) struct Layout {
    /// Where zsh looks for packages' completions.
    pub(super) zsh: &'static str,
    /// The licence: its path and its text.
    pub(super) licence: (&'static str, String),
}

/// Creates the tree below `root`, replacing what is there.
pub(super) fn stage(package: &Package, root: &Path, layout: &Layout) -> Result<()> {
    let _ = fs::remove_dir_all(root);
    for program in PROGRAMS {
        let to = root.join("usr/bin").join(program);
        install(&package.programs.join(program), &to, 0o755)?;
    }
    let repository = shell::root();
    for (from, to) in FILES {
        install(&repository.join(from), &root.join(to), 0o644)?;
    }
    for (from, to) in SCRIPTS {
        install(&repository.join(from), &root.join(to), 0o755)?;
    }
    for from in listed(&repository.join("packaging"))? {
        if from.extension().is_some_and(|extension| extension == "xml") {
            install(&from, &into(&root.join(INTERFACES), &from), 0o644)?;
        }
    }
    for directory in DIRECTORIES {
        fs::create_dir_all(root.join(directory))?;
    }
    documents::stage(root)?;
    write(&root.join(layout.licence.0), &layout.licence.1)?;
    completions(package, root, layout)?;
    manual(package, root)?;
    modes(root)
}

fn completions(package: &Package, root: &Path, layout: &Layout) -> Result<()> {
    let written = package.manual.join("completions");
    for program in PROGRAMS {
        let bash = root.join("usr/share/bash-completion/completions");
        let from = written.join("bash").join(format!("{program}.bash"));
        install(&from, &bash.join(program), 0o644)?;
        let zsh = format!("_{program}");
        let from = written.join("zsh").join(&zsh);
        install(&from, &root.join(layout.zsh).join(&zsh), 0o644)?;
        let fish = format!("{program}.fish");
        let to = root.join("usr/share/fish/vendor_completions.d").join(&fish);
        install(&written.join("fish").join(&fish), &to, 0o644)?;
    }
    Ok(())
}

fn manual(package: &Package, root: &Path) -> Result<()> {
    let manuals = root.join("usr/share/man");
    for from in listed(&package.manual.join("man"))? {
        let section = from
            .extension()
            .context("a manual page without a section")?;
        let section = manuals.join(format!("man{}", section.display()));
        install(&from, &into(&section, &from), 0o644)?;
    }
    let settings = fs::read_to_string(shell::root().join("packaging/config.toml"))?;
    let page = page::of_configuration(&settings, &package.version);
    write(&manuals.join("man5/mcpinspectd.toml.5"), &page)?;
    for section in listed(&manuals)? {
        // Without name and time, the same pages result in the same package.
        shell::run(
            Command::new("gzip")
                .args(["-9", "-n"])
                .args(listed(&section)?),
        )?;
    }
    Ok(())
}
