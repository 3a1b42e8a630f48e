//! The package for Fedora, RHEL and openSUSE.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use super::contents::Package;
use super::{files, tree};
use crate::shell::{self, say};

/// The first line of every list of files: they belong to root, with the modes that they have.
const ATTRIBUTES: &str = "%defattr(-,root,root)\n";

/// How packages for people are compressed.
const COMPRESSION: &str = "w19.zstdio";

/// Builds the package of the programs and, if there are any, that of their symbols.
pub(super) fn build(package: &Package) -> Result<Vec<PathBuf>> {
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
    let mut define = |name: &str, value: &str| {
        pack.arg("--define").arg(format!("{name} {value}"));
    };
    let path = |path: &Path| path.display().to_string();
    define("_topdir", &path(&package.folder.join("rpmbuild")));
    define("_rpmdir", &path(&package.folder));
    // Doubled, so that it means each package's name and not the spec file's.
    define(
        "_rpmfilename",
        "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
    );
    define("package_tree", &path(&root));
    define("package_files", &path(&files));
    define("package_version", &package.version);
    define("package_release", &package.revision.to_string());
    if let Some(symbols) = &package.symbols {
        let files = package.folder.join("rpm-symbols-files");
        fs::write(
            &files,
            listing_of_symbols(&files::installed(&symbols.root)?),
        )?;
        define("package_symbols", &path(&symbols.root));
        define("package_symbols_files", &path(&files));
    }
    let fast = "w1.gzdio";
    let payload = if package.quick { fast } else { COMPRESSION };
    define("_binary_payload", payload);
    define("use_source_date_epoch_as_buildtime", "1");
    define("clamp_mtime_to_source_date_epoch", "1");
    pack.arg(shell::root().join("packaging/rpm/mcpinspectd.spec"));
    if let Some(time) = shell::commit_time() {
        pack.env("SOURCE_DATE_EPOCH", time);
    }
    shell::run(pack.stdout(Stdio::null()))?;
    let mut made = vec![package.folder.join(name(package, "mcpinspectd"))];
    if package.symbols.is_some() {
        // rpmbuild writes all packages into one folder.
        let name = name(package, "mcpinspectd-debuginfo");
        let to = package.symbols_file(&name)?;
        fs::rename(package.folder.join(name), &to)?;
        made.push(to);
    }
    Ok(made)
}

fn name(package: &Package, of: &str) -> String {
    format!(
        "{of}-{}-{}.{}.rpm",
        package.version, package.revision, package.build.machine
    )
}

/// The list of files for the package of symbols.
fn listing_of_symbols(files: &[PathBuf]) -> String {
    let mut list = ATTRIBUTES.to_owned();
    for file in files {
        let _ = writeln!(list, "{}", file.display());
    }
    list
}

/// The list of files for the spec file, with the directories that belong to this package alone.
fn listing(files: &[PathBuf]) -> String {
    let mut list = ATTRIBUTES.to_owned();
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
