//! If nothing matches, every byte passes; if something does, nothing gets past it.

use proptest::prelude::*;

use super::*;

const EMPTY: &str = "";
const NO_WRITES: &str = r#"
    [[rule]]
    id = "no-writes"
    when = { method = "tools/call", tool = "write" }
    action = "block"
    answer = "result"
"#;

#[test]
fn members_of_a_batch_are_judged_one_by_one() {
    let mut tried = Tried::new(NO_WRITES);
    let (read, write) = (call(1, "read", "{ }"), call(2, "write", "{}"));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let whole = format!(" [ {read} ,\t{note}]\r");
    assert_eq!(tried.say(TO_SERVER, &whole).text(), whole);
    let became = tried.say(TO_SERVER, format!("[{read} , {write}, {note}]"));
    assert_eq!(became.text(), format!("[{read},{note}]"));
    assert!(became.replies.len() == 1 && became.replies[0].contains("\"id\":2"));
    let became = tried.say(TO_SERVER, format!("[{write}]"));
    assert_eq!((became.passed.is_none(), became.replies.len()), (true, 1));
    let many = format!("[{}]", vec![note; 5000].join(","));
    assert_eq!(
        tried.say(TO_SERVER, many).records[0].reason,
        Some("too_many_messages")
    );
    // A member that is not a message here might be one to its receiver.
    let became = tried.say(
        TO_SERVER,
        format!(r#"[{read},{{"Method":"tools/call"}},7]"#),
    );
    assert_eq!(became.text(), format!("[{read},7]"));
}

/// Lines as peers write them, and as none should.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec!["tools/call", "ping", "write", "read", "x"]);
    let object = (word.clone(), word, any::<u8>(), prop::sample::select(vec![" ", "", "\t"]))
        .prop_map(|(method, tool, id, blank)| {
            format!(r#"{{"jsonrpc":"2.0",{blank}"id":{id},"method":"{method}","params":{{{blank}"name":"{tool}","x":1.0e0}}}}"#)
        });
    let batch =
        prop::collection::vec(object.clone(), 0..4).prop_map(|all| format!("[{}]", all.join(" ,")));
    prop_oneof![
        4 => object.prop_map(String::into_bytes),
        2 => batch.prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>().prop_filter("newline", |byte| *byte != b'\n'), 0..40),
        1 => "[\\[\\]{}\",:a-z\r ]{0,30}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn an_empty_policy_changes_no_byte(line in lines(), to_server in any::<bool>()) {
        let direction = if to_server { TO_SERVER } else { TO_CLIENT };
        let became = Tried::new(EMPTY).say(direction, &line);
        prop_assert_eq!(became.passed, Some(line));
        prop_assert!(became.records.is_empty() && became.replies.is_empty());
    }

    /// A strict parser reads whatever passes as nothing that the rule is about, and whatever the rule is
    /// not about passes unchanged.
    #[test]
    fn nothing_that_a_rule_is_about_passes(lines in prop::collection::vec(lines(), 1..8)) {
        let mut tried = Tried::new(NO_WRITES);
        for line in lines {
            let writes = |value: &serde_json::Value| {
                value["method"] == "tools/call" && value["params"]["name"] == "write"
            };
            let messages = |bytes: &[u8]| -> Vec<serde_json::Value> {
                match serde_json::from_slice(bytes) {
                    Ok(serde_json::Value::Array(members)) => members,
                    Ok(other) => vec![other],
                    Err(_) => Vec::new(),
                }
            };
            let became = tried.say(TO_SERVER, &line);
            let asked = messages(&line);
            let matches = asked.iter().filter(|value| writes(value)).count();
            prop_assert_eq!(became.replies.len(), matches);
            if let Some(passed) = &became.passed {
                prop_assert!(!messages(passed).iter().any(writes));
            }
            if matches == 0 && became.records.is_empty() {
                prop_assert_eq!(became.passed, Some(line));
            }
        }
    }
}
