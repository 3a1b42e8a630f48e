//! Mistakes in policy files, with their lines, and the shipped policies.

use std::path::Path;

use super::*;

/// The line and the text of the one mistake in a policy.
fn mistake(text: &str) -> (usize, String) {
    let errors = compile(text).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    (errors[0].line, errors[0].problem.clone())
}

fn rule(lines: &str) -> String {
    format!("[[rule]]\nid = \"a\"\n{lines}\n")
}

#[test]
fn every_mistake_has_its_line() {
    for (lines, line, part) in [
        (
            "when = { method = \"x\" }\naction = \"block\"\nnmae = 1",
            5,
            "unknown field",
        ),
        (
            "when = { metod = \"x\" }\naction = \"block\"",
            3,
            "unknown field",
        ),
        (
            "when = { method = 7 }\naction = \"block\"",
            3,
            "a text, or a table",
        ),
        (
            "when = { method = { equal = \"x\" } }\naction = \"block\"",
            3,
            "unknown field",
        ),
        (
            "when = { method = { in = [] } }\naction = \"block\"",
            3,
            "never match",
        ),
        (
            "when = { method = { matches = \"(\" } }\naction = \"block\"",
            3,
            "invalid regular expression",
        ),
        (
            "when = { method = {} }\naction = \"block\"",
            3,
            "give one of",
        ),
        ("when = {}\naction = \"block\"", 3, "`when` is empty"),
        ("action = \"block\"", 1, "missing field `when`"),
        (
            "when = { method = \"x\" }\naction = \"melt\"",
            4,
            "unknown action",
        ),
        (
            "when = { method = \"x\" }\naction = \"allow\"\nmessage = \"m\"",
            5,
            "has no effect",
        ),
        (
            "when = { method = \"x\" }\naction = \"delay\"",
            4,
            "needs a time",
        ),
        (
            "when = { method = \"x\" }\naction = \"delay\"\ndelay = \"2h\"",
            5,
            "at most 60s",
        ),
        (
            "when = { method = \"x\" }\naction = \"modify\"",
            4,
            "needs `set` or `redact`",
        ),
        (
            "when = { method = \"x\" }\naction = \"error\"\ncode = 1",
            4,
            "needs a `code` and a `message`",
        ),
        (
            "when = { param = { path = \"a..b\", equals = 1 } }\naction = \"log\"",
            3,
            "invalid path",
        ),
        (
            "when = { param = { path = \"a\" } }\naction = \"log\"",
            3,
            "give one of",
        ),
        (
            "when = { param = { path = \"a\", equals = [1] } }\naction = \"log\"",
            3,
            "can be compared",
        ),
        (
            "on = [\"request\"]\nwhen = { is_error = true }\naction = \"log\"",
            3,
            "only a response",
        ),
        (
            "on = [\"response\"]\nwhen = { param = { path = \"a\", exists = true } }\naction = \"log\"",
            3,
            "no parameters",
        ),
        (
            "when = { is_error = true, param = { path = \"a\", exists = true } }\naction = \"log\"",
            3,
            "no message has both",
        ),
        (
            "when = { finding = { category = \"nonsense\" } }\naction = \"log\"",
            3,
            "unknown category",
        ),
        (
            "when = { any = [{ rate = { more_than = 1, within = \"1s\" } }] }\naction = \"log\"",
            3,
            "next to the other conditions",
        ),
        (
            "when = { time = { from = \"25:00\" } }\naction = \"log\"",
            3,
            "invalid time of day",
        ),
        (
            "when = { time = { from = \"08:00\", to = \"08:00\" } }\naction = \"log\"",
            3,
            "the same",
        ),
        (
            "when = { method = \"a\", all = [{ method = \"b\" }] }\naction = \"log\"",
            3,
            "never apply",
        ),
        (
            "priority = 99999999\nwhen = { method = \"a\" }\naction = \"log\"",
            3,
            "priority",
        ),
    ] {
        let (found, problem) = mistake(&rule(lines));
        assert!(problem.contains(part), "{lines}: {problem}");
        assert_eq!(found, line, "{lines}: {problem}");
    }
}

