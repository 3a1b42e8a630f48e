//! The tools that were listed in a session, and how their definitions changed.

use std::collections::BTreeMap;

use mcpinspect_core::html::{Text, put};
use mcpinspect_core::mcp::json::cut;
use mcpinspect_core::model::Direction;
use mcpinspect_core::text::diff::{ChangeTag, diff};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::indent::indented;
use crate::Entry;

/// Tools to show.
const TOOLS: usize = 500;
/// Definitions of one tool to show.
const VERSIONS: usize = 10;
/// Bytes of a definition to show and compare.
const DEFINITION: usize = 32 << 10;
/// Bytes of a name.
const NAME: usize = 256;

/// The tools by name, with each different definition.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    tools: BTreeMap<String, Vec<Version>>,
    /// Tools that are not among those shown.
    left_out: bool,
}

/// A definition.
#[derive(Debug)]
struct Version {
    /// The message in which it first appeared.
    sequence: u64,
    text: String,
}

impl Definitions {
    /// Reads the tools of a message, if it lists any.
    pub(super) fn read(&mut self, entry: &Entry, message: &str) {
        #[derive(Deserialize)]
        struct Listing<'a> {
            #[serde(borrow)]
            result: Offer<'a>,
        }
        #[derive(Deserialize)]
        struct Offer<'a> {
            #[serde(borrow)]
            tools: Vec<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let lists = entry.direction == Direction::ServerToClient
            && entry.method.as_deref() == Some("tools/list");
        if !lists {
            return;
        }
        let Ok(listing) = serde_json::from_str::<Listing<'_>>(message) else {
            return;
        };
        for tool in listing.result.tools {
            if let Ok(Named { name }) = serde_json::from_str(tool.get()) {
                self.add(cut(&name, NAME), tool.get(), entry.sequence);
            }
        }
    }

    fn add(&mut self, name: &str, definition: &str, sequence: u64) {
        if self.tools.len() >= TOOLS && !self.tools.contains_key(name) {
            self.left_out = true;
            return;
        }
        let text = indented(definition, DEFINITION);
        let versions = self.tools.entry(name.to_owned()).or_default();
        let is_new = versions.last().is_none_or(|last| last.text != text);
        if is_new && versions.len() < VERSIONS {
            versions.push(Version { sequence, text });
        }
    }

    /// Whether there is nothing to show.
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Adds the tools, changed ones first.
    pub(super) fn put(&self, out: &mut String) {
        let mut tools: Vec<_> = self.tools.iter().collect();
        tools.sort_by_key(|(_, versions)| std::cmp::Reverse(versions.len()));
        for (name, versions) in tools {
            let changes = versions.len() - 1;
            let open = if changes > 0 { " open" } else { "" };
            put!(out, "<details{open}><summary><b>{}</b>", Text(name));
            match changes {
                0 => {}
                1 => out.push_str(" <span class=\"changed\">changed once</span>"),
                _ => put!(
                    out,
                    " <span class=\"changed\">changed {changes} times</span>"
                ),
            }
            out.push_str("</summary>\n");
            let mut before: Option<&Version> = None;
            for version in versions {
                let sequence = version.sequence;
                let link = format!("<a href=\"#m{sequence}\">message {sequence}</a>");
                match before {
                    None => put!(
                        out,
                        "<p>as listed in {link}</p><pre>{}</pre>\n",
                        Text(&version.text)
                    ),
                    Some(before) => {
                        put!(out, "<p>changed in {link}</p><pre class=\"diff\">");
                        difference(&before.text, &version.text, out);
                        out.push_str("</pre>\n");
                    }
                }
                before = Some(version);
            }
            out.push_str("</details>\n");
        }
        if self.left_out {
            put!(out, "<p class=\"note\">Only {TOOLS} tools are shown.</p>\n");
        }
    }
}

fn difference(old: &str, new: &str, out: &mut String) {
    for span in diff(old, new) {
        match span.tag {
            ChangeTag::Equal => put!(out, "{}", Text(&span.text)),
            ChangeTag::Delete => put!(out, "<del>{}</del>", Text(&span.text)),
            ChangeTag::Insert => put!(out, "<ins>{}</ins>", Text(&span.text)),
        }
    }
}
