//! What the server says beside its answers.

use serde_json::{Value, json};

use super::{Place, mcpinspect};

#[test]
fn the_envelope_has_everything_that_was_heard() {
    let place = Place::new();
    let told = place.envelope(
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
    let members: Vec<&String> = told.as_object().unwrap().keys().collect();
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
    assert_eq!(told["structuredVersion"], 1);
    assert_eq!(
        told["result"]["structuredContent"],
        json!({"env": "yes", "a": 1.5, "b": "2"})
    );
    assert_eq!(told["stderr"], json!(["on stderr"]));
    let log = &told["logs"][0];
    assert_eq!(
        [&log["level"], &log["message"], &log["logger"]],
        ["warning", "shown", "little"]
    );
    assert!(log["timestamp"].as_str().unwrap().ends_with('Z'));
    assert!(
        told["logs"][1]["message"]
            .as_str()
            .unwrap()
            .contains("no message (not_json): stray")
    );
    assert!(told["durationMs"].as_f64().unwrap() > 0.0);
    let plain = place.call("legacy", &["tools/call", "--tool", "show", "--arg", "a=1"]);
    let result: Value = serde_json::from_slice(&plain.stdout).unwrap();
    assert_eq!(result["structuredContent"]["a"], 1);
    assert!(String::from_utf8_lossy(&plain.stderr).contains("[warning little] shown"));
}

#[test]
fn a_hostile_error_does_not_reach_the_terminal() {
    let place = Place::new();
    for options in [&["x/y"][..], &["x/y", "--structured"]] {
        let output = place.call("legacy", options);
        for bytes in [&output.stdout, &output.stderr] {
            assert!(!bytes.contains(&0x1b), "{output:?}");
        }
    }
}

#[test]
fn what_the_server_asks_is_declined_or_answered_from_a_file() {
    let place = Place::new();
    let answers = json!({"sampling/createMessage": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}},
        "elicitation/create": [{"action": "accept", "content": {"name": "Ann"}}]});
    let answers = place.write("answers.json", &answers.to_string());
    let told = place.envelope("legacy", &["tools/call", "--tool", "ask"]);
    let asked = &told["serverRequests"][0];
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
        told["result"]["structuredContent"]["error"]["message"],
        "declined"
    );
    let told = place.envelope(
        "legacy",
        &["tools/call", "--tool", "ask", "--answer", &answers],
    );
    assert_eq!(told["serverRequests"][0]["scripted"], true);
    assert_eq!(told["result"]["structuredContent"]["result"]["model"], "m");

    let told = place.envelope("modern", &["tools/call", "--tool", "ask"]);
    assert_eq!(
        told["result"]["structuredContent"],
        json!({"k": {"action": "decline"}})
    );
    assert_eq!(told["serverRequests"][0]["via"], "input_required");
    let told = place.envelope(
        "modern",
        &["tools/call", "--tool", "ask", "--answer", &answers],
    );
    assert_eq!(
        told["result"]["structuredContent"]["k"]["content"]["name"],
        "Ann"
    );
}

#[test]
fn a_server_is_watched_after_its_result() {
    let place = Place::new();
    let told = place.envelope("legacy", &["x/later", "--watch", "1s"]);
    assert_eq!(told["success"], true, "{told}");
    assert!(told["durationMs"].as_f64().unwrap() < 1000.0, "{told}");
    let notified = &told["notifications"][0];
    assert_eq!(notified["method"], "notifications/tools/list_changed");
    assert_eq!(notified["params"], json!({"later": true}));
    assert!(notified["timestamp"].as_str().unwrap().ends_with('Z'));
    let plain = place.call("legacy", &["x/later", "--watch", "1s"]);
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
    let told = place.envelope("legacy", &show);
    let progress = &told["notifications"][0];
    assert_eq!(progress["method"], "notifications/progress", "{told}");
    assert!(progress["params"]["progressToken"].is_u64(), "{told}");

    // A server of the modern era is asked to tell.
    let told = place.envelope("modern", &["tools/list", "--watch", "1s"]);
    let told = told["notifications"].as_array().unwrap();
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    assert_eq!(told[0]["params"], wanted, "{told:?}");
    assert_eq!(told[1]["method"], "notifications/tools/list_changed");
}

#[test]
fn a_server_that_ends_while_it_is_watched_has_failed() {
    let place = Place::new();
    let output = place.call("legacy", &["x/leave", "--watch", "60s", "--structured"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["error"]["code"], "exited", "{told}");
    assert_eq!(told["error"]["details"]["exitStatus"], 7);
    assert_eq!(told["result"], json!({}));
}

#[test]
fn the_wire_is_for_root_and_for_servers_that_are_started() {
    let place = Place::new();
    let at_url = [
        "ping",
        "--wire",
        "--structured",
        "--url",
        "http://127.0.0.1:1/",
    ];
    let output = mcpinspect(&at_url).output().unwrap();
    let mut refused = vec![(output, "only for servers on standard input and output")];
    let plain = place.call("legacy", &["tools/list", "--wire"]);
    refused.push((plain, "with `--structured` or `--script`"));
    if !nix::unistd::Uid::effective().is_root() {
        let unprivileged = place.call("legacy", &["tools/list", "--wire", "--structured"]);
        refused.push((unprivileged, "requires root"));
    }
    for (output, reason) in refused {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(words.contains(reason), "{words}");
    }
}
