use proptest::prelude::*;
use serde_json::{Value, json};

use super::json::REPEATED;
use super::*;

const MCP_SERVERS: &[Layout] = &[Layout::ClaudeCode];
const PROGRAM: &str = "/usr/bin/mcpinspect";

fn options(name: &str) -> Vec<String> {
    vec![format!("--server={name}")]
}

const GUARD: Change<'_> = Change::Guard {
    program: PROGRAM,
    options: &options,
};

fn guarded(text: &str) -> Edited {
    edit(text.as_bytes(), MCP_SERVERS, None, GUARD).unwrap()
}

fn unguarded(text: &str) -> Edited {
    edit(text.as_bytes(), MCP_SERVERS, None, Change::Unguard).unwrap()
}

fn outcomes(edited: &Edited) -> Vec<Outcome> {
    edited.servers.iter().map(|server| server.outcome).collect()
}

#[track_caller]
fn there_and_back(before: &str, after: &str) {
    let edited = guarded(before);
    assert_eq!(edited.text, after);
    assert_eq!(guarded(after).text, after, "a second time");
    assert_eq!(unguarded(after).text, before);
    assert_eq!(unguarded(before).text, before);
}

#[test]
fn only_the_words_of_the_command_change() {
    there_and_back(
        "// mine\n{\n  \"other\": 1.50, // as it was\n  \"mcpServers\": {\n    \"files\": {\n      \"env\": {\"KEY\": \"x\"},\n      \"command\": \"np\\u0078\", // run\n      \"args\": [\n        // yes\n        \"-y\",\n        \"files\", /* , */\n        5,\n      ],\n    },\n  },\n}\n",
        "// mine\n{\n  \"other\": 1.50, // as it was\n  \"mcpServers\": {\n    \"files\": {\n      \"env\": {\"KEY\": \"x\"},\n      \"command\": \"/usr/bin/mcpinspect\", // run\n      \"args\": [\n        // yes\n        \"guard\",\n        \"--server=files\",\n        \"--\",\n        \"np\\u0078\",\n        \"-y\",\n        \"files\", /* , */\n        5,\n      ],\n    },\n  },\n}\n",
    );
    there_and_back(
        r#"{"mcpServers":{"a":{"args":["x"],"command":"c"}}}"#,
        r#"{"mcpServers":{"a":{"args":["guard", "--server=a", "--", "c", "x"],"command":"/usr/bin/mcpinspect"}}}"#,
    );
}

