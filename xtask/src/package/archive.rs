//! Archives: the whole tree for recipes of other distributions, and one static `mcpinspect`.
//!
//! The static program needs neither the system's C library nor an installation: it is for a machine that
//! collects journals, a CI job, a container. The daemon is not in it: it needs a service manager, a bus
//! and a journal around it, which is what packages are for.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::build::{Build, Libc};
use super::contents::Package;
use super::{files, symbols, tree};
use crate::setup;
use crate::shell::{self, say};

/// Packs everything that a package installs.
pub(super) fn tree(package: &Package) -> Result<PathBuf> {
    say("packing an archive");
    let name = format!(
        "mcpinspectd-{}-{}-linux",
        package.version, package.build.machine
    );
    let root = package.folder.join("archive").join(&name);
    let licence = fs::read_to_string(shell::root().join("LICENSE"))?;
    let layout = tree::Layout {
        zsh: "usr/share/zsh/site-functions",
        licence: ("usr/share/licenses/mcpinspectd/LICENSE", licence),
    };
    tree::stage(package, &root, &layout)?;
    pack(package, &root, &name)
}

/// Builds the static program and packs it with its manual pages.
pub(super) fn single(package: &Package) -> Result<PathBuf> {
    let own = Build {
        libc: Libc::Musl,
        ..package.build.clone()
    };
    own.prepare()?;
    own.run(&["--package", "mcpinspect", "--bin", "mcpinspect"])?;
    let program = own.folder().join("mcpinspect");
    ensure!(is_static(&program)?, "the program is not static");
    say("packing the static program");
    let name = format!("mcpinspect-{}-{}-linux", package.version, own.machine);
    let root = package.folder.join("static").join(&name);
    let _ = fs::remove_dir_all(&root);
    let to = root.join("bin/mcpinspect");
    files::install(&program, &to, 0o755)?;
    symbols::strip(&own, &to)?;
    files::install(&shell::root().join("LICENSE"), &root.join("LICENSE"), 0o644)?;
    for page in files::listed(&package.manual.join("man"))? {
        if is_of_mcpinspect(&page) {
            let man = root.join("share/man/man1");
            files::install(&page, &files::into(&man, &page), 0o644)?;
        }
    }
    files::modes(&root)?;
    pack(package, &root, &name)
}

fn is_static(program: &Path) -> Result<bool> {
    setup::programs(&[("readelf", "binutils")])?;
    let headers = shell::output(
        Command::new("readelf")
            .arg("--program-headers")
            .arg(program),
    )?;
    Ok(!headers.contains("INTERP"))
}

/// Whether a manual page is about `mcpinspect` or one of its commands.
fn is_of_mcpinspect(page: &Path) -> bool {
    let name = page.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    name == "mcpinspect" || name.starts_with("mcpinspect-") && name != "mcpinspect-notify"
}

/// Packs a folder so that the same files always result in the same archive.
fn pack(package: &Package, root: &Path, name: &str) -> Result<PathBuf> {
    setup::programs(&[("tar", "tar"), ("gzip", "gzip")])?;
    let made = package.folder.join(format!("{name}.tar.gz"));
    let time = shell::commit_time().unwrap_or_else(|| "0".to_owned());
    let mut pack = Command::new("tar");
    pack.args(["--create", "--sort=name", "--format=gnu"]);
    pack.args(["--owner=0", "--group=0", "--numeric-owner"]);
    pack.arg(format!("--mtime=@{time}"));
    pack.args(["--use-compress-program", "gzip -9 -n", "--file"]);
    pack.arg(&made);
    pack.arg("--directory");
    pack.arg(root.parent().unwrap_or(root)).arg(name);
    shell::run(&mut pack)?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_of_mcpinspect;

    #[test]
    fn the_static_program_comes_with_its_own_pages() {
        for (page, own) in [
            ("man/mcpinspect.1", true),
            ("man/mcpinspect-fleet-load.1", true),
            ("man/mcpinspect-notify.1", false),
            ("man/mcpinspectd.8", false),
            ("man/mcpinspectd-run.8", false),
        ] {
            assert_eq!(is_of_mcpinspect(Path::new(page)), own, "{page}");
        }
    }
}
