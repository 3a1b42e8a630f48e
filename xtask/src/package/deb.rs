//! The Debian package.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::contents::Package;
use super::{files, tree};
use crate::shell::{self, say};

/// Scripts that run around installation and removal.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// Builds the package.
pub(super) fn build(package: &Package) -> Result<PathBuf> {
    say("packing for Debian");
    let source = shell::root().join("packaging/deb");
    let root = package.folder.join("deb");
    let licence = fs::read_to_string(shell::root().join("LICENSE"))?;
    let copyright = fs::read_to_string(shell::root().join("packaging/copyright"))?;
    let layout = tree::Layout {
        zsh: "usr/share/zsh/vendor-completions",
        licence: (
            "usr/share/doc/mcpinspectd/copyright",
            copyright.replace("@LICENSE@", &field(&licence)),
        ),
    };
    tree::stage(package, &root, &layout)?;
    let size = files::installed(&root)?
        .iter()
        .map(|file| {
            let below = file.strip_prefix("/").unwrap_or(file);
            Ok(fs::metadata(root.join(below))?.len().div_ceil(1024))
        })
        .sum::<Result<u64>>()?;
    let architecture = package.build.machine.debian();
    let version = format!("{}-{}", package.version, package.revision);
    let control = fs::read_to_string(source.join("control"))?
        .replace("@VERSION@", &version)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@SIZE@", &size.to_string())
        .replace("@GLIBC@", &package.glibc);
    let about = root.join("DEBIAN");
    files::write(&about.join("control"), &control)?;
    for list in ["conffiles", "triggers"] {
        files::write(&about.join(list), &fs::read_to_string(source.join(list))?)?;
    }
    fs::set_permissions(&about, fs::Permissions::from_mode(0o755))?;
    for script in SCRIPTS {
        let to = about.join(script);
        fs::copy(source.join(script), &to).with_context(|| (*script).to_owned())?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
    }
    let made = package
        .folder
        .join(format!("mcpinspectd_{version}_{architecture}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.arg("--root-owner-group");
    pack.args(if package.quick {
        ["-Zgzip", "-z1"]
    } else {
        ["-Zxz", "-z6"]
    });
    pack.arg("--build").arg(&root).arg(&made);
    if let Some(time) = shell::commit_time() {
        pack.env("SOURCE_DATE_EPOCH", time);
    }
    shell::run(pack.stdout(Stdio::null()))?;
    Ok(made)
}

/// Formats text as the continuation of a field: lines indented, empty ones as a dot.
fn field(text: &str) -> String {
    let lines = text.trim_end().lines().map(|line| match line.trim_end() {
        "" => " .".to_owned(),
        line => format!(" {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn texts_become_fields() {
        assert_eq!(field("One\n\n  two  \n"), " One\n .\n   two");
        assert_eq!(field(""), "");
    }
}
