//! What each category means, for people: `mcpinspect explain`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Deserialize;

use super::category::Category;

/// What is said about a category.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// One line.
    pub title: String,
    /// What it is and why it matters.
    pub summary: String,
    /// What triggers it.
    pub triggers: Vec<String>,
    /// What looks similar and does not.
    pub not: Vec<String>,
}

/// The page of a category.
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

/// The page as text, with how to silence it.
pub fn text(category: Category) -> String {
    let Page {
        title,
        summary,
        triggers,
        not,
    } = page(category);
    let mut out = format!(
        "{category}: {title}\n\n{}\n\nTriggers it:\n",
        wrapped(summary, 96, "")
    );
    for line in triggers {
        let _ = writeln!(out, "  - {}", wrapped(line, 92, "    "));
    }
    out.push_str("\nDoes not:\n");
    for line in not {
        let _ = writeln!(out, "  - {}", wrapped(line, 92, "    "));
    }
    let _ = write!(
        out,
        "\nTo silence it for one tool, put this into /etc/mcpinspectd/rules.d/local.toml, run\n\
         `mcpinspect rules check` and then `systemctl reload mcpinspectd`; a rule's id in place of the\n\
         category silences that rule alone:\n\n  \
         [[suppress]]\n  rule = \"{category}\"\n  server = \"my-server\"\n  tool = \"my_tool\"\n  \
         reason = \"looked at it, it is fine because …\"\n  until = \"2027-01-31\"\n"
    );
    out
}

/// `text` with line breaks at blanks, so that no line is longer than `width`.
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
