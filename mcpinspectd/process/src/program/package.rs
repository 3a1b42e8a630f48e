//! The package that a script belongs to, by its location.
//!
//! A package's name is that of the folder in which its manager installed it; its version is what the
//! manager wrote beside it. Both belong to the server's user, so this distinguishes an update from
//! a different product; it does not prove the origin.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::found_file::FoundFile;
use crate::root::Root;

/// Largest `package.json` to read, in bytes.
const MANIFEST: u64 = 1 << 20;
/// Longest version to keep.
const VERSION: usize = 64;

/// A package.
#[derive(Debug)]
pub(super) struct Package {
    /// The manager and the name, such as `npm:@scope/name`.
    pub(super) name: String,
    /// Its version.
    pub(super) version: Option<String>,
    /// The manager's list of its files with their hashes, if there is one.
    pub(super) contents: Option<FoundFile>,
}

/// The package that the script at `path` belongs to.
pub(super) fn of_script(root: &Root, path: &Path) -> Option<Package> {
    node(root, path).or_else(|| {
        let folder = path.parent().filter(|folder| folder.ends_with("bin"))?;
        python(root, folder.parent()?, path.file_stem()?.to_str()?)
    })
}

/// The package whose folder in `node_modules` contains a script.
fn node(root: &Root, path: &Path) -> Option<Package> {
    #[derive(Deserialize)]
    struct Manifest {
        version: Option<String>,
    }
    let parts: Vec<_> = path.components().collect();
    let at = parts
        .iter()
        .rposition(|part| part.as_os_str() == "node_modules")?;
    let first = parts.get(at + 1)?.as_os_str().to_str()?;
    let (name, depth) = match first.strip_prefix('@') {
        Some(_) => {
            let second = parts.get(at + 2)?.as_os_str().to_str()?;
            (format!("{first}/{second}"), 3)
        }
        None => (first.to_owned(), 2),
    };
    // A script directly in `node_modules` belongs to no package.
    parts.get(at + depth)?;
    let folder: PathBuf = parts[..at + depth].iter().collect();
    let manifest = root
        .read(&folder.join("package.json"), MANIFEST)
        .and_then(|text| serde_json::from_slice::<Manifest>(&text).ok());
    Some(Package {
        name: format!("npm:{name}"),
        version: manifest.and_then(|manifest| bounded(manifest.version?)),
        contents: None,
    })
}

/// The Python package of a command or module of this name that is installed below `prefix`.
pub(super) fn python(root: &Root, prefix: &Path, name: &str) -> Option<Package> {
    let wanted = normal(name.split('.').next().unwrap_or(name));
    let libraries = prefix.join("lib");
    let versions = root.names(&libraries);
    let mut versions: Vec<&String> = versions
        .iter()
        .filter(|name| name.starts_with("python3"))
        .collect();
    versions.sort();
    versions.iter().find_map(|version| {
        let packages = libraries.join(version).join("site-packages");
        root.names(&packages).iter().find_map(|entry| {
            let (name, version) = entry.strip_suffix(".dist-info")?.rsplit_once('-')?;
            if normal(name) != wanted {
                return None;
            }
            Some(Package {
                name: format!("pypi:{wanted}"),
                version: bounded(version.to_owned()),
                contents: root.open(&packages.join(entry).join("RECORD")),
            })
        })
    })
}

/// A Python package's name in the form in which the package index compares names.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

fn bounded(version: String) -> Option<String> {
    (!version.is_empty() && version.len() <= VERSION).then_some(version)
}
