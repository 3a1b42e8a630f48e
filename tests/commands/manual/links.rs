//! Every link in the papers leads somewhere, and every file that they name is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use mcpinspect_tests::places::repository;

use super::papers;

/// Folders of the repository that papers name files in.
const FOLDERS: [&str; 8] = [
    "mcpinspectd/",
    "mcpinspectd-ebpf/",
    "mcpinspect-common/",
    "packaging/",
    "systemd/",
    "tests/",
    "xtask/",
    ".github/",
];

#[test]
fn every_relative_link_leads_somewhere() {
    let mut broken = Vec::new();
    let mut links = 0;
    for paper in papers() {
        let text = prose(&fs::read_to_string(repository().join(&paper)).unwrap());
        for target in targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = match file {
                "" => paper.clone(),
                file => straight(&paper.with_file_name(file)),
            };
            let found = repository().join(&to);
            let reached = found.exists()
                && (anchor.is_empty()
                    || anchors(&fs::read_to_string(found).unwrap()).contains(anchor));
            if !reached {
                broken.push(format!("{}: {target}", paper.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(links > 30, "{links}");
}

/// A path in code font is a file or folder of the repository.
#[test]
fn every_file_that_is_named_exists() {
    let mut missing = Vec::new();
    for paper in papers() {
        let text = prose(&fs::read_to_string(repository().join(&paper)).unwrap());
        for name in text.split('`').skip(1).step_by(2) {
            let is_path = FOLDERS.iter().any(|folder| name.starts_with(folder))
                && !name.contains(|c: char| c.is_whitespace() || "*{<…".contains(c));
            if is_path && !repository().join(name).exists() {
                missing.push(format!("{}: {name}", paper.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The tests that SECURITY.md names as evidence exist.
#[test]
fn every_test_that_is_named_exists() {
    let text = fs::read_to_string(repository().join("SECURITY.md")).unwrap();
    let is_test = |name: &&str| {
        name.matches('_').count() > 2 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    let named: Vec<_> = text.split('`').skip(1).step_by(2).filter(is_test).collect();
    assert!(named.len() > 5, "{named:?}");
    let mut sources = String::new();
    let mut folders = vec![repository().join("tests"), repository().join("mcpinspectd")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    let missing: Vec<_> = named
        .iter()
        .filter(|name| !sources.contains(&format!("fn {name}(")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A text without its code blocks.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// What links and pictures point to, in Markdown and HTML.
fn targets(text: &str) -> Vec<&str> {
    let after = |opening: &'static str, closing: char| {
        text.split(opening)
            .skip(1)
            .filter_map(move |rest| rest.split(closing).next())
    };
    after("](", ')')
        .chain(after("src=\"", '"'))
        .chain(after("href=\"", '"'))
        .collect()
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

/// The anchors of a text's headings, as a forge makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        code ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !code) else {
            continue;
        };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    anchors
}
