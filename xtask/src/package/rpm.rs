//! The package for Fedora, RHEL and openSUSE.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;

use super::contents::Package;
use super::{files, tree};
use crate::shell::{self, say};

/// Builds the package.
pub(super) fn build(package: &Package) -> Result<PathBuf> {
    say("packing for Fedora and RHEL");
    let root = package.folder.join("rpm");
    let licence = fs::read_to_string(shell::root().join("LICENSE"))?;
    let layout = tree::Layout {
        zsh: "usr/share/zsh/site-functions",
        licence: ("usr/share/licenses/mcpinspectd/LICENSE", licence),
    };
    tree::stage(package, &root, &layout)?;
    let files = package.folder.join("rpm-files");
    fs::write(&files, listing(&files::installed(&root)?))?;
    let mut pack = Command::new("rpmbuild");
    pack.arg("-bb").arg("--quiet");
    pack.arg("--target").arg(package.build.machine.name());
    for (name, value) in [
        (
            "_topdir",
            package.folder.join("rpmbuild").display().to_string(),
        ),
        ("_rpmdir", package.folder.display().to_string()),
        (
            "_rpmfilename",
            "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm".to_owned(),
        ),
        ("package_tree", root.display().to_string()),
        ("package_files", files.display().to_string()),
        ("package_version", package.version.clone()),
        ("package_release", package.revision.to_string()),
        (
            "_binary_payload",
            if package.quick {
                "w1.gzdio"
            } else {
                "w19.zstdio"
            }
            .to_owned(),
        ),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
    ] {
        pack.arg("--define").arg(format!("{name} {value}"));
    }
    pack.arg(shell::root().join("packaging/rpm/mcpinspectd.spec"));
    if let Some(time) = shell::commit_time() {
        pack.env("SOURCE_DATE_EPOCH", time);
    }
    shell::run(pack.stdout(Stdio::null()))?;
    Ok(package.folder.join(format!(
        "mcpinspectd-{}-{}.{}.rpm",
        package.version, package.revision, package.build.machine
    )))
}

/// The list of files for the spec file, with the directories that belong to this package alone.
fn listing(files: &[PathBuf]) -> String {
    let mut list = "%defattr(-,root,root)\n".to_owned();
    for directory in [
        "/etc/mcpinspectd",
        "/etc/mcpinspectd/policy.d",
        "/etc/mcpinspectd/rules.d",
        "/usr/lib/mcpinspectd",
        "/usr/share/doc/mcpinspectd",
        "/usr/share/doc/mcpinspectd/docs",
        "/usr/share/doc/mcpinspectd/docs/pictures",
        "/usr/share/doc/mcpinspectd/docs/policies",
        "/usr/share/doc/mcpinspectd/fleet",
        "/usr/share/licenses/mcpinspectd",
    ] {
        let _ = writeln!(list, "%dir {directory}");
    }
    for file in files {
        let kind = if file.starts_with("/etc") {
            "%config(noreplace) "
        } else if file.starts_with("/usr/share/doc") || file.starts_with("/usr/share/man") {
            "%doc "
        } else if file.starts_with("/usr/share/licenses") {
            "%license "
        } else {
            ""
        };
        let _ = writeln!(list, "{kind}{}", file.display());
    }
    list
}

#[cfg(test)]
mod tests {
    use super::listing;

    #[test]
    fn settings_survive_upgrades() {
        let list = listing(&["/etc/mcpinspectd/config.toml".into(), "/usr/bin/a".into()]);
        assert!(list.contains("\n%config(noreplace) /etc/mcpinspectd/config.toml\n"));
        assert!(list.ends_with("\n/usr/bin/a\n"));
    }
}
