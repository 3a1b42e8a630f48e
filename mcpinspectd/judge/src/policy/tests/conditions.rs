//! Every condition and every action.

use mcpinspect_core::model::Severity;
use serde_json::{Value, json};

use super::*;
use crate::policy::situation::MessageFinding;

/// Whether a rule with these conditions blocks a message.
fn blocks(when: &str, direction: Direction, message: &Value) -> bool {
    let mut tried = Tried::new(&format!(
        "[[rule]]\nid = \"a\"\nwhen = {when}\naction = \"block\"\n"
    ));
    tried.say(direction, message.to_string()).passed.is_none()
}

fn call_of(tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

#[test]
fn conditions_on_requests() {
    let message = call_of(
        "write_file",
        json!({"path": "/home/a/.ssh/id", "n": 3, "deep": [{"x": true}], "esc": "a\"b"}),
    );
    for (when, holds) in [
        (r#"{ method = "tools/call" }"#, true),
        (r#"{ method = "tools/list" }"#, false),
        (r#"{ method = { matches = "^tools/" } }"#, true),
        (r#"{ method = { in = ["a", "tools/call"] } }"#, true),
        (r#"{ tool = { contains = "write" } }"#, true),
        (r#"{ tool = "read_file" }"#, false),
        (r#"{ from = "client" }"#, true),
        (r#"{ from = "server" }"#, false),
        (r#"{ server = "files" }"#, true),
        (r#"{ client = { matches = "" } }"#, false),
        (r#"{ user = "1000" }"#, false),
        (
            r#"{ param = { path = "arguments.path", contains = "/.ssh/" } }"#,
            true,
        ),
        (
            r#"{ param = { path = "arguments.path", matches = "^/etc" } }"#,
            false,
        ),
        (
            r#"{ param = { path = "arguments.n", equals = 3.0 } }"#,
            true,
        ),
        (
            r#"{ param = { path = "arguments.n", equals = "3" } }"#,
            false,
        ),
        (
            r#"{ param = { path = "arguments.n", in = [1, 2, 3] } }"#,
            true,
        ),
        (
            r#"{ param = { path = "arguments.deep[*].x", equals = true } }"#,
            true,
        ),
        (r#"{ param = { path = "**.x", exists = true } }"#, true),
        (
            r#"{ param = { path = "arguments.y", exists = false } }"#,
            true,
        ),
        (
            r#"{ param = { path = "arguments.esc", equals = "a\"b" } }"#,
            true,
        ),
        (r#"{ result = { path = "x", exists = true } }"#, false),
        (r#"{ not = { tool = "read_file" } }"#, true),
        (
            r#"{ tool = "write_file", not = { param = { path = "arguments.path", matches = "^/home/" } } }"#,
            false,
        ),
        (
            r#"{ any = [{ tool = "read_file" }, { param = { path = "arguments.n", equals = 3 } }] }"#,
            true,
        ),
        (
            r#"{ any = [{ tool = "read_file" }, { tool = "x" }] }"#,
            false,
        ),
        (
            r#"{ all = [{ tool = { contains = "file" } }, { method = "tools/call" }] }"#,
            true,
        ),
        (r#"{ tool_status = "unapproved" }"#, true),
        (r#"{ tool_status = "approved" }"#, false),
        (r#"{ finding = { severity = "low" } }"#, false),
    ] {
        assert_eq!(blocks(when, TO_SERVER, &message), holds, "{when}");
    }
}

#[test]
fn conditions_on_answers() {
    let results = json!({"content": [{"type": "text", "text": "key"}], "isError": true});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": results}).to_string();
    let error =
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "m"}}).to_string();
    for (when, of_answer, of_error) in [
        ("{ is_error = true }", true, true),
        ("{ is_error = false }", false, false),
        ("{ error = [-32000, -1] }", false, true),
        ("{ error = [-1] }", false, false),
        (
            r#"{ tool = "t", result = { path = "content[type=text].text", contains = "k" } }"#,
            true,
            false,
        ),
        (
            r#"{ tool = "other", result = { path = "content[*].text", contains = "k" } }"#,
            false,
            false,
        ),
        (r#"{ method = "tools/call", is_error = true }"#, true, true),
    ] {
        for (line, holds) in [(&answer, of_answer), (&error, of_error)] {
            let mut tried = Tried::new(&format!(
                "[[rule]]\nid = \"a\"\nwhen = {when}\naction = \"block\"\n"
            ));
            assert!(tried.calls(1, "t"));
            let became = tried.say(TO_CLIENT, line);
            assert_eq!(became.actions() == ["block"], holds, "{when} {line}");
            // The client waits for an answer, so it gets one.
            let passed: Value = serde_json::from_slice(&became.passed.unwrap()).unwrap();
            assert_eq!(passed["id"], 1);
            assert_eq!(passed["error"]["code"] == -32090, holds);
        }
    }
}

#[test]
fn findings_clients_and_users() {
    let policy = r#"
        [[rule]]
        id = "finding"
        when = { finding = { severity = "high", category = "exfiltration" } }
        action = "block"
        [[rule]]
        id = "client"
        when = { client = "agent", user = { in = ["alice", "0"] }, method = "ping" }
        action = "block"
    "#;
    let parties = Parties {
        user: vec!["1000".into(), "alice".into()],
        ..Parties::of("s")
    };
    let mut tried = Tried::with(Arc::new(compile(policy).unwrap()), parties);
    let found = |severity, category: &str| MessageFinding {
        severity,
        category: category.into(),
    };
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (found, passes) in [
        (found(Severity::High, "exfiltration"), false),
        (found(Severity::Critical, "exfiltration"), false),
        (found(Severity::Medium, "exfiltration"), true),
        (found(Severity::High, "concealment"), true),
    ] {
        let handled = tried
            .session
            .handle(TO_SERVER, ping.as_bytes(), Timestamp(0), &[found]);
        assert_eq!(handled.forward == Forward::AsIs, passes);
    }
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":"agent"}}}"#;
    assert!(tried.say(TO_SERVER, hello).passed.is_some());
    assert!(tried.say(TO_SERVER, ping).passed.is_none());
}

#[test]
fn priorities_and_allow() {
    let mut tried = Tried::new(
        r#"
        [[rule]]
        id = "no-tools"
        when = { method = "tools/call" }
        action = "block"
        [[rule]]
        id = "but-this"
        priority = 1
        when = { tool = "echo" }
        action = "allow"
        [[rule]]
        id = "noted"
        priority = 2
        when = { method = { matches = "." } }
        action = "log"
        "#,
    );
    let became = tried.say(TO_SERVER, call(1, "echo", "{}"));
    assert_eq!(became.actions(), ["allow"]);
    let rules: Vec<_> = became.records[0]
        .rules
        .iter()
        .map(|rule| &*rule.id)
        .collect();
    assert_eq!(rules, ["noted", "but-this"]);
    let became = tried.say(TO_SERVER, call(2, "rm", "{}"));
    assert_eq!(became.actions(), ["block"]);
    assert!(became.replies[0].contains("Blocked by policy (no-tools)"));
}

#[test]
fn rates_and_times_of_day() {
    let mut tried = Tried::new(
        r#"
        [[rule]]
        id = "rate"
        when = { tool = "x", rate = { more_than = 2, within = "10s" } }
        action = "block"
        "#,
    );
    assert!(tried.calls(1, "x") && tried.calls(2, "y") && tried.calls(3, "x"));
    assert!(!tried.calls(4, "x") && tried.calls(5, "y"));
    tried.wait(9);
    assert!(!tried.calls(6, "x"));
    tried.wait(1);
    assert!(tried.calls(7, "x") && tried.calls(8, "x") && !tried.calls(9, "x"));

    // 1970-01-01 was a Thursday.
    for (time, hour, blocked) in [
        (r#"{ from = "08:00", to = "18:00" }"#, 7, false),
        (r#"{ from = "08:00", to = "18:00" }"#, 8, true),
        (r#"{ from = "08:00", to = "18:00" }"#, 18, false),
        (r#"{ from = "22:00", to = "06:00" }"#, 5, true),
        (r#"{ from = "22:00", to = "06:00" }"#, 23, true),
        (r#"{ from = "22:00", to = "06:00" }"#, 12, false),
        (
            r#"{ from = "22:00", to = "06:00", days = ["thu"] }"#,
            5,
            false,
        ),
        (
            r#"{ from = "22:00", to = "06:00", days = ["thu"] }"#,
            29,
            true,
        ),
        (r#"{ days = ["fri", "sat"] }"#, 23, false),
        (r#"{ days = ["fri", "sat"] }"#, 24, true),
        (r#"{ from = "22:00" }"#, 23, true),
    ] {
        let mut tried = Tried::new(&format!(
            "[[rule]]\nid = \"a\"\nwhen = {{ from = \"client\", time = {time} }}\naction = \"block\"\n"
        ));
        tried.wait(hour * 3600);
        assert_eq!(!tried.calls(1, "x"), blocked, "{time} {hour}");
    }
}

#[test]
fn parameters_are_changed_where_they_stand() {
    let mut tried = Tried::new(
        r#"
        [[rule]]
        id = "set"
        when = { tool = "fetch" }
        action = "modify"
        set = [{ path = "arguments.timeout", value = 5 }, { path = "arguments.headers.dnt", value = "1" }]
        redact = [{ path = "arguments.url", matches = "token=[^&]*", with = "token=x" }]
        [[rule]]
        id = "empty"
        when = { tool = "fetch" }
        action = "modify"
        set = [{ path = "arguments.list[0]", value = { a = [1] } }]
        "#,
    );
    let before = r#"{"id":7, "x" : 1.50,"method":"tools/call","jsonrpc":"2.0","params":{"z":1, "name":"fetch", "arguments":{ "url":"h\u0074tp://a?token=abc&b", "timeout": 1e1 ,"headers":{},"list":[0, 12345678901234567890]} }, "y":2}"#;
    let after = r#"{"id":7, "x" : 1.50,"method":"tools/call","jsonrpc":"2.0","params":{"z":1, "name":"fetch", "arguments":{ "url":"http://a?token=x&b", "timeout": 5 ,"headers":{"dnt":"1"},"list":[{"a":[1]}, 12345678901234567890]} }, "y":2}"#;
    let became = tried.say(TO_SERVER, before);
    assert_eq!(became.text(), after);
    assert_eq!(became.actions(), ["modify"]);
    // A second time there is nothing to add, and what is unchanged is not rewritten.
    let became = tried.say(TO_SERVER, after);
    assert_eq!(became.text(), after);
    assert_eq!(became.records[0].after, None);
    // Without the objects on the way, nothing is created.
    let other = call(1, "fetch", "[]");
    assert_eq!(tried.say(TO_SERVER, &other).text(), other);
}

#[test]
fn errors_delays_and_alerts() {
    let mut tried = Tried::new(
        r#"
        [[rule]]
        id = "fails"
        when = { tool = "flaky" }
        action = "error"
        code = -32000
        message = "Connection \"closed\""
        [[rule]]
        id = "slow"
        priority = 1
        when = { method = "tools/call" }
        action = "delay"
        delay = "250ms"
        [[rule]]
        id = "told"
        when = { method = "notifications/x" }
        action = "alert"
        "#,
    );
    let became = tried.say(TO_SERVER, call(9, "flaky", "{}"));
    assert_eq!(
        became.replies,
        [r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32000,"message":"Connection \"closed\""}}"#]
    );
    let handled = tried.session.handle(
        TO_SERVER,
        call(1, "x", "{}").as_bytes().to_owned().leak(),
        Timestamp(0),
        &[],
    );
    assert_eq!(
        (handled.delay.as_millis(), &handled.forward),
        (250, &Forward::AsIs)
    );
    let became = tried.say(TO_CLIENT, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    assert!(became.passed.is_some() && became.records[0].is_alert());
}

#[test]
fn blocked_notifications_and_requests_of_servers() {
    let mut tried =
        Tried::new("[[rule]]\nid = \"a\"\nwhen = { from = \"server\" }\naction = \"block\"\n");
    let became = tried.say(TO_CLIENT, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    assert!(became.passed.is_none() && became.replies.is_empty());
    let became = tried.say(
        TO_CLIENT,
        r#"{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage"}"#,
    );
    assert!(became.passed.is_none() && became.replies[0].contains("\"id\":\"s1\""));
    assert!(tried.calls(1, "x"));
    assert!(tried.say(TO_CLIENT, result(1, "{}")).passed.is_some());
}