#[test]
fn rules_that_contradict_each_other_are_refused() {
    let two = |first: &str, second: &str| {
        let rule = |id: &str, rest: &str| {
            format!("[[rule]]\nid = \"{id}\"\nwhen = {{ tool = \"x\", method = \"y\" }}\n{rest}\n")
        };
        compile(&format!("{}{}", rule("a", first), rule("b", second)))
    };
    let errors = two("action = \"allow\"", "action = \"block\"").unwrap_err();
    assert_eq!(errors[0].line, 8);
    assert!(errors[0].problem.contains("p.toml:2"), "{errors:?}");
    assert!(two("action = \"allow\"\npriority = 1", "action = \"block\"").is_ok());
    assert!(two("action = \"log\"", "action = \"block\"").is_ok());
    let twice = "[[rule]]\nid = \"a\"\nwhen = { tool = \"x\" }\naction = \"log\"\n".repeat(2);
    assert!(
        compile(&twice).unwrap_err()[0]
            .problem
            .contains("used twice")
    );
    // One mistake per rule, all of them.
    let wrong = "[[rule]]\nid = \"A\"\nwhen = {}\naction = \"log\"\n[[rule]]\nid = \"b\"\nwhen = {}\naction = \"log\"\n";
    let lines: Vec<usize> = compile(wrong)
        .unwrap_err()
        .iter()
        .map(|error| error.line)
        .collect();
    assert_eq!(lines, [2, 7]);
}

#[test]
fn conditions_do_not_nest_without_end() {
    let nested = format!(
        "{}{{ tool = \"x\" }}{}",
        "{ not = ".repeat(20),
        " }".repeat(20)
    );
    assert!(
        mistake(&rule(&format!("when = {nested}\naction = \"log\"")))
            .1
            .contains("nest")
    );
}

/// The policies shipped as examples.
fn shipped(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/policies");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn every_shipped_policy_compiles_alone_and_with_the_others() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/policies");
    let names = std::fs::read_dir(folder).unwrap();
    let files: Vec<(String, String)> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| (name.clone(), shipped(&name)))
        .collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in &files {
        Policy::compile(std::slice::from_ref(file)).unwrap();
    }
    Policy::compile(&files).unwrap();
}

