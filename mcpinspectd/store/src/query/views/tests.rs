use std::fmt::Write as _;

use super::*;

/// The views as the manual shows them.
fn manual() -> String {
    let mut text = String::new();
    for view in help() {
        let _ = writeln!(
            text,
            "### `{}`\n\n{}\n\n| Column | |\n|---|---|",
            view.name, view.about
        );
        for (name, about) in view.columns {
            let _ = writeln!(text, "| `{name}` | {about} |");
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_manual_lists_every_view_and_column() {
    let page = include_str!("../../../../docs/query.md");
    assert!(
        page.contains(manual().trim_end()),
        "docs/query.md should contain:\n\n{}",
        manual()
    );
}

/// A mask of 64 bits says which columns are read.
#[test]
fn columns_have_names_of_their_own_and_fit_a_mask() {
    for view in VIEWS {
        let mut names: Vec<_> = view.columns.iter().map(|column| column.name).collect();
        assert!(names.len() < 63, "{}", view.name);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), view.columns.len(), "{}", view.name);
        let shortcuts = &view.shortcuts;
        assert!(shortcuts.key.is_none_or(|key| names.contains(&key)));
        assert!(shortcuts.by_time.is_none() || names.contains(&"time"));
    }
}
