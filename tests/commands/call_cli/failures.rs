//! Each failure has a real cause, a category of its own, and an exit status.

use std::process::Command;

use serde_json::json;

use super::{Workspace, call, envelope};
use crate::support::built;

/// Each failure has a real cause, a category of its own, and an exit status.
#[test]
fn the_table_of_failures_and_exit_codes() {
    let workspace = Workspace::new();
    let answers = workspace.write("answers.json", "{}");
    for (how, arguments, category, code, status) in [
        ("legacy", "tools/list", None, json!(null), 0),
        (
            "legacy",
            "hang --timeout 1",
            Some("transport"),
            json!("timeout"),
            1,
        ),
        ("dies", "tools/list", Some("transport"), json!("exited"), 1),
        (
            "legacy",
            "tools/call --tool crash",
            Some("transport"),
            json!("exited"),
            1,
        ),
        (
            "legacy",
            "prompts/list",
            Some("capability"),
            json!("not_offered"),
            1,
        ),
        (
            "modern",
            "logging/setLevel --level info",
            Some("capability"),
            json!("not_in_revision"),
            1,
        ),
        ("legacy", "x/y", Some("protocol"), json!(-32601), 1),
        (
            "legacy",
            "ping --era modern",
            Some("protocol"),
            json!(-32601),
            1,
        ),
        (
            "modern",
            "ping --era legacy",
            Some("protocol"),
            json!(-32601),
            1,
        ),
        (
            "legacy",
            "prompts/list --unchecked",
            Some("protocol"),
            json!(-32601),
            1,
        ),
        (
            "legacy",
            "tools/call --tool show --arg a=1 --arg b=fail",
            Some("application"),
            json!("is_error"),
            0,
        ),
        (
            "legacy",
            "tools/call --tool show --arg a=1 --arg b=fail --fail-on-error",
            Some("application"),
            json!("is_error"),
            1,
        ),
        (
            "legacy",
            "tools/call --tool show",
            Some("validation"),
            json!("invalid_arguments"),
            1,
        ),
        (
            "legacy",
            "tools/call --tool show --arg a=one",
            Some("validation"),
            json!("invalid_arguments"),
            1,
        ),
        (
            "legacy",
            "tools/call --tool nope",
            Some("validation"),
            json!("unknown_name"),
            1,
        ),
        (
            "legacy",
            "tools/call --tool odd",
            Some("validation"),
            json!("invalid_schema"),
            1,
        ),
        (
            "legacy",
            "tools/call",
            Some("validation"),
            json!("missing_parameter"),
            1,
        ),
        ("legacy", "tools/list --tool show", None, json!(null), 2),
        ("legacy", "tools/call --args-json [1]", None, json!(null), 2),
        (
            "legacy",
            "tools/list --answer /no/such/file",
            None,
            json!(null),
            2,
        ),
        (
            "legacy",
            &format!("tools/list --answer {answers}"),
            None,
            json!(null),
            0,
        ),
    ] {
        let words: Vec<&str> = arguments.split(' ').chain(["--structured"]).collect();
        let output = workspace.call(how, &words);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{how} {arguments}: {output:?}"
        );
        if status == 2 {
            assert!(
                output.stdout.is_empty() && !output.stderr.is_empty(),
                "{arguments}"
            );
            continue;
        }
        let response = envelope(&output);
        assert_eq!(
            response["success"],
            category.is_none(),
            "{arguments}: {response}"
        );
        assert_eq!(
            response["error"]["category"],
            json!(category),
            "{arguments}: {response}"
        );
        assert_eq!(response["error"]["code"], code, "{arguments}: {response}");
        // Without the envelope, the same exit status and the same failure in words.
        let plain = workspace.call(how, &words[..words.len() - 1]);
        assert_eq!(plain.status.code(), Some(status), "{arguments}");
        if let Some(category) = category {
            let words = String::from_utf8_lossy(&plain.stderr);
            assert!(
                words.contains(&format!("mcpinspect: {category}: ")),
                "{arguments}: {words}"
            );
        }
    }
}

#[test]
fn a_program_that_cannot_be_started_is_a_failure_of_transport() {
    let workspace = Workspace::new();
    let file = workspace.write("not-a-program", "");
    for (program, code) in [("/no/such/program", "not_found"), (&file, "not_permitted")] {
        let output = call(&["ping", "--structured"], &[program.to_owned()]);
        assert_eq!(output.status.code(), Some(1));
        let response = envelope(&output);
        assert_eq!(response["error"]["category"], "transport");
        assert_eq!(response["error"]["code"], code);
    }
    let output = Command::new(built("mcpinspect"))
        .args(["call", "ping"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "no command");
}

#[test]
fn a_crash_shows_how_the_server_ended_and_what_it_said_last() {
    let workspace = Workspace::new();
    let response = workspace.envelope("legacy", &["tools/call", "--tool", "crash"]);
    let details = &response["error"]["details"];
    assert_eq!(
        (&details["signal"], &details["exitStatus"]),
        (&json!(6), &json!(null))
    );
    assert_eq!(details["lastLine"], "out of cheese");
    assert_eq!(response["stderr"], json!(["out of cheese"]));
    let response = workspace.envelope("dies", &["ping"]);
    assert_eq!(response["error"]["details"]["exitStatus"], 3);
    let message = response["error"]["message"].as_str().unwrap();
    assert!(
        message.ends_with("(exit status: 3) before it answered; its last output: no configuration"),
        "{message}"
    );
}