#[test]
fn the_read_only_file_system_hides_and_blocks() {
    let mut tried = Tried::new(&shipped("read-only-filesystem.toml"));
    tried.say(
        TO_SERVER,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
    );
    let listing = r#"{"tools":[{"name":"read_file"}, {"name":"write_file"},{"name":"move_file"}],"nextCursor":"x"}"#;
    let became = tried.say(TO_CLIENT, result(1, listing));
    assert_eq!(
        became.text(),
        result(1, r#"{"tools":[{"name":"read_file"}],"nextCursor":"x"}"#)
    );
    assert_eq!(became.records[0].hidden, ["write_file", "move_file"]);
    assert!(tried.calls(2, "read_file"));
    let became = tried.say(TO_SERVER, call(3, "write_file", "{}"));
    assert_eq!(
        (became.passed.clone(), became.actions()),
        (None, vec!["block"])
    );
    let reply: serde_json::Value = serde_json::from_str(&became.replies[0]).unwrap();
    assert_eq!(
        (&reply["id"], &reply["result"]["isError"]),
        (&3.into(), &true.into())
    );
}

#[test]
fn nothing_is_sent_after_a_private_read() {
    let mut tried = Tried::new(&shipped("no-send-after-private-read.toml"));
    assert!(tried.calls(1, "send_message"));
    assert!(tried.calls(2, "read_file"));
    assert!(!tried.calls(3, "send_message"));
    assert!(!tried.calls(4, "slack-post"));
    assert!(tried.calls(5, "postpone"));
    tried.wait(31 * 60);
    assert!(tried.calls(6, "send_message"));
}

#[test]
fn tools_that_are_not_listed_are_neither_offered_nor_called() {
    let mut tried = Tried::new(&shipped("listed-tools-only.toml"));
    assert!(tried.calls(1, "search_files") && !tried.calls(2, "write_file"));
    // A call without a tool is not a call of a listed one.
    let nameless = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}"#;
    assert!(tried.say(TO_SERVER, nameless).passed.is_none());
    tried.say(
        TO_SERVER,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#,
    );
    let listing = r#"{"tools":[{"name":"search_files"},{"name":"new"},{}]}"#;
    let became = tried.say(TO_CLIENT, result(4, listing));
    assert_eq!(
        became.text(),
        result(4, r#"{"tools":[{"name":"search_files"}]}"#)
    );
}

#[test]
fn what_nobody_approved_is_neither_offered_nor_called() {
    use crate::policy::situation::ToolStatus;
    let mut tried = Tried::new(&shipped("approved-tools-only.toml"));
    tried.session.note_status("good", ToolStatus::Approved);
    tried.session.note_status("turned", ToolStatus::Changed);
    assert!(tried.calls(1, "good") && !tried.calls(2, "turned") && !tried.calls(3, "unknown"));
    tried.say(
        TO_SERVER,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#,
    );
    let listing = r#"{"tools":[{"name":"turned"},{"name":"good"},{"name":"unknown"}]}"#;
    let became = tried.say(TO_CLIENT, result(4, listing));
    assert_eq!(became.text(), result(4, r#"{"tools":[{"name":"good"}]}"#));
    // Of two forms of one tool, the worse one counts.
    tried.session.note_status("good", ToolStatus::Changed);
    tried.session.note_status("good", ToolStatus::Approved);
    assert!(!tried.calls(5, "good"));
}

#[test]
fn what_nobody_could_find_out_is_supposed_and_told() {
    use crate::policy::situation::ToolStatus;
    for (supposed, passes) in [(ToolStatus::Changed, false), (ToolStatus::Approved, true)] {
        let rules = shipped("approved-tools-only.toml")
            + "[[rule]]\nid = \"seen\"\nwhen = { tool_status = \"approved\" }\naction = \"log\"\n";
        let mut tried = Tried::new(&rules);
        tried.session.suppose_status(supposed);
        tried.session.note_status("known", ToolStatus::Approved);
        let call = |id: u32, tool: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#
            )
        };
        let became = tried.say(TO_SERVER, call(1, "new"));
        assert_eq!(became.passed.is_some(), passes);
        assert_eq!(became.records[0].reason, Some("status_unknown"));
        assert!(tried.calls(2, "known"));
        tried.session.forget_statuses();
        let became = tried.say(TO_SERVER, call(3, "new"));
        assert_eq!(
            (became.passed.is_some(), became.records[0].reason),
            (false, None)
        );
    }
}

#[test]
fn a_session_says_whose_status_counts() {
    let mut tried = Tried::new(&shipped("approved-tools-only.toml"));
    let asked = |tried: &Tried, direction, frame: &str| {
        let mut all = Vec::new();
        tried
            .session
            .tools_in(direction, frame.as_bytes(), &mut |name, definition| {
                all.push((
                    name.to_owned(),
                    definition.map(|text| text.get().to_owned()),
                ));
            });
        all
    };
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
    let named = |name: &str| (name.to_owned(), None);
    assert_eq!(asked(&tried, TO_SERVER, call), [named("a")]);
    let batch = format!("[{call},{{\"jsonrpc\":\"2.0\",\"method\":\"x\"}},{call}]");
    assert_eq!(asked(&tried, TO_SERVER, &batch), [named("a"), named("a")]);
    let list = r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#;
    assert_eq!(asked(&tried, TO_SERVER, list), []);
    let listing = r#"{"jsonrpc":"2.0","id":"l","result":{"tools":[{"name":"a","x":1},{}]}}"#;
    assert_eq!(asked(&tried, TO_CLIENT, listing), []);
    tried.say(TO_SERVER, list);
    let with = |name: &str, text: &str| (name.to_owned(), Some(text.to_owned()));
    let expected = [with("a", r#"{"name":"a","x":1}"#), with("", "{}")];
    assert_eq!(asked(&tried, TO_CLIENT, listing), expected);
    assert_eq!(asked(&tried, TO_CLIENT, "no message"), []);
}

#[test]
fn secrets_are_masked_and_everything_else_stays() {
    let mut tried = Tried::new(&shipped("secrets-masked.toml"));
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
    assert!(tried.calls(1, "env"));
    let text =
        format!(r#"{{ "b":1.0, "content":[{{"type":"text","text":"a\n{secret}"}}] ,"a":1e2}}"#);
    let became = tried.say(TO_CLIENT, result(1, &text));
    let masked = text.replace(secret, "«redacted:github_token»");
    assert_eq!(became.text(), result(1, &masked));
    assert!(!became.records[0].before.contains(secret));
    assert!(tried.calls(2, "env"));
    let clean = result(2, r#"{"content":[]}"#);
    assert_eq!(tried.say(TO_CLIENT, &clean).text(), clean);
}
