//! The D-Bus chapter, out of the introspection that the packages ship. Another test holds that to
//! what the running objects answer.

use std::fmt::Write as _;
use std::fs;

use mcpinspect_tests::places::repository;
use roxmltree::{Document, Node, ParsingOptions};

use super::generated;

#[test]
fn the_bus_reference_is_up_to_date() {
    let mut text = String::new();
    for (name, path) in [
        ("Manager", "/org/mcpinspect1"),
        ("Server", "/org/mcpinspect1/server/…"),
        ("Tool", "/org/mcpinspect1/server/…/tool/…"),
    ] {
        let file = format!("packaging/org.mcpinspect1.{name}.xml");
        let xml = fs::read_to_string(repository().join(file)).unwrap();
        let options = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(&xml, options).unwrap();
        let interface = document
            .descendants()
            .find(|node| node.has_tag_name("interface"))
            .unwrap();
        let _ = writeln!(
            text,
            "## {}\n\nObject path: `{path}`\n",
            interface.attribute("name").unwrap()
        );
        members(&mut text, &interface);
    }
    generated("dbus.md", "interfaces", &text);
}

fn members(text: &mut String, interface: &Node<'_, '_>) {
    for (tag, title) in [
        ("method", "Methods"),
        ("signal", "Signals"),
        ("property", "Properties"),
    ] {
        let members: Vec<_> = interface
            .children()
            .filter(|node| node.has_tag_name(tag))
            .collect();
        if members.is_empty() {
            continue;
        }
        let _ = writeln!(text, "### {title} of {}\n", short(interface));
        for member in members {
            let name = member.attribute("name").unwrap();
            let words = comment(&member);
            assert!(!words.is_empty(), "{name} is not documented");
            match tag {
                "property" => {
                    let signature = member.attribute("type").unwrap();
                    let _ = writeln!(text, "- **`{name}`** (`{signature}`): {words}");
                }
                _ => {
                    let _ = writeln!(
                        text,
                        "#### `{name}({})`{}\n\n{words}\n",
                        arguments(&member, tag),
                        result(&member)
                    );
                }
            }
        }
        text.push('\n');
    }
}

/// `org.mcpinspect1.Manager` as `Manager`.
fn short<'a>(interface: &Node<'a, '_>) -> &'a str {
    let name = interface.attribute("name").unwrap();
    name.rsplit('.').next().unwrap()
}

/// What goes in, or what a signal carries.
fn arguments(member: &Node<'_, '_>, tag: &str) -> String {
    let wanted = |node: &Node<'_, '_>| match tag {
        "signal" => true,
        _ => node.attribute("direction") == Some("in"),
    };
    list(member, wanted)
}

/// What comes back.
fn result(member: &Node<'_, '_>) -> String {
    let out = list(member, |node| node.attribute("direction") == Some("out"));
    match out.is_empty() {
        true => String::new(),
        false => format!(" → `{out}`"),
    }
}

fn list(member: &Node<'_, '_>, wanted: impl Fn(&Node<'_, '_>) -> bool) -> String {
    let arguments = member.children().filter(|node| node.has_tag_name("arg"));
    let words: Vec<_> = arguments
        .filter(wanted)
        .map(|node| {
            let signature = node.attribute("type").unwrap();
            match node.attribute("name") {
                Some(name) => format!("{signature} {name}"),
                None => signature.to_owned(),
            }
        })
        .collect();
    words.join(", ")
}

/// The comment in front of a member, in one line.
fn comment(member: &Node<'_, '_>) -> String {
    let before = member.prev_siblings().skip(1);
    let comment = before
        .take_while(|node| !node.is_element())
        .find(Node::is_comment);
    let text = comment.and_then(|node| node.text()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
