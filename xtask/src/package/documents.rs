//! The manual in `/usr/share/doc`: the repository's documents that concern a user.
//!
//! They are closer together there, and some are left out. So links are changed to where their
//! targets are installed; a link to a file that is not installed becomes plain text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use super::files;
use crate::shell;

/// Where the manual is installed, from the root of the file system.
const PLACE: &str = "usr/share/doc/mcpinspectd";

/// Documents besides the chapters.
const PAPERS: [&str; 3] = ["README.md", "SECURITY.md", "CHANGELOG.md"];

/// The chapters.
const CHAPTERS: &str = "mcpinspectd/docs";

/// Examples of how a fleet's events are shipped.
const EXAMPLES: &str = "packaging/fleet";

/// Writes the manual below `root`.
pub(super) fn stage(root: &Path) -> Result<()> {
    let places = places()?;
    for (from, to) in &places {
        let source = shell::root().join(from);
        let target = root.join(PLACE).join(to);
        if from.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
            files::write(&target, &moved(&text, from, to, &places))?;
        } else {
            files::install(&source, &target, 0o644)?;
        }
    }
    Ok(())
}

/// Each file's place in the repository, and its place in the manual.
fn places() -> Result<BTreeMap<PathBuf, PathBuf>> {
    let mut places: BTreeMap<PathBuf, PathBuf> = PAPERS
        .iter()
        .map(|name| (PathBuf::from(name), PathBuf::from(name)))
        .collect();
    let root = shell::root();
    for folder in [
        CHAPTERS,
        "mcpinspectd/docs/pictures",
        "mcpinspectd/docs/policies",
    ] {
        for path in files::listed(&root.join(folder))? {
            if path.is_file() {
                let from = path.strip_prefix(&root)?.to_owned();
                let to = Path::new("docs").join(from.strip_prefix(CHAPTERS)?);
                places.insert(from, to);
            }
        }
    }
    for path in files::listed(&root.join(EXAMPLES))? {
        let from = path.strip_prefix(&root)?.to_owned();
        let to = Path::new("fleet").join(from.strip_prefix(EXAMPLES)?);
        places.insert(from, to);
    }
    Ok(places)
}

/// The text of the file `from`, with links that work from `to`.
fn moved(text: &str, from: &Path, to: &Path, places: &BTreeMap<PathBuf, PathBuf>) -> String {
    let target = |link: &str| -> Option<String> {
        if link.contains("://") || link.starts_with('#') {
            return Some(link.to_owned());
        }
        let (file, anchor) = link
            .split_once('#')
            .map_or((link, None), |(f, a)| (f, Some(a)));
        let there = places.get(&straight(&from.with_file_name(file)))?;
        let path = relative(to.parent()?, there);
        let path = path.display();
        Some(anchor.map_or_else(|| path.to_string(), |anchor| format!("{path}#{anchor}")))
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(end) = rest.find("](") {
        let (before, after) = rest.split_at(end);
        let Some((link, after)) = after["](".len()..].split_once(')') else {
            break;
        };
        match (target(link), before.rfind('[')) {
            (None, Some(start)) => {
                out.push_str(&before[..start]);
                out.push_str(&before[start + 1..]);
            }
            (target, _) => {
                out.push_str(before);
                out.push_str(&format!("]({})", target.as_deref().unwrap_or(link)));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    // Pictures with a width are HTML.
    let mut parts = out.split("src=\"");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (link, after) = part.split_once('"').unwrap_or((part, ""));
        let link = target(link).unwrap_or_else(|| link.to_owned());
        whole.push_str(&format!("src=\"{link}\"{after}"));
    }
    whole
}

/// A path without `..`.
fn straight(path: &Path) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                straight.pop();
            }
            part => straight.push(part),
        }
    }
    straight
}

/// The path from the folder `from` to `to`.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(one, other)| one == other)
        .count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_where_files_are_installed() {
        let places = [
            ("README.md", "README.md"),
            ("mcpinspectd/docs/a.md", "docs/a.md"),
            ("mcpinspectd/docs/pictures/p.png", "docs/pictures/p.png"),
        ];
        let places: BTreeMap<_, _> = places
            .iter()
            .map(|(from, to)| (PathBuf::from(from), PathBuf::from(to)))
            .collect();
        let moved = |text, from: &str| {
            let from = Path::new(from);
            moved(text, from, &places[from], &places)
        };
        assert_eq!(
            moved(
                "see [A](mcpinspectd/docs/a.md#b), [C](CONTRIBUTING.md) and [web](https://x.y/z)",
                "README.md"
            ),
            "see [A](docs/a.md#b), C and [web](https://x.y/z)"
        );
        assert_eq!(
            moved("[R](../../README.md) [x](#here)", "mcpinspectd/docs/a.md"),
            "[R](../README.md) [x](#here)"
        );
        assert_eq!(
            moved(
                "<img src=\"mcpinspectd/docs/pictures/p.png\" width=\"1\">",
                "README.md"
            ),
            "<img src=\"docs/pictures/p.png\" width=\"1\">"
        );
    }

    /// The installed manual has no broken links.
    #[test]
    fn the_manual_has_no_broken_links() -> Result<()> {
        let root = std::env::temp_dir().join(format!("manual-{}", std::process::id()));
        stage(&root)?;
        let manual = root.join(PLACE);
        let mut broken = Vec::new();
        for folder in [manual.clone(), manual.join("docs")] {
            for path in files::listed(&folder)? {
                let Ok(text) = fs::read_to_string(&path) else {
                    continue;
                };
                let links = text
                    .split("](")
                    .skip(1)
                    .filter_map(|rest| rest.split(')').next());
                for link in links.filter(|link| !link.contains("://")) {
                    let file = link.split('#').next().unwrap_or_default();
                    if !file.is_empty() && !path.with_file_name(file).exists() {
                        broken.push(format!("{}: {link}", path.display()));
                    }
                }
            }
        }
        fs::remove_dir_all(&root)?;
        assert!(broken.is_empty(), "{broken:#?}");
        Ok(())
    }
}
