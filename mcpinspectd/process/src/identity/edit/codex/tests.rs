use proptest::prelude::*;

use crate::identity::config_file::{Layout, MAX_SERVERS};
use crate::identity::edit::{Change, EditError, Edited, Outcome, edit as edit_any};

const PROGRAM: &str = "/usr/bin/mcpinspect";

fn options(name: &str) -> Vec<String> {
    vec![format!("--server={name}")]
}

const GUARD: Change<'_> = Change::Guard {
    program: PROGRAM,
    options: &options,
};

fn edit(text: &[u8], wanted: Option<&str>, change: Change<'_>) -> Result<Edited, EditError> {
    edit_any(text, &[Layout::Codex], wanted, change)
}

fn guarded(text: &str) -> Edited {
    edit(text.as_bytes(), None, GUARD).unwrap()
}

fn unguarded(text: &str) -> Edited {
    edit(text.as_bytes(), None, Change::Unguard).unwrap()
}

#[track_caller]
fn there_and_back(before: &str, after: &str) {
    let edited = guarded(before);
    assert_eq!(edited.text, after, "{:?}", edited.servers);
    assert_eq!(guarded(after).text, after, "a second time");
    assert_eq!(unguarded(after).text, before);
    assert_eq!(unguarded(before).text, before);
}

#[test]
fn only_the_words_of_the_command_change() {
    there_and_back(
        "# mine\nmodel = \"o\"  # as it was\n\n[mcp_servers.files]\nenv = { KEY = \"x\" }\ncommand = 'npx' # run\nargs = [\n  # yes\n  \"-y\",\n  \"files\",\n]\n\n[other]\na = 1.50\n",
        "# mine\nmodel = \"o\"  # as it was\n\n[mcp_servers.files]\nenv = { KEY = \"x\" }\ncommand = \"/usr/bin/mcpinspect\" # run\nargs = [\n  # yes\n  \"guard\",\n  \"--server=files\",\n  \"--\",\n  'npx',\n  \"-y\",\n  \"files\",\n]\n\n[other]\na = 1.50\n",
    );
    there_and_back(
        "mcp_servers.a.args = [\"x\"]\nmcp_servers.a.command = \"c\"\n",
        "mcp_servers.a.args = [\"guard\", \"--server=a\", \"--\", \"c\", \"x\"]\nmcp_servers.a.command = \"/usr/bin/mcpinspect\"\n",
    );
}

#[test]
fn a_server_without_arguments_has_none_again_afterwards() {
    there_and_back(
        "[mcp_servers.a]\r\n  command = \"c\" # why\r\n",
        "[mcp_servers.a]\r\n  command = \"/usr/bin/mcpinspect\"\r\n  args = [ \"guard\", \"--server=a\", \"--\", \"c\" ] # why\r\n",
    );
    there_and_back(
        "mcp_servers = { a = { command = \"c\" }, b = { enabled = true, command = \"d\" } }",
        "mcp_servers = { a = { command = \"/usr/bin/mcpinspect\", args = [ \"guard\", \"--server=a\", \"--\", \"c\" ] }, b = { enabled = true, command = \"/usr/bin/mcpinspect\", args = [ \"guard\", \"--server=b\", \"--\", \"d\" ] } }",
    );
    for list in ["[]", "[ ]", "[\n]", "[ # none\n ]"] {
        let before = format!("[mcp_servers.a]\nargs = {list}\ncommand = \"c\"");
        let edited = guarded(&before);
        assert_eq!(edited.servers[0].outcome, Outcome::Changed);
        assert_eq!(unguarded(&edited.text).text, before);
    }
}

#[test]
fn what_cannot_be_changed_is_left_and_told() {
    let outcome = |text: &str| {
        let edited = guarded(text);
        assert_eq!(edited.text, text);
        edited.servers[0].outcome
    };
    assert_eq!(
        outcome("[mcp_servers.a]\nurl = \"https://x\""),
        Outcome::Url
    );
    for text in [
        "mcp_servers.a = 5",
        "[mcp_servers.a]",
        "[mcp_servers.a]\ncommand = 5",
        "[mcp_servers.a]\ncommand = \"c\"\nargs = 5",
        "[mcp_servers.a]\ncommand = \"c\"\nargs = [5]",
        "mcp_servers.a.command = \"c\"",
    ] {
        assert!(matches!(outcome(text), Outcome::Unusable(_)), "{text}");
    }
    for text in ["[", "a = ", "a = 1\na = 2"] {
        let refused = edit(text.as_bytes(), None, GUARD);
        assert!(matches!(refused, Err(EditError::NotToml(_))), "{text}");
    }
    assert_eq!(edit(b"\xff", None, GUARD), Err(EditError::NotText));
    assert_eq!(guarded("a = 1").servers, []);
    let two = "[mcp_servers.a]\ncommand = \"c\"\n[mcp_servers.b]\ncommand = \"d\"\n";
    let edited = edit(two.as_bytes(), Some("b"), GUARD).unwrap();
    let outcomes: Vec<_> = edited.servers.iter().map(|server| server.outcome).collect();
    assert_eq!(outcomes, [Outcome::Other, Outcome::Changed]);
}

