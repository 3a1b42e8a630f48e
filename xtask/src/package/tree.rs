//! The files of a package, where they go.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::contents::{PROGRAMS, Package};
use super::page;
use crate::shell;

/// Files of the repository and their places.
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
    ("README.md", "usr/share/doc/mcpinspectd/README.md"),
];

/// Scripts of the repository, and their places.
const SCRIPTS: &[(&str, &str)] = &[(
    "packaging/restart-backoff",
    "usr/lib/mcpinspectd/restart-backoff",
)];

/// Introspection data, all of `packaging/*.xml`.
const INTERFACES: &str = "usr/share/dbus-1/interfaces";

/// Directories of the package that are empty at first.
const DIRECTORIES: &[&str] = &["etc/mcpinspectd/rules.d"];

/// What differs from one distribution to the next.
pub(super) struct Layout {
    /// Where zsh looks for completions that packages bring.
    pub(super) zsh: &'static str,
    /// Where the licence goes, as a path and its text.
    pub(super) licence: (&'static str, String),
}

/// Makes the tree anew below `root`.
pub(super) fn stage(package: &Package, root: &Path, layout: &Layout) -> Result<()> {
    let _ = fs::remove_dir_all(root);
    for program in PROGRAMS {
        let to = root.join("usr/bin").join(program);
        install(&package.programs.join(program), &to, 0o755)?;
        // Function names stay, so that a report of a crash can be read.
        shell::run(Command::new("strip").arg("--strip-debug").arg(&to))?;
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
        let section = from.extension().context("a page without a section")?;
        let section = manuals.join(format!("man{}", section.display()));
        install(&from, &into(&section, &from), 0o644)?;
    }
    let settings = fs::read_to_string(shell::root().join("packaging/config.toml"))?;
    let page = page::of_configuration(&settings, &package.version);
    write(&manuals.join("man5/mcpinspectd.toml.5"), &page)?;
    for section in listed(&manuals)? {
        // Without name and time: the same pages make the same package.
        shell::run(
            Command::new("gzip")
                .args(["-9", "-n"])
                .args(listed(&section)?),
        )?;
    }
    Ok(())
}

/// The entries of a directory, sorted.
fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn into(directory: &Path, file: &Path) -> PathBuf {
    directory.join(file.file_name().unwrap_or_default())
}

fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let parent = to.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent)?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Writes a file and makes the directories above it.
pub(super) fn write(to: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
    fs::write(to, text)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o644))?;
    Ok(())
}

/// Directories are for everyone to enter, whatever umask this runs with.
fn modes(directory: &Path) -> Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    listed(directory)?
        .iter()
        .filter(|path| path.is_dir())
        .try_for_each(|path| modes(path))
}

/// All files below `root`, as absolute paths of the installed system, sorted.
pub(super) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for path in listed(&directory)? {
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.push(Path::new("/").join(path.strip_prefix(root)?));
            }
        }
    }
    found.sort();
    Ok(found)
}
