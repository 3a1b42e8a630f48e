//! Servers and clients of the Python SDK on each of its transports, with the gateway between them.

use std::process::Command;

use serde_json::{Value, json};

use super::{Gateway, JUDGED};
use crate::support::built;
use crate::support::folder::Folder;
use crate::support::running::{RunningServer, python};

const RULES: &str = r#"
[[rule]]
id = "add-blocked"
when = { method = "tools/call", tool = "add" }
action = "block"
answer = "result"
message = "No sums."

[[rule]]
id = "masked"
on = ["response"]
when = { tool = "where" }
action = "modify"
redact = [{ path = "**", matches = "hunter2" }]

[[rule]]
id = "told-hidden"
when = { tool = "tell" }
action = "hide"

[[rule]]
id = "broken"
when = { method = "tools/call", tool = "fail" }
action = "error"
code = -32050
message = "the disk is full"

[[rule]]
id = "no-questions"
when = { method = "elicitation/create" }
action = "block"
"#;

pub fn server(folder: &Folder, transport: &str) -> RunningServer {
    let program = folder.path("server.py");
    RunningServer::start(Command::new(python()).arg(program).arg(transport))
}

fn client(folder: &Folder, transport: &str, url: &str) -> Value {
    let program = folder.write("client.py", include_str!("client.py"));
    let output = Command::new(python())
        .args([&program, transport, url])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{transport}: {output:?}"))
}

#[test]
fn real_servers_and_clients_talk_through_it() {
    let folder = Folder::with_server(include_str!("../call_cli/sdk_server.py"));
    for transport in ["stream", "json", "stateless", "sse"] {
        let server = server(&folder, transport);
        let alone = client(&folder, transport, &server.first_line);
        assert_eq!(alone["add"]["text"], "42", "{transport}: {alone}");
        for policy in [JUDGED, ""] {
            let gateway = Gateway::start(policy, &server.first_line, &[]);
            assert_eq!(
                client(&folder, transport, gateway.url()),
                alone,
                "{transport}"
            );
        }
        let gateway = Gateway::start(RULES, &server.first_line, &[]);
        let guarded = client(&folder, transport, gateway.url());
        assert_eq!(
            guarded["add"],
            json!({"isError": true, "text": "No sums."}),
            "{transport}"
        );
        assert_eq!(guarded["where"]["text"], "in «redacted»", "{transport}");
        let tools = guarded["tools"].as_array().unwrap();
        assert!(
            !tools.contains(&json!("tell")) && tools.len() == 4,
            "{transport}: {guarded}"
        );
        assert_eq!(
            guarded["fail"],
            json!({"error": "the disk is full"}),
            "{transport}"
        );
        if transport == "stream" {
            assert_ne!(guarded["ask"], alone["ask"], "{guarded}");
        }
    }
}

/// The client of `mcpinspect call`, in both eras.
#[test]
fn both_eras_pass() {
    let folder = Folder::with_server(include_str!("../call_cli/sdk_server.py"));
    for (transport, era) in [
        ("stream", "modern"),
        ("stream", "legacy"),
        ("json", "modern"),
        ("sse", "legacy"),
    ] {
        let server = server(&folder, transport);
        let gateway = Gateway::start(RULES, &server.first_line, &[]);
        let call = |arguments: &[&str]| -> Value {
            let mut command = Command::new(built("mcpinspect"));
            command.args(["call", "tools/call", "--structured", "--era", era]);
            command.args(["--url", gateway.url(), "--tool"]);
            serde_json::from_slice(&command.args(arguments).output().unwrap().stdout).unwrap()
        };
        let text = |response: &Value| response["result"]["content"][0]["text"].clone();
        let response = call(&["add", "--arg", "a=2", "--arg", "b=40"]);
        assert_eq!(text(&response), "No sums.", "{transport} {era}: {response}");
        let response = call(&["where", "--arg", "region=hunter2"]);
        assert_eq!(
            text(&response),
            "in «redacted»",
            "{transport} {era}: {response}"
        );
    }
}

#[test]
fn a_server_is_reached_with_tls_and_only_a_trusted_one() {
    let folder = Folder::with_server(include_str!("../call_cli/odd_http.py"));
    let made = Command::new(python())
        .args(["-c", include_str!("../call_cli/certificate.py")])
        .arg(folder.path(""))
        .status();
    assert!(made.unwrap().success());
    let server = RunningServer::start(
        Command::new("python3")
            .arg(folder.path("server.py"))
            .args(["requests", "server.pem", "server.key"].map(|name| folder.path(name))),
    );
    let url = format!("https://127.0.0.1:{}/plain", server.first_line);
    let listing = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let gateway = Gateway::trusting(JUDGED, &url, &folder.path("authority.pem"));
    let answer = gateway.ask("POST", "/plain", "", listing);
    assert_eq!(answer.status, 200, "{answer:?}");
    let gateway = Gateway::trusting(JUDGED, &url, &folder.path("server.pem"));
    let answer = gateway.ask("POST", "/plain", "", listing);
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("failed:"), "{answer:?}");
}