#[test]
fn a_server_without_arguments_has_none_again_afterwards() {
    there_and_back(
        r#"{"mcpServers":{"a":{"command":"c"}}}"#,
        r#"{"mcpServers":{"a":{"command":"/usr/bin/mcpinspect", "args": [ "guard", "--server=a", "--", "c" ]}}}"#,
    );
    there_and_back(
        "{\"mcpServers\": {\"a\": {\r\n\t\"command\": \"c\" // why\r\n}}}",
        "{\"mcpServers\": {\"a\": {\r\n\t\"command\": \"/usr/bin/mcpinspect\",\r\n\t\"args\": [ \"guard\", \"--server=a\", \"--\", \"c\" ] // why\r\n}}}",
    );
    for list in ["[]", "[ ]", "[\n]", "[ /* none */ ]"] {
        let before = format!(r#"{{"mcpServers":{{"a":{{"command":"c", "args": {list}}}}}}}"#);
        let edited = guarded(&before);
        assert_eq!(outcomes(&edited), [Outcome::Changed]);
        assert_eq!(unguarded(&edited.text).text, before);
    }
}

#[test]
fn every_layout_is_changed() {
    let entry = r#"{"s": {"command": {"path": "c", "args": ["x"], "env": {}}, "settings": {}}}"#;
    let zed = format!(r#"{{"theme": "x", "context_servers": {entry}}}"#);
    let layout = &[Layout::Key("context_servers")];
    let edited = edit(zed.as_bytes(), layout, None, GUARD).unwrap();
    let value: Value = serde_json::from_str(&edited.text).unwrap();
    assert_eq!(
        value["context_servers"]["s"]["command"],
        json!({"path": PROGRAM, "args": ["guard", "--server=s", "--", "c", "x"], "env": {}})
    );
    let back = edit(edited.text.as_bytes(), layout, None, Change::Unguard).unwrap();
    assert_eq!(back.text, zed);

    let code = r#"{"mcpServers": {"s": {"command": "a"}}, "projects": {"/p": {"mcpServers": {"s": {"command": "b"}, "t": {"command": "c"}}}}}"#;
    let edited = edit(code.as_bytes(), MCP_SERVERS, Some("s"), GUARD).unwrap();
    let names: Vec<_> = edited
        .servers
        .iter()
        .map(|s| (&*s.name, s.outcome))
        .collect();
    assert_eq!(
        names,
        [
            ("s", Outcome::Changed),
            ("t", Outcome::Other),
            ("s", Outcome::Changed)
        ]
    );
    assert_eq!(unguarded(&edited.text).text, code);
}

#[test]
fn a_command_may_be_one_list() {
    let layout = &[Layout::Key("mcp")];
    let edited = |text: &str, change| edit(text.as_bytes(), layout, None, change).unwrap();
    for (before, after) in [
        (
            "{\"mcp\": {\"a\": {\"type\": \"local\", \"command\": [\"npx\", \"-y\"], \"enabled\": true}}}",
            "{\"mcp\": {\"a\": {\"type\": \"local\", \"command\": [\"/usr/bin/mcpinspect\", \"guard\", \"--server=a\", \"--\", \"npx\", \"-y\"], \"enabled\": true}}}",
        ),
        (
            "{\"mcp\": {\"a\": {\"command\": [\n  // yes\n  \"c d\",\n]}}}",
            "{\"mcp\": {\"a\": {\"command\": [\n  // yes\n  \"/usr/bin/mcpinspect\",\n  \"guard\",\n  \"--server=a\",\n  \"--\",\n  \"c d\",\n]}}}",
        ),
    ] {
        assert_eq!(edited(before, GUARD).text, after);
        assert_eq!(edited(after, GUARD).text, after);
        assert_eq!(edited(after, Change::Unguard).text, before);
    }
    for (server, outcome) in [
        (r#"{"type": "remote", "url": "https://x"}"#, Outcome::Url),
        (
            r#"{"command": []}"#,
            Outcome::Unusable("its command is empty"),
        ),
        (
            r#"{"command": ["a", null]}"#,
            Outcome::Unusable("its arguments are not a list of strings"),
        ),
    ] {
        let text = format!(r#"{{"mcp":{{"a":{server}}}}}"#);
        assert_eq!(outcomes(&edited(&text, GUARD)), [outcome], "{server}");
    }
}

#[test]
fn other_options_replace_the_former_ones() {
    let before = r#"{"mcpServers":{"a":{"command":"c","args":["x"]}}}"#;
    let by_hand = r#"{"mcpServers":{"a":{"command":"mcpinspect","args":["guard","--policy","p","--","c","x"]}}}"#;
    assert_eq!(guarded(by_hand).text, guarded(before).text);
    assert_eq!(unguarded(by_hand).text, before);
    // Not a guard of a command.
    for other in [
        r#"{"mcpServers":{"a":{"command":"mcpinspect","args":["mcp"]}}}"#,
        r#"{"mcpServers":{"a":{"command":"mcpinspect","args":["guard","--"]}}}"#,
    ] {
        assert_eq!(outcomes(&unguarded(other)), [Outcome::Unchanged]);
    }
}

#[test]
fn what_cannot_be_changed_is_left_and_told() {
    for (server, outcome) in [
        (r#"{"url": "https://x", "type": "http"}"#, Outcome::Url),
        (r#"{"httpUrl": "https://x"}"#, Outcome::Url),
        (
            "{}",
            Outcome::Unusable("it has neither a command nor a URL"),
        ),
        ("[]", Outcome::Unusable("its entry is not an object")),
        (
            r#"{"command": 5}"#,
            Outcome::Unusable("its command is not a string"),
        ),
        (
            r#"{"command": {}}"#,
            Outcome::Unusable("its command has no path"),
        ),
        (
            r#"{"command": "c", "args": {}}"#,
            Outcome::Unusable("its arguments are not a list of strings"),
        ),
        (
            r#"{"command": "c", "args": ["a", null]}"#,
            Outcome::Unusable("its arguments are not a list of strings"),
        ),
        (r#"{"command": "c", "command": "d"}"#, REPEATED),
        (r#"{"command": "c", "comm\u0061nd": "d"}"#, REPEATED),
        (
            r#"{"comm\u0061nd": "d"}"#,
            Outcome::Unusable("a member's name contains escapes: write it without escapes"),
        ),
    ] {
        let text = format!(r#"{{"mcpServers":{{"a":{server},"b":{{"command":"c"}}}}}}"#);
        let edited = guarded(&text);
        assert_eq!(outcomes(&edited), [outcome, Outcome::Changed], "{server}");
        assert_eq!(unguarded(&edited.text).text, text);
    }
    let line = r#"{"mcpServers":{"a":{"command":"npx -y x"}}}"#;
    assert!(
        matches!(outcomes(&guarded(line))[..], [Outcome::Unusable(why)] if why.contains("contains arguments"))
    );
}

#[test]
fn what_is_no_configuration_is_refused() {
    for text in ["", "{", "{\"mcpServers\":{\"a\":}}", "[1,,]", "no"] {
        let refused = edit(text.as_bytes(), MCP_SERVERS, None, GUARD);
        assert!(matches!(refused, Err(EditError::NotJson(_))), "{text}");
    }
    assert_eq!(
        edit(b"\xff", MCP_SERVERS, None, GUARD),
        Err(EditError::NotText)
    );
    for text in ["{}", "[]", "5", "{\"mcpServers\": []}"] {
        assert_eq!(guarded(text).servers, []);
        assert_eq!(guarded(text).text, text);
    }
    let many: Vec<_> = (0..2000)
        .map(|n| format!(r#""s{n}":{{"command":"c"}}"#))
        .collect();
    let text = format!(r#"{{"mcpServers":{{{}}}}}"#, many.join(","));
    assert_eq!(
        edit(text.as_bytes(), MCP_SERVERS, None, GUARD),
        Err(EditError::TooMany)
    );
}

#[test]
fn depth_costs_no_stack() {
    const DEEP: usize = 1 << 20;
    let deep = format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP));
    for (server, outcome) in [
        (
            format!(r#"{{"command":"c","env":{deep}}}"#),
            Outcome::Changed,
        ),
        (format!(r#"{{"command":"c","args":{deep}}}"#), NO_WORDS),
        (format!(r#"{{"command":{deep}}}"#), NO_WORDS),
    ] {
        let edited = guarded(&format!(r#"{{"mcpServers":{{"a":{server}}}}}"#));
        assert_eq!(outcomes(&edited), [outcome]);
    }
    assert_eq!(guarded(&deep).servers, []);
    for open in ["[", r#"{"mcpServers":"#] {
        let refused = edit(open.repeat(DEEP).as_bytes(), MCP_SERVERS, None, GUARD);
        assert!(matches!(refused, Err(EditError::NotJson(_))));
    }
}

/// This would take minutes if the file were read again for each server.
#[test]
fn a_large_file_of_many_servers_is_read_twice() {
    let servers: Vec<_> = (1..MAX_SERVERS)
        .map(|n| format!(r#""s{n}":{{"command":"c"}}"#))
        .collect();
    let pad = "[1,\"é\",{}], ".repeat(100_000);
    let text = format!(
        r#"{{"pad":[{pad}], "mcpServers":{{{}}}}}"#,
        servers.join(",")
    );
    let edited = guarded(&text);
    assert_eq!(outcomes(&edited), [Outcome::Changed; MAX_SERVERS - 1]);
    assert_eq!(unguarded(&edited.text).text, text);
}

fn blank() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec![" ", "\n", "\t", "\r\n", "// \" ] é\n", "/* , { */"]),
        0..3,
    )
    .prop_map(|parts| parts.concat())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,6}", Just("guard".to_owned()), Just("--".to_owned())]
        .prop_map(|text| Value::from(text).to_string())
}

prop_compose! {
    /// A description of a server, with blanks and comments anywhere.
    fn description()(
        command in "[a-z/-]{1,6}",
        words in prop::option::of(prop::collection::vec(prop_oneof![text(), Just("7".to_owned())], 0..4)),
        blanks in prop::collection::vec(blank(), 16),
        args_first in any::<bool>(),
        more in any::<bool>(),
        comma in any::<bool>(),
        is_list in any::<bool>(),
    ) -> String {
        let b = |n: usize| blanks[n % 16].as_str();
        if is_list {
            let words = words.iter().flatten().map(|word| format!(",{}{word}{}", b(4), b(5)));
            let words: String = words.collect();
            let trailing = if comma { "," } else { "" };
            return format!("{{{}\"command\":{}[{}\"{command}\"{words}{trailing}{}]}}", b(0), b(1), b(2), b(3));
        }
        let command = format!("{}\"command\"{}:{}\"{command}\"{}", b(0), b(1), b(2), b(3));
        let mut members = vec![command];
        if let Some(words) = words {
            let words: Vec<_> = words.iter().enumerate()
                .map(|(n, word)| format!("{}{word}{}", b(n + 4), b(n + 7)))
                .collect();
            let trailing = if comma && !words.is_empty() { "," } else { "" };
            let args = format!("{}\"args\"{}:{}[{}{trailing}{}]{}", b(11), b(12), b(13), words.join(","), b(14), b(15));
            members.insert(if args_first { 0 } else { 1 }, args);
        }
        if more {
            members.push("\"env\": {\"args\": [1]}".to_owned());
        }
        format!("{{{}}}", members.join(","))
    }
}

proptest! {
    #[test]
    fn any_configuration_there_and_back(servers in prop::collection::vec(description(), 0..4), blank in blank()) {
        let servers: Vec<_> = servers.iter().enumerate()
            .map(|(n, server)| format!("{blank}\"s{n}\"{blank}:{blank}{server}{blank}"))
            .collect();
        let before = format!("{blank}{{\"mcpServers\": {{{}}}{blank}}}", servers.join(","));
        let after = guarded(&before);
        prop_assert!(after.servers.iter().all(|server| server.is_guarded), "{:?}", after);
        prop_assert_eq!(&guarded(&after.text).text, &after.text);
        prop_assert_eq!(unguarded(&after.text).text, before);
    }

    #[test]
    fn any_text(text in "[\\[\\]{}\":,/* a-c\\\\\n]{0,60}") {
        for text in [text.clone(), format!("{{\"mcpServers\":{{\"a\":{text}}}}}"), format!("{{\"mcpServers\":{{\"a\":{{\"command\":\"c\",\"args\":{text}}}}}}}")] {
            if let Ok(edited) = edit(text.as_bytes(), MCP_SERVERS, None, GUARD)
                && edited.servers.iter().all(|server| server.outcome == Outcome::Changed)
            {
                prop_assert_eq!(unguarded(&edited.text).text, text);
            }
        }
    }
}
