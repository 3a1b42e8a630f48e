//! The Debian package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use super::contents::{Package, Symbols};
use super::{files, tree};
use crate::shell::{self, say};

/// Scripts that run around installation and removal.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// How packages for people are compressed.
const COMPRESSION: &[&str] = &["-Zxz", "-z6"];

/// Builds the package of the programs and, if there are any, that of their symbols.
pub(super) fn build(package: &Package) -> Result<Vec<PathBuf>> {
    say("packing for Debian");
    let mut made = vec![programs(package)?];
    if let Some(symbols) = &package.symbols {
        made.push(debug_symbols(package, symbols)?);
    }
    Ok(made)
}

fn programs(package: &Package) -> Result<PathBuf> {
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
    let control = control(package, &root, "control")?.replace("@GLIBC@", &package.glibc);
    let about = root.join("DEBIAN");
    files::write(&about.join("control"), &control)?;
    for list in ["conffiles", "triggers"] {
        files::write(&about.join(list), &fs::read_to_string(source.join(list))?)?;
    }
    files::set_mode(&about, 0o755)?;
    for script in SCRIPTS {
        files::install(&source.join(script), &about.join(script), 0o755)?;
    }
    let made = package.folder.join(name(package, "mcpinspectd"));
    pack(package, &root, &made)?;
    Ok(made)
}

/// Builds the package of symbols, as Debian's own tools name and describe it.
fn debug_symbols(package: &Package, symbols: &Symbols) -> Result<PathBuf> {
    let root = &symbols.root;
    let control = control(package, root, "control-symbols")?
        .replace("@BUILD_IDS@", &symbols.build_ids.join(" "));
    let about = root.join("DEBIAN");
    files::write(&about.join("control"), &control)?;
    files::set_mode(&about, 0o755)?;
    let made = package.symbols_file(&name(package, "mcpinspectd-dbgsym"))?;
    pack(package, root, &made)?;
    // The tree is also for packages in other formats.
    fs::remove_dir_all(about)?;
    Ok(made)
}

fn version(package: &Package) -> String {
    format!("{}-{}", package.version, package.revision)
}

fn name(package: &Package, of: &str) -> String {
    let architecture = package.build.machine.debian();
    format!("{of}_{}_{architecture}.deb", version(package))
}

/// A control file, with what every package of ours says filled in.
fn control(package: &Package, root: &Path, template: &str) -> Result<String> {
    let template = shell::root().join("packaging/deb").join(template);
    Ok(fs::read_to_string(template)?
        .replace("@VERSION@", &version(package))
        .replace("@ARCHITECTURE@", package.build.machine.debian())
        .replace("@SIZE@", &files::size(root)?.to_string()))
}

fn pack(package: &Package, root: &Path, to: &Path) -> Result<()> {
    let mut pack = Command::new("dpkg-deb");
    pack.arg("--root-owner-group");
    pack.args(if package.quick {
        &["-Zgzip", "-z1"][..]
    } else {
        COMPRESSION
    });
    pack.arg("--build").arg(root).arg(to);
    if let Some(time) = shell::commit_time() {
        pack.env("SOURCE_DATE_EPOCH", time);
    }
    shell::run(pack.stdout(Stdio::null()))
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
