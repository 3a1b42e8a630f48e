//! What each category of findings means, for people.
//!
//! A finding names its category and quotes a text; that alone does not tell a reader whether to worry. Each
//! category has a page that says what it is, what triggers it, and what looks similar but does not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Deserialize;

use super::category::Category;

/// The page of a category.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// A one-line title.
    pub title: String,
    /// What it is and why it matters.
    pub summary: String,
    /// What triggers it.
    pub triggers: Vec<String>,
    /// What looks similar and does not trigger it.
    pub not: Vec<String>,
}

/// Returns the page of a category.
#[expect(
    clippy::expect_used,
    reason = "the file is part of the program, and a test reads every page"
)]
pub fn page(category: Category) -> &'static Page {
    static PAGES: LazyLock<BTreeMap<Category, Page>> = LazyLock::new(|| {
        toml::from_str(include_str!("../../rules/categories.toml")).expect("the pages are valid")
    });
    PAGES.get(&category).expect("every category has a page")
}

/// The page as text, with instructions to suppress its findings.
pub fn text(category: Category) -> String {
    let Page {
        title,
        summary,
        triggers,
        not,
    } = page(category);
    let mut out = format!(
        "{category}: {title}\n\n{}\n\nWhat triggers it:\n",
        wrapped(summary, 96, "")
    );
    for line in triggers {
        let _ = writeln!(out, "  - {}", wrapped(line, 92, "    "));
    }
    out.push_str("\nWhat does not:\n");
    for line in not {
        let _ = writeln!(out, "  - {}", wrapped(line, 92, "    "));
    }
    let _ = write!(
        out,
        "\nTo suppress these findings for one tool, add this to /etc/mcpinspectd/rules.d/local.toml, then run\n\
         `mcpinspect rules check` and `systemctl reload mcpinspectd`. The id of a rule instead of the\n\
         category suppresses that rule only:\n\n  \
         [[suppress]]\n  rule = \"{category}\"\n  server = \"my-server\"\n  tool = \"my_tool\"\n  \
         reason = \"reviewed, and fine because …\"\n  until = \"2027-01-31\"\n"
    );
    out
}

/// `text`, with line breaks at blanks so that no line is longer than `width`.
fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(indent);
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_a_page() {
        for category in Category::ALL {
            let page = text(*category);
            assert!(
                page.contains("What triggers it:") && page.contains("[[suppress]]"),
                "{category}"
            );
        }
    }
}
