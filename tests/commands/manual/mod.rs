//! The manual below `docs/` says what the programs do.
//!
//! Reference chapters are generated: the fields of events come from the JSON schemas, their examples
//! and journal fields from the code, the D-Bus interfaces from the introspection that the packages
//! ship. What people wrote by hand is held to the programs: every link leads somewhere, every command
//! and option exists, every example of a configuration is accepted.
//!
//! `cargo xtask docs` writes the generated parts anew.

use std::fs;
use std::path::{Path, PathBuf};

use mcpinspect_tests::places::repository;

mod commands;
mod dbus;
mod events;
mod links;
mod settings;

/// The variable that has generated parts written instead of compared.
const UPDATE: &str = "UPDATE_MANUAL";

/// Holds the part of a chapter between two marker comments to what it has to be.
fn generated(chapter: &str, part: &str, text: &str) {
    let path = repository().join("mcpinspectd/docs").join(chapter);
    let whole = fs::read_to_string(&path).unwrap();
    let begin = format!("<!-- generated: {part} -->\n");
    let end = format!("<!-- end of {part} -->");
    let (before, rest) = whole
        .split_once(&begin)
        .unwrap_or_else(|| panic!("{chapter} has no place for {part}"));
    let (there, after) = rest.split_once(&end).unwrap();
    let text = format!("\n{}\n\n", text.trim());
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, format!("{before}{begin}{text}{end}{after}")).unwrap();
        return;
    }
    assert!(
        there == text,
        "{chapter} is out of date ({part}): `cargo xtask docs` writes it anew"
    );
}

/// The picture of the pipeline, in the file that composes it and in the papers, is the same.
#[test]
fn the_picture_shows_the_pipeline() {
    let source =
        fs::read_to_string(repository().join("mcpinspectd/daemon/src/pipeline/mod.rs")).unwrap();
    let lines = source
        .lines()
        .skip_while(|line| !line.starts_with("//! ```text"))
        .skip(1)
        .take_while(|line| !line.starts_with("//! ```"));
    let picture: String = lines
        .map(|line| format!("{}\n", line.trim_start_matches("//! ")))
        .collect();
    assert!(picture.lines().count() > 3, "{picture}");
    for paper in ["README.md", "mcpinspectd/ARCHITECTURE.md"] {
        let text = fs::read_to_string(repository().join(paper)).unwrap();
        assert!(
            text.contains(&picture),
            "{paper} has another picture than:\n{picture}"
        );
    }
}

/// The Markdown files of the repository, as paths from its root.
fn papers() -> Vec<PathBuf> {
    let mut papers = Vec::new();
    for folder in ["", "mcpinspectd", "mcpinspectd/docs"] {
        let entries = fs::read_dir(repository().join(folder)).unwrap();
        let names = entries.map(|entry| PathBuf::from(entry.unwrap().file_name()));
        let markdown = names.filter(|name| name.extension().is_some_and(|end| end == "md"));
        papers.extend(markdown.map(|name| Path::new(folder).join(name)));
    }
    papers.sort();
    assert!(papers.len() > 10, "{papers:?}");
    papers
}

/// The code blocks of this language in a text.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("{language}\n");
    text.split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix(&opening))
        .collect()
}
