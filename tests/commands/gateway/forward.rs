//! The gateway as a forward proxy: clients name the servers.

use std::process::Command;

use serde_json::Value;

use super::real::server;
use super::stub::{Answer, ReceivedRequest, StubServer, ask};
use super::{Gateway, RULES, call, guard};
use crate::support::folder::Folder;
use crate::support::running::python;

/// The client calls this.
const NO_SUMS: &str = "[[rule]]\nid = \"no-sums\"\nwhen = { method = \"tools/call\", tool = \"add\" }\naction = \"block\"\n";

/// A server that says its own name.
fn named(name: &'static str) -> StubServer {
    StubServer::start(move |seen, out| {
        let id = seen.id();
        out.json(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{name} hunter2"}}]}}}}"#
        ));
    })
}

fn address(stub: &StubServer) -> String {
    stub.url("").trim_start_matches("http://").to_owned()
}

fn post(gateway: &Gateway, stub: &StubServer, body: &str) -> Answer {
    let fields = format!(
        "host: {}\r\ncontent-type: application/json\r\n",
        address(stub)
    );
    ask(
        gateway.address(),
        "POST",
        &stub.url("/mcp?a=1"),
        &fields,
        body,
    )
}

#[test]
fn each_server_is_reached_and_judged() {
    let (one, other) = (named("one"), named("other"));
    let gateway = Gateway::forward(RULES, &[]);
    assert!(!gateway.url().trim_start_matches("http://").contains('/'));
    for (stub, name) in [(&one, "one"), (&other, "other"), (&one, "one")] {
        let answer = post(&gateway, stub, &call(1, "read"));
        assert!(
            answer.text().contains(&format!("{name} hunter2")),
            "{answer:?}"
        );
        let answer = post(&gateway, stub, &call(2, "env"));
        assert!(
            answer.text().contains(name) && !answer.text().contains("hunter2"),
            "{answer:?}"
        );
        let answer = post(&gateway, stub, &call(3, "write"));
        assert!(answer.text().contains("Read only."), "{answer:?}");
    }
    let seen: Vec<ReceivedRequest> = one.requests();
    assert_eq!(seen.len(), 4, "what is blocked does not arrive");
    assert!(
        seen[0].head.starts_with("POST /mcp?a=1 HTTP/1.1"),
        "{}",
        seen[0].head
    );
    assert_eq!(seen[0].field("host"), Some(&*address(&one)));
    let decisions = gateway.decisions();
    assert_eq!(decisions.len(), 6);
    assert!(
        decisions
            .iter()
            .all(|decision| decision["server_id"] == "127.0.0.1")
    );
}

#[test]
fn what_names_no_server_goes_nowhere() {
    let stub = named("one");
    let gateway = Gateway::forward(RULES, &[]);
    let own = format!("host: {}\r\n", gateway.address());
    let other = "host: elsewhere.example\r\n";
    let itself = gateway.url().to_owned();
    for (method, target, fields, status) in [
        ("POST", "/mcp", "", 400),
        (
            "POST",
            "https://127.0.0.1:1/mcp",
            "host: 127.0.0.1:1\r\n",
            400,
        ),
        (
            "POST",
            "http://me@127.0.0.1:1/mcp",
            "host: 127.0.0.1:1\r\n",
            400,
        ),
        ("CONNECT", "127.0.0.1:443", "host: 127.0.0.1:443\r\n", 400),
        // A name in the field that is not that of the URL.
        ("POST", &stub.url("/mcp"), other, 403),
        // Round in circles.
        ("POST", &itself, &own, 400),
    ] {
        let answer = ask(gateway.address(), method, target, fields, "");
        assert_eq!(answer.status, status, "{method} {target}: {answer:?}");
    }
    assert!(stub.requests().is_empty());
    let reasons: Vec<_> = gateway
        .decisions()
        .iter()
        .map(|decision| decision["reason"].as_str().unwrap().to_owned())
        .collect();
    assert!(reasons.contains(&"no_server".to_owned()), "{reasons:?}");
}

#[test]
fn only_allowed_servers_are_reached() {
    let (one, other) = (named("one"), named("other"));
    let gateway = Gateway::forward(RULES, &["--to", &address(&one)]);
    assert_eq!(post(&gateway, &one, &call(1, "read")).status, 200);
    let refused = post(&gateway, &other, &call(1, "read"));
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("--to"), "{refused:?}");
    assert!(other.requests().is_empty());
    let policy = gateway.folder.path().join("p.toml");
    let open = guard(&[
        "--listen",
        "0.0.0.0:0",
        "--forward",
        "--allow-remote",
        "--policy",
        policy.to_str().unwrap(),
    ]);
    assert!(!open.status.success());
    assert!(String::from_utf8_lossy(&open.stderr).contains("--to"));
}

/// Many servers are known for a while, and none for ever.
#[test]
fn any_number_of_servers_fits() {
    let gateway = Gateway::forward(RULES, &[]);
    let stub = named("one");
    let port = address(&stub).rsplit(':').next().unwrap().to_owned();
    for number in 0..600 {
        // All of this network is this machine.
        let host = format!("127.0.{}.{}:{port}", number / 250, number % 250 + 1);
        let fields = format!("host: {host}\r\n");
        let target = format!("http://{host}/mcp");
        let answer = ask(gateway.address(), "GET", &target, &fields, "");
        // Nobody listens at most of them.
        assert!(matches!(answer.status, 200 | 502), "{number}: {answer:?}");
    }
}

#[test]
fn a_real_client_uses_it_as_its_proxy() {
    let folder = Folder::with_server(include_str!("../call_cli/sdk_server.py"));
    for transport in ["stream", "sse"] {
        let server = server(&folder, transport);
        let gateway = Gateway::forward(NO_SUMS, &[]);
        let program = folder.write("client.py", include_str!("client.py"));
        let output = Command::new(python())
            .args([&program, transport, &server.first_line])
            .env("HTTP_PROXY", gateway.url())
            .env_remove("NO_PROXY")
            .env_remove("no_proxy")
            .output()
            .unwrap();
        let found: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert_ne!(found["add"]["text"], "42", "{found}");
        assert_eq!(found["tools"].as_array().map(Vec::len), Some(5), "{found}");
        let decisions = gateway.decisions();
        assert!(
            decisions
                .iter()
                .any(|decision| decision["action"] == "block"),
            "{found} {decisions:?}"
        );
    }
}
