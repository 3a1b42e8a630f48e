//! The components of the programs, in CycloneDX's format: for scanners that look for known flaws.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::contents::{PROGRAMS, Package};
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
    list.arg(shell::root().join("Cargo.toml"));
    if let Some(time) = shell::commit_time() {
        list.env("SOURCE_DATE_EPOCH", time);
    }
    shell::run(&mut list)?;
    // It writes next to every package's manifest.
    let mut merged: Option<Value> = None;
    for (package, folder) in members()? {
        let written = folder.join(format!("{file}.json"));
        if PROGRAMS.contains(&package.as_str()) {
            let text = fs::read_to_string(&written)
                .with_context(|| format!("{name} wrote no {}", written.display()))?;
            let list = serde_json::from_str(&text)?;
            match &mut merged {
                None => merged = Some(list),
                Some(merged) => merge(merged, list),
            }
        }
        let _ = fs::remove_file(written);
    }
    let merged = merged.context("no program is a package")?;
    let made = package.folder.join(format!("{file}.json"));
    fs::write(&made, same_everywhere(merged)?)?;
    Ok(made)
}

/// The packages of the workspace, by name, and their folders.
fn members() -> Result<Vec<(String, PathBuf)>> {
    let mut metadata = shell::cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&shell::output(&mut metadata)?)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let member = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        Some((
            package["name"].as_str()?.to_owned(),
            manifest.parent()?.to_owned(),
        ))
    };
    Ok(packages.iter().filter_map(member).collect())
}

/// Adds the components and dependencies of another program that are not listed yet.
fn merge(list: &mut Value, other: Value) {
    for (part, key) in [("components", "bom-ref"), ("dependencies", "ref")] {
        let (Some(own), Some(others)) = (list[part].as_array_mut(), other[part].as_array()) else {
            continue;
        };
        let known: HashSet<Value> = own.iter().map(|entry| entry[key].clone()).collect();
        let new = others.iter().filter(|entry| !known.contains(&entry[key]));
        own.extend(new.cloned());
        own.sort_by_key(|entry| entry[key].as_str().map(str::to_owned));
    }
}

/// Removes what differs between two lists of the same components: a random number, and this folder.
fn same_everywhere(mut list: Value) -> Result<String> {
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

    use serde_json::json;

    #[test]
    fn what_two_programs_share_is_listed_once() {
        let mut list = json!({"components": [{"bom-ref": "b"}], "dependencies": [{"ref": "b"}]});
        let other = json!({"components": [{"bom-ref": "b"}, {"bom-ref": "a"}], "dependencies": []});
        super::merge(&mut list, other);
        let all = json!([{"bom-ref": "a"}, {"bom-ref": "b"}]);
        assert_eq!(list["components"], all);
    }

    #[test]
    fn a_list_does_not_say_where_it_was_made() {
        let text = r#"{"ref": "path+file:///home/ada/mcpinspectd/mcpinspectd#0.1.0"}"#;
        let clean = super::without(text, Path::new("/home/ada/mcpinspectd"));
        assert_eq!(clean, r#"{"ref": "path+file:///mcpinspectd#0.1.0"}"#);
    }
}
