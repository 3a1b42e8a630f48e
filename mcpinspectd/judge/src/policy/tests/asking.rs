//! A person decides, and copies are made.

use super::*;
use crate::policy::consent::Reply;

const ASK: &str = r#"
    [[rule]]
    id = "no-delete"
    priority = 2
    when = { tool = "delete" }
    action = "block"

    [[rule]]
    id = "copy"
    priority = 1
    when = { method = "tools/call" }
    action = "fork"
    to = { file = "/var/log/calls.jsonl" }

    [[rule]]
    id = "writes"
    name = "Files change"
    when = { method = "tools/call", tool = { in = ["write", "edit"] } }
    action = "ask"
    question = "Is this file meant?"
    timeout = "30s"
    answer = "result"

    [[rule]]
    id = "nothing-else"
    priority = -1
    when = { method = "tools/call", tool = "write" }
    action = "block"
"#;

fn ask(tried: &mut Tried, line: &str, reply: Reply, passes: bool) -> Became {
    let time = Timestamp(tried.time);
    let questions = tried
        .session
        .questions(TO_SERVER, line.as_bytes(), time, &[]);
    let consents: Vec<_> = questions
        .into_iter()
        .map(|question| question.answered(reply, passes))
        .collect();
    tried.session.note_consents(consents);
    tried.say(TO_SERVER, line)
}

#[test]
fn a_yes_lets_one_message_pass_and_a_no_is_answered() {
    let mut tried = Tried::new(ASK);
    let line = call(1, "write", r#"{"password":"hunter22hunter22"}"#);
    let time = Timestamp(0);
    let questions = tried
        .session
        .questions(TO_SERVER, line.as_bytes(), time, &[]);
    assert_eq!(questions.len(), 1);
    let question = questions.into_iter().next().unwrap();
    assert_eq!(
        (question.server.as_str(), question.tool.as_deref()),
        ("files", Some("write"))
    );
    assert!(!question.params.contains("hunter22"), "{}", question.params);
    // Nothing was counted, and no one has answered yet.
    let became = tried.say(TO_SERVER, &line);
    assert!(became.passed.is_none() && became.actions() == ["block"]);

    let became = ask(&mut tried, &line, Reply::Allowed, true);
    assert_eq!(became.text(), line);
    assert_eq!(became.actions(), ["allow"]);
    assert_eq!(became.records[0].asked, Some("allowed"));
    // Once.
    assert!(tried.say(TO_SERVER, &line).passed.is_none());

    let became = ask(&mut tried, &line, Reply::Denied, false);
    assert_eq!(
        (became.passed, became.records[0].asked),
        (None, Some("denied"))
    );
    assert!(became.replies[0].contains("Not allowed by the user: Files change"));
    assert!(became.replies[0].contains(r#""isError":true"#));
}

#[test]
fn an_answer_counts_for_the_message_that_was_shown() {
    let mut tried = Tried::new(ASK);
    let time = Timestamp(0);
    let shown = call(1, "write", r#"{"path":"/tmp/a"}"#);
    let questions = tried
        .session
        .questions(TO_SERVER, shown.as_bytes(), time, &[]);
    let yes = questions
        .into_iter()
        .map(|question| question.answered(Reply::Allowed, true));
    tried.session.note_consents(yes.collect::<Vec<_>>());
    assert!(
        tried
            .say(TO_SERVER, call(1, "write", r#"{"path":"/etc/x"}"#))
            .passed
            .is_none()
    );
    assert!(tried.say(TO_SERVER, shown).passed.is_none());
}

#[test]
fn members_of_a_batch_are_asked_about_one_by_one() {
    let mut tried = Tried::new(ASK);
    let (write, edit) = (call(1, "write", "{}"), call(2, "edit", "{}"));
    let line = format!("[{write},{edit},{}]", call(3, "read", "{}"));
    let time = Timestamp(0);
    let questions = tried
        .session
        .questions(TO_SERVER, line.as_bytes(), time, &[]);
    let tools: Vec<_> = questions
        .iter()
        .map(|question| question.tool.clone().unwrap())
        .collect();
    assert_eq!(tools, ["write", "edit"]);
    let consents = questions.into_iter().map(|question| {
        let is_edit = question.tool.as_deref() == Some("edit");
        let reply = if is_edit {
            Reply::Allowed
        } else {
            Reply::NoAnswer
        };
        question.answered(reply, is_edit)
    });
    tried.session.note_consents(consents.collect::<Vec<_>>());
    let became = tried.say(TO_SERVER, &line);
    assert_eq!(became.text(), format!("[{edit},{}]", call(3, "read", "{}")));
    assert_eq!(became.records[0].asked, Some("no_answer"));
}

#[test]
fn what_is_blocked_or_unclear_is_not_asked_about() {
    let mut tried = Tried::new(ASK);
    for line in [
        call(1, "delete", "{}"),
        call(1, "read", "{}"),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","name":"x"}}"#
            .into(),
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"write"}}"#.into(),
        "no message".into(),
    ] {
        let time = Timestamp(0);
        let asked = tried
            .session
            .questions(TO_SERVER, line.as_bytes(), time, &[]);
        assert!(asked.is_empty(), "{line}");
    }
}

#[test]
fn one_who_looks_on_says_who_would_have_been_asked() {
    let policy = Arc::new(compile(ASK).unwrap());
    let mut session = Session::new(policy, Parties::of("files")).recorded();
    let line = call(1, "write", "{}");
    let handled = session.handle(TO_SERVER, line.as_bytes(), Timestamp(0), &[]);
    assert_eq!(handled.records[0].action, "ask");
    assert_eq!(handled.records[0].asked, None);
}

#[test]
fn copies_are_made_of_what_matches() {
    let mut tried = Tried::new(ASK);
    let line = call(1, "read", "{ }");
    let time = Timestamp(0);
    let handled = tried.session.handle(TO_SERVER, line.as_bytes(), time, &[]);
    assert_eq!(handled.forward, Forward::AsIs);
    assert_eq!(handled.copies, [(1, line.clone())]);
    let none = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    let handled = tried.session.handle(TO_SERVER, none.as_bytes(), time, &[]);
    assert!(handled.copies.is_empty() && handled.records.is_empty());
}

#[test]
fn mistakes_are_told() {
    for (rule, problem) in [
        (
            r#"action = "ask"
            timeout = "1h""#,
            "at most 600s",
        ),
        (
            r#"action = "ask"
            on = ["response"]"#,
            "`ask` applies only to requests",
        ),
        (
            r#"action = "ask"
            question = " ""#,
            "a `question` must have 1 to 300 bytes",
        ),
        (r#"action = "fork""#, "`fork` needs"),
        (
            r#"action = "fork"
            to = { file = "calls.jsonl" }"#,
            "an absolute path",
        ),
        (
            r#"action = "fork"
            to = { command = [] }"#,
            "`fork` needs",
        ),
        (
            r#"action = "fork"
            to = { file = "/a", command = ["b"] }"#,
            "`fork` needs",
        ),
        (r#"action = "webhook""#, "`webhook` needs a URL"),
        (
            r#"action = "webhook"
            url = "ftp://a/""#,
            "invalid URL",
        ),
        (
            r#"action = "block"
            url = "https://a/""#,
            "has no effect with the action `block`",
        ),
    ] {
        let text = format!("[[rule]]\nid = \"x\"\nwhen = {{ method = \"ping\" }}\n{rule}\n");
        let errors = compile(&text).unwrap_err();
        assert!(
            errors[0].problem.contains(problem),
            "{rule}: {}",
            errors[0].problem
        );
    }
}
