//! A folder that apt and dnf install from, once a web server or a shared disk offers it.
//!
//! Packages of earlier versions that are in the folder stay, so that machines can go back; the
//! indexes are rewritten each time. The distributions' own programs write them. What a repository
//! says is only as good as its signature: without a key the indexes are unsigned, and apt refuses
//! them unless it is told to trust the place.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::build::Machine;
use super::files;
use crate::setup;
use crate::shell::{self, say};

/// The one suite: there is no other line of versions.
const SUITE: &str = "stable";

/// The machines that a repository has packages for.
const MACHINES: [Machine; 2] = [Machine::X86_64, Machine::Aarch64];

/// Adds the packages to the repository at `place`, and signs it with the key if there is one.
pub(super) fn add(packages: &[PathBuf], place: &Path, key: Option<&Key>) -> Result<()> {
    setup::programs(&[
        ("apt-ftparchive", "apt-utils"),
        ("createrepo_c", "createrepo-c"),
        ("gzip", "gzip"),
    ])?;
    if key.is_some() {
        setup::programs(&[("gpg", "gnupg")])?;
    }
    say(&format!("writing the repository {}", place.display()));
    for package in packages {
        let ending = package.extension().unwrap_or_default();
        if ending == "deb" {
            let pool = place.join("apt/pool/main/m/mcpinspectd");
            files::install(package, &files::into(&pool, package), 0o644)?;
        } else if ending == "rpm" {
            let machine = package.file_stem().map(Path::new).and_then(Path::extension);
            let machine = machine.context("a package without a machine in its name")?;
            let folder = place.join("rpm").join(machine);
            files::install(package, &files::into(&folder, package), 0o644)?;
        }
    }
    if place.join("apt/pool").is_dir() {
        apt(&place.join("apt"), key)?;
    }
    for machine in MACHINES {
        let folder = place.join("rpm").join(machine.name());
        if folder.is_dir() {
            rpm(&folder, key)?;
        }
    }
    if let Some(key) = key {
        let mut export = key.gpg();
        export.args(["--armor", "--output"]);
        export.arg(place.join("mcpinspectd.asc"));
        shell::run(export.args(["--export", &key.name]))?;
    }
    Ok(())
}

/// The indexes that apt reads.
fn apt(root: &Path, key: Option<&Key>) -> Result<()> {
    let dist = root.join("dists").join(SUITE);
    let _ = fs::remove_dir_all(&dist);
    let mut architectures = Vec::new();
    for machine in MACHINES {
        let mut scan = Command::new("apt-ftparchive");
        scan.args(["--arch", machine.debian(), "packages", "pool"]);
        let index = shell::output(scan.current_dir(root))?;
        if index.is_empty() {
            continue;
        }
        let folder = dist.join(format!("main/binary-{}", machine.debian()));
        files::write(&folder.join("Packages"), &index)?;
        let mut pack = Command::new("gzip");
        pack.args(["--keep", "-9", "-n"])
            .arg(folder.join("Packages"));
        shell::run(&mut pack)?;
        architectures.push(machine.debian());
    }
    let mut release = Command::new("apt-ftparchive");
    for (name, value) in [
        ("Origin", "mcpinspectd"),
        ("Label", "mcpinspectd"),
        ("Suite", SUITE),
        ("Codename", SUITE),
        ("Components", "main"),
        ("Architectures", &architectures.join(" ")),
    ] {
        release.arg("-o");
        release.arg(format!("APT::FTPArchive::Release::{name}={value}"));
    }
    let text = shell::output(release.arg("release").arg(&dist))?;
    let release = dist.join("Release");
    files::write(&release, &text)?;
    if let Some(key) = key {
        sign(key, "--clearsign", &release, &dist.join("InRelease"))?;
        sign(key, "--detach-sign", &release, &dist.join("Release.gpg"))?;
    }
    Ok(())
}

/// The indexes that dnf reads.
fn rpm(folder: &Path, key: Option<&Key>) -> Result<()> {
    let mut index = Command::new("createrepo_c");
    index
        .args(["--quiet", "--general-compress-type=gz"])
        .arg(folder);
    // As old as the newest package and not as this moment, so that equal packages make equal indexes.
    index.args(["--set-timestamp-to-revision", "--revision"]);
    index.arg(shell::commit_time().unwrap_or_else(|| "0".to_owned()));
    shell::run(index.stdout(Stdio::null()))?;
    let metadata = folder.join("repodata/repomd.xml");
    let signature = folder.join("repodata/repomd.xml.asc");
    match key {
        Some(key) => sign(key, "--detach-sign", &metadata, &signature),
        None => Ok(()),
    }
}

fn sign(key: &Key, how: &str, file: &Path, signature: &Path) -> Result<()> {
    let mut gpg = key.gpg();
    gpg.args(["--armor", "--local-user", &key.name, how]);
    gpg.arg("--output").arg(signature).arg(file);
    shell::run(&mut gpg).with_context(|| format!("cannot sign with the key {}", key.name))
}

/// A GnuPG key.
#[derive(Clone, Debug)]
pub(super) struct Key {
    name: String,
    /// Where it is, unless among the user's own.
    home: Option<PathBuf>,
}

impl Key {
    /// One of the user's, by its id, its fingerprint or its owner.
    pub(super) fn of_the_user(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            home: None,
        }
    }

    /// One for the tests' repository, made for that purpose and without a password.
    pub(super) fn for_tests() -> Result<Self> {
        setup::programs(&[("gpg", "gnupg")])?;
        let home = shell::target().join("package/dev/keys");
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home)?;
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700))?;
        let key = Self {
            name: "mcpinspectd tests".to_owned(),
            home: Some(home),
        };
        let mut make = key.gpg();
        make.args(["--quiet", "--passphrase", "", "--quick-gen-key", &key.name]);
        shell::run(make.args(["ed25519", "sign", "never"]))?;
        Ok(key)
    }

    fn gpg(&self) -> Command {
        let mut gpg = Command::new("gpg");
        gpg.args(["--batch", "--yes"]);
        if let Some(home) = &self.home {
            gpg.arg("--homedir").arg(home);
        }
        gpg
    }
}
