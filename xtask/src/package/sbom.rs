//! The components of the programs, in CycloneDX's format: for scanners that look for known flaws.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::contents::Package;
use crate::setup;
use crate::shell::{self, say};

/// The program that writes it.
const CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// Writes the list of components of the programs in this package.
pub(super) fn write(package: &Package) -> Result<PathBuf> {
    let (name, version) = CYCLONEDX;
    setup::cargo_program(name, version, "it lists the components of the programs")?;
    say("listing the components of the programs");
    let file = format!(
        "mcpinspectd-{}-{}.cdx",
        package.version, package.build.machine
    );
    let triple = format!("{}-unknown-linux-gnu", package.build.machine);
    let mut list = shell::cargo();
    list.args(["cyclonedx", "--format", "json", "--spec-version", "1.5"]);
    list.args([
        "--target",
        &triple,
        "--no-build-deps",
        "--override-filename",
        &file,
    ]);
    list.arg("--manifest-path");
    list.arg(shell::root().join("mcpinspectd/Cargo.toml"));
    if let Some(time) = shell::commit_time() {
        list.env("SOURCE_DATE_EPOCH", time);
    }
    shell::run(&mut list)?;
    // It writes next to every package's manifest.
    let made = package.folder.join(format!("{file}.json"));
    for member in ["mcpinspectd", "mcpinspect-common", "xtask", "tests"] {
        let written = shell::root().join(member).join(format!("{file}.json"));
        if member == "mcpinspectd" {
            let text = fs::read_to_string(&written)
                .with_context(|| format!("{name} wrote no {}", written.display()))?;
            fs::write(&made, same_everywhere(&text)?)?;
        }
        let _ = fs::remove_file(written);
    }
    Ok(made)
}

/// Removes what differs between two lists of the same components: a random number, and this folder.
fn same_everywhere(text: &str) -> Result<String> {
    let mut list: Value = serde_json::from_str(text)?;
    if let Some(list) = list.as_object_mut() {
        list.remove("serialNumber");
    }
    let text = serde_json::to_string_pretty(&list)?;
    Ok(without(&text, &shell::root()) + "\n")
}

fn without(text: &str, folder: &Path) -> String {
    text.replace(&format!("file://{}", folder.display()), "file://")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn a_list_does_not_say_where_it_was_made() {
        let text = r#"{"ref": "path+file:///home/ada/mcpinspectd/mcpinspectd#0.1.0"}"#;
        let clean = super::without(text, Path::new("/home/ada/mcpinspectd"));
        assert_eq!(clean, r#"{"ref": "path+file:///mcpinspectd#0.1.0"}"#);
    }
}
