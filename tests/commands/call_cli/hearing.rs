//! What the server says beside its answers.

use serde_json::{Value, json};

use super::{Workspace, mcpinspect};

#[test]
fn the_envelope_has_everything_that_was_heard() {
    let workspace = Workspace::new();
    let response = workspace.envelope(
        "legacy",
        &[
            "tools/call",
            "--tool",
            "show",
            "--arg",
            "a=1.5",
            "--arg",
            "b=2",
            "--env",
            "CALLED=yes",
        ],
    );
    let members: Vec<&String> = response.as_object().unwrap().keys().collect();
    let expected = [
        "durationMs",
        "error",
        "logs",
        "method",
        "result",
        "serverRequests",
        "stderr",
        "structuredVersion",
        "success",
    ];
    assert_eq!(members, expected);
    assert_eq!(response["structuredVersion"], 1);
    assert_eq!(
        response["result"]["structuredContent"],
        json!({"env": "yes", "a": 1.5, "b": "2"})
    );
    assert_eq!(response["stderr"], json!(["on stderr"]));
    let log = &response["logs"][0];
    assert_eq!(
        [&log["level"], &log["message"], &log["logger"]],
        ["warning", "shown", "little"]
    );
    assert!(log["timestamp"].as_str().unwrap().ends_with('Z'));
    assert!(
        response["logs"][1]["message"]
            .as_str()
            .unwrap()
            .contains("not a message (not_json): stray")
    );
    assert!(response["durationMs"].as_f64().unwrap() > 0.0);
    let plain = workspace.call("legacy", &["tools/call", "--tool", "show", "--arg", "a=1"]);
    let result: Value = serde_json::from_slice(&plain.stdout).unwrap();
    assert_eq!(result["structuredContent"]["a"], 1);
    assert!(String::from_utf8_lossy(&plain.stderr).contains("[warning little] shown"));
}

#[test]
fn a_hostile_error_does_not_reach_the_terminal() {
    let workspace = Workspace::new();
    for options in [&["x/y"][..], &["x/y", "--structured"]] {
        let output = workspace.call("legacy", options);
        for bytes in [&output.stdout, &output.stderr] {
            assert!(!bytes.contains(&0x1b), "{output:?}");
        }
    }
}

#[test]
fn what_the_server_asks_is_declined_or_answered_from_a_file() {
    let workspace = Workspace::new();
    let answers = json!({"sampling/createMessage": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}},
        "elicitation/create": [{"action": "accept", "content": {"name": "Ann"}}]});
    let answers = workspace.write("answers.json", &answers.to_string());
    let response = workspace.envelope("legacy", &["tools/call", "--tool", "ask"]);
    let asked = &response["serverRequests"][0];
    assert_eq!(
        [&asked["method"], &asked["via"], &asked["scripted"]],
        [
            &json!("sampling/createMessage"),
            &json!("request"),
            &json!(false)
        ]
    );
    assert_eq!(asked["answer"]["error"]["code"], -1);
    assert_eq!(
        response["result"]["structuredContent"]["error"]["message"],
        "declined"
    );
    let response = workspace.envelope(
        "legacy",
        &["tools/call", "--tool", "ask", "--answer", &answers],
    );
    assert_eq!(response["serverRequests"][0]["scripted"], true);
    assert_eq!(
        response["result"]["structuredContent"]["result"]["model"],
        "m"
    );

    let response = workspace.envelope("modern", &["tools/call", "--tool", "ask"]);
    assert_eq!(
        response["result"]["structuredContent"],
        json!({"k": {"action": "decline"}})
    );
    assert_eq!(response["serverRequests"][0]["via"], "input_required");
    let response = workspace.envelope(
        "modern",
        &["tools/call", "--tool", "ask", "--answer", &answers],
    );
    assert_eq!(
        response["result"]["structuredContent"]["k"]["content"]["name"],
        "Ann"
    );
}

#[test]
fn a_server_is_watched_after_its_result() {
    let workspace = Workspace::new();
    let response = workspace.envelope("legacy", &["x/later", "--watch", "1s"]);
    assert_eq!(response["success"], true, "{response}");
    assert!(
        response["durationMs"].as_f64().unwrap() < 1000.0,
        "{response}"
    );
    let notified = &response["notifications"][0];
    assert_eq!(notified["method"], "notifications/tools/list_changed");
    assert_eq!(notified["params"], json!({"later": true}));
    assert!(notified["timestamp"].as_str().unwrap().ends_with('Z'));
    let plain = workspace.call("legacy", &["x/later", "--watch", "1s"]);
    assert_eq!(plain.stdout, b"{}\n");
    let words = String::from_utf8_lossy(&plain.stderr);
    assert!(
        words.contains(r#"[notified] notifications/tools/list_changed {"later":true}"#),
        "{words}"
    );

    // How far a call is, it asks itself.
    let show = [
        "tools/call",
        "--tool",
        "show",
        "--arg",
        "a=1",
        "--watch",
        "10ms",
    ];
    let response = workspace.envelope("legacy", &show);
    let progress = &response["notifications"][0];
    assert_eq!(progress["method"], "notifications/progress", "{response}");
    assert!(progress["params"]["progressToken"].is_u64(), "{response}");

    // A server of the modern era is asked to tell.
    let response = workspace.envelope("modern", &["tools/list", "--watch", "1s"]);
    let response = response["notifications"].as_array().unwrap();
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    assert_eq!(response[0]["params"], wanted, "{response:?}");
    assert_eq!(response[1]["method"], "notifications/tools/list_changed");
}

#[test]
fn a_server_that_ends_while_it_is_watched_has_failed() {
    let workspace = Workspace::new();
    let output = workspace.call("legacy", &["x/leave", "--watch", "60s", "--structured"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let response: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(response["error"]["code"], "exited", "{response}");
    assert_eq!(response["error"]["details"]["exitStatus"], 7);
    assert_eq!(response["result"], json!({}));
}

#[test]
fn the_wire_is_for_root_and_for_servers_that_are_started() {
    let workspace = Workspace::new();
    let at_url = [
        "ping",
        "--wire",
        "--structured",
        "--url",
        "http://127.0.0.1:1/",
    ];
    let output = mcpinspect(&at_url).output().unwrap();
    let mut refused = vec![(output, "only for servers on standard input and output")];
    let plain = workspace.call("legacy", &["tools/list", "--wire"]);
    refused.push((plain, "with `--structured` or `--script`"));
    if !nix::unistd::Uid::effective().is_root() {
        let unprivileged = workspace.call("legacy", &["tools/list", "--wire", "--structured"]);
        refused.push((unprivileged, "requires root"));
    }
    for (output, reason) in refused {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(words.contains(reason), "{words}");
    }
}