#[test]
fn a_table_in_braces_may_have_lines() {
    there_and_back(
        "[mcp_servers]\na = {\n  command = \"c\", # why\n}\n",
        "[mcp_servers]\na = {\n  command = \"/usr/bin/mcpinspect\",\n  args = [ \"guard\", \"--server=a\", \"--\", \"c\" ], # why\n}\n",
    );
}

#[test]
fn depth_costs_no_stack() {
    const DEEP: usize = 1 << 16;
    for text in [
        format!("a = {}", "[".repeat(DEEP)),
        format!("a = {}{}", "[".repeat(DEEP), "]".repeat(DEEP)),
        format!("a = {}", "{a=".repeat(DEEP)),
        format!("{}a = 1", "mcp_servers.".repeat(DEEP)),
        format!("[{}a]", "mcp_servers.".repeat(DEEP)),
    ] {
        let refused = edit(text.as_bytes(), None, GUARD);
        assert!(matches!(refused, Err(EditError::NotToml(_))));
    }
}

/// This would take minutes if the file were read again for each server.
#[test]
fn a_large_file_of_many_servers_is_read_twice() {
    let servers = (1..MAX_SERVERS).map(|n| format!("[mcp_servers.s{n}]\ncommand = 'c'\n"));
    let servers: String = servers.collect();
    let text = format!("pad = [{}]\n{servers}", "[1,\"é\",{}], ".repeat(20_000));
    let edited = guarded(&text);
    let changed = edited.servers.iter();
    let changed = changed.filter(|server| server.outcome == Outcome::Changed);
    assert_eq!(changed.count(), MAX_SERVERS - 1);
    assert_eq!(unguarded(&edited.text).text, text);
}

fn word_text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,6}".prop_map(|text| toml::Value::from(text).to_string()),
        "[a-z \"\\\\]{0,6}".prop_map(|text| format!("'{text}'")),
        Just("\"guard\"".to_owned()),
        Just("\"--\"".to_owned()),
        Just("\"\"\"\na\"\"\"".to_owned()),
    ]
}

proptest! {
    #[test]
    fn any_configuration_there_and_back(
        servers in prop::collection::vec(
            ("[a-z/-]{1,6}", prop::option::of(prop::collection::vec(word_text(), 0..4)), any::<bool>(), any::<bool>(),
             prop::sample::select(vec!["", " ", "\n", "\n  # \" ] é\n", "\t"]), prop::sample::select(vec!["", "  ", "\t"])),
            0..4),
        newline in prop::sample::select(vec!["\n", "\r\n"]),
    ) {
        let mut before = format!("a = 1 # x{newline}");
        for (number, (command, words, args_first, comma, blank, indent)) in servers.iter().enumerate() {
            let mut lines = vec![format!("{indent}command = \"{command}\" # c")];
            if let Some(words) = words {
                let comma = if *comma && !words.is_empty() { "," } else { "" };
                let list: Vec<String> = words.iter().map(|word| format!("{blank}{word}")).collect();
                let list = format!("{indent}args = [{}{comma}{blank}]", list.join(","));
                lines.insert(usize::from(!args_first), list);
            }
            lines.push("env = { args = \"x\" }".to_owned());
            before.push_str(&format!("[mcp_servers.s{number}]{newline}{}{newline}", lines.join(newline)));
        }
        let after = guarded(&before);
        prop_assert!(after.servers.iter().all(|server| server.is_guarded), "{:?}", after);
        prop_assert_eq!(&guarded(&after.text).text, &after.text);
        prop_assert_eq!(unguarded(&after.text).text, before);
    }

    #[test]
    fn any_text(text in "[\\[\\]{}\"'=.,# a-c\\\\\n]{0,60}") {
        for text in [text.clone(), format!("[mcp_servers.a]\ncommand = \"c\"\nargs = {text}"), format!("mcp_servers = {{ a = {text} }}")] {
            if let Ok(edited) = edit(text.as_bytes(), None, GUARD)
                && edited.servers.iter().all(|server| server.outcome == Outcome::Changed)
            {
                prop_assert_eq!(unguarded(&edited.text).text, text);
            }
        }
    }
}
