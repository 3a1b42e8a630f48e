//! `mcpinspect policy`, as someone uses it who writes a policy and has a recorded session.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::built;

const POLICY: &str = r#"
[[rule]]
id = "no-writes"
when = { method = "tools/call", tool = { contains = "write" } }
action = "block"

[[rule]]
id = "masked"
on = ["response"]
when = { tool = "env" }
action = "modify"
redact = [{ path = "**", secrets = true }]
"#;

const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ456789";

fn mcpinspect(arguments: &[&str]) -> Output {
    Command::new(built("mcpinspect"))
        .arg("policy")
        .args(arguments)
        .output()
        .unwrap()
}

/// A tape on which a client calls three tools.
fn tape() -> String {
    let header = json!({"format": "mcpinspect-tape", "version": 1, "session_id": "s", "server_id": "little",
        "fingerprint": "f", "name_source": "x", "transport": "stdio", "started": "2026-11-23T12:00:00Z"});
    let mut lines = vec![header.to_string()];
    let mut add = |direction: &str, message: Value| {
        let sequence = lines.len();
        let entry = json!({"time": format!("2026-11-23T12:00:0{sequence}Z"), "direction": direction,
            "kind": "x", "sequence": sequence, "transport": "stdio", "bytes": 0, "message": message});
        lines.push(entry.to_string());
    };
    for (id, tool) in [(1, "read"), (2, "write_file"), (3, "env")] {
        add(
            "client_to_server",
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}}),
        );
        add(
            "server_to_client",
            json!({"jsonrpc": "2.0", "id": id,
            "result": {"content": [{"type": "text", "text": SECRET}]}}),
        );
    }
    lines.join("\n")
}

#[test]
fn a_policy_is_tried_on_a_tape() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("p.toml"), POLICY).unwrap();
    std::fs::write(path("t.jsonl"), tape()).unwrap();
    let checked = mcpinspect(&["check", &path("p.toml")]);
    assert_eq!(
        String::from_utf8_lossy(&checked.stdout),
        "2 rules, no mistakes\n"
    );

    let tested = mcpinspect(&[
        "test",
        &path("t.jsonl"),
        "--policy",
        &path("p.toml"),
        "--json",
    ]);
    assert!(tested.status.success(), "{tested:?}");
    let text = String::from_utf8(tested.stdout).unwrap();
    assert!(!text.contains(SECRET));
    let decided: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shown: Vec<String> = decided
        .iter()
        .map(|line| {
            format!(
                "{} {} {}",
                line["sequence"], line["action"], line["rules"][0]["id"]
            )
        })
        .collect();
    assert_eq!(
        shown,
        ["3 \"block\" \"no-writes\"", "6 \"modify\" \"masked\""]
    );

    let tested = mcpinspect(&["test", &path("t.jsonl"), "--policy", &path("p.toml")]);
    let text = String::from_utf8(tested.stdout).unwrap();
    assert!(
        text.contains("write_file")
            && text.ends_with("6 messages, 2 matched, 1 of them kept back\n"),
        "{text}"
    );
}

#[test]
fn mistakes_have_their_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.toml"), POLICY).unwrap();
    std::fs::write(
        folder.path().join("b.toml"),
        "\n[[rule]]\nid = \"x\"\nwhen = { metod = \"y\" }\naction = \"log\"\n",
    )
    .unwrap();
    let checked = mcpinspect(&["check", folder.path().to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1));
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(said.contains("b.toml:4: unknown field `metod`"), "{said}");
    let nowhere = mcpinspect(&["check", "/nonexistent/policy.toml"]);
    assert_eq!(nowhere.status.code(), Some(1));
}
