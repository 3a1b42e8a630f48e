//! Who is let in, what passes of heads, and requests that can be read in two ways.

use std::time::{Duration, Instant};

use serde_json::json;

use super::stub::{StubServer, raw};
use super::{Gateway, JUDGED, call};

fn echo() -> StubServer {
    StubServer::start(|seen, out| {
        let id = seen.id();
        out.json(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    })
}

#[test]
fn fields_pass_and_those_of_the_hop_do_not() {
    let stub = StubServer::start(|seen, out| {
        if seen.head.starts_with("DELETE") {
            return out.respond("204 No Content", "", b"");
        }
        let fields = "content-type: application/json\r\nmcp-session-id: s1\r\nkeep-alive: timeout=5\r\nalt-svc: h2=\":1\"\r\nx-theirs: 1\r\nset-cookie: a=b\r\n";
        let id = seen.id();
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        out.respond("200 OK", fields, body.as_bytes());
    });
    let gateway = Gateway::before(JUDGED, &stub);
    let fields = "content-type: application/json\r\nauthorization: Bearer secret\r\nmcp-session-id: s1\r\nlast-event-id: 7\r\nmcp-protocol-version: 2025-06-18\r\nx-hop: 1\r\nte: trailers\r\nupgrade: h2c\r\nproxy-authorization: x\r\naccept-encoding: gzip\r\nx-mine: 2\r\n";
    let answer = gateway.ask("POST", "/mcp?key=1", fields, &call(1, "a"));
    assert_eq!(answer.status, 200, "{answer:?}");
    for field in ["mcp-session-id: s1", "x-theirs: 1", "set-cookie: a=b"] {
        assert!(answer.head.contains(field), "{field}: {answer:?}");
    }
    assert!(!answer.head.contains("alt-svc") && !answer.head.contains("timeout=5"));
    let seen = stub.requests().remove(0);
    assert!(
        seen.head.starts_with("POST /mcp?key=1 HTTP/1.1\r\n"),
        "{seen:?}"
    );
    for (field, value) in [
        ("authorization", Some("Bearer secret")),
        ("mcp-session-id", Some("s1")),
        ("last-event-id", Some("7")),
        ("x-mine", Some("2")),
        ("accept-encoding", Some("identity")),
        ("te", None),
        ("upgrade", None),
        ("connection", None),
        ("proxy-authorization", None),
    ] {
        assert_eq!(seen.field(field), value, "{field}: {seen:?}");
    }
    let answer = gateway.ask("DELETE", "/mcp", "mcp-session-id: s1\r\n", "");
    assert_eq!(answer.status, 204);
    assert!(stub.requests()[1].head.starts_with("DELETE /mcp "));
}

#[test]
fn strangers_are_not_let_in() {
    let stub = echo();
    let options = [
        "--allow-host",
        "box.example",
        "--allow-origin",
        "https://app.example",
    ];
    let gateway = Gateway::start(JUDGED, &stub.url("/mcp"), &options);
    let own = format!("host: {0}\r\norigin: http://{0}\r\n", gateway.address());
    for (fields, expected) in [
        ("host: evil.example\r\n", 403),
        ("host: box.example\r\n", 200),
        ("host: localhost\r\n", 200),
        ("origin: http://evil.example\r\n", 403),
        ("origin: null\r\n", 403),
        ("origin: https://app.example\r\n", 200),
        (&*own, 200),
    ] {
        let answer = gateway.ask("POST", "/mcp", fields, &call(1, "a"));
        assert_eq!(answer.status, expected, "{fields}: {answer:?}");
    }
    let answer = gateway.ask("POST", "http://evil.example/mcp", "", &call(1, "a"));
    assert_eq!(answer.status, 403);
    let answer = gateway.ask("CONNECT", "evil.example:443", "host: localhost\r\n", "");
    assert!(matches!(answer.status, 400 | 403 | 405), "{answer:?}");
    assert_eq!(stub.requests().len(), 4);
    let decisions = gateway.decisions();
    let is_recorded = |reason: &str, shown: &str| {
        decisions.iter().any(|decision| {
            let before = decision["before"].as_str().unwrap();
            decision["action"] == "refuse" && decision["reason"] == reason && before.contains(shown)
        })
    };
    assert!(
        is_recorded("foreign_host", "POST /mcp, host: evil.example"),
        "{decisions:?}"
    );
    assert!(
        is_recorded("foreign_origin", "origin: http://evil.example"),
        "{decisions:?}"
    );
    assert!(
        is_recorded("foreign_origin", "origin: null"),
        "{decisions:?}"
    );
}

#[test]
fn requests_with_two_readings_are_refused() {
    let stub = echo();
    let gateway = Gateway::before(JUDGED, &stub);
    for fields in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
        "content-length: 4\r\ncontent-length: 4\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "content-length : 4\r\n",
        "a: b\r\n content-length: 4\r\n",
        "a: b\ncontent-length: 4\r\n",
    ] {
        let text = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nhost: localhost\r\n\r\n"
        );
        let answer = raw(gateway.address(), text.as_bytes());
        assert_eq!(answer.status, 400, "{fields}");
        assert_eq!(answer.body.len(), 46, "{answer:?}");
    }
    let ambiguous = || {
        let decisions = gateway.decisions();
        let refused = decisions
            .iter()
            .filter(|decision| decision["reason"] == "ambiguous_request");
        refused.count()
    };
    // A connection is looked at once it has ended.
    let start = Instant::now();
    while ambiguous() < 7 && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ambiguous(), 7);
    for (fields, expected) in [
        (
            "content-type: application/json\r\ncontent-type: text/plain\r\n",
            400,
        ),
        ("mcp-name: a\r\nmcp-name: a\r\n", 400),
        ("content-encoding: gzip\r\n", 415),
        ("content-type: application/json; charset=utf-7\r\n", 415),
        ("content-type: application/json; charset=utf-16le\r\n", 415),
    ] {
        let answer = gateway.ask("POST", "/mcp", fields, &call(1, "a"));
        assert_eq!(answer.status, expected, "{fields}");
    }
    assert!(stub.requests().is_empty(), "{:?}", stub.requests());
}

#[test]
fn heads_agree_with_their_messages() {
    let stub = echo();
    let gateway = Gateway::before(JUDGED, &stub);
    for (fields, expected) in [
        ("mcp-method: tools/call\r\nmcp-name: a\r\n", 200),
        ("mcp-method: tools/list\r\n", 400),
        ("mcp-method: tools/call\r\nmcp-name: b\r\n", 400),
    ] {
        let answer = gateway.ask("POST", "/mcp", fields, &call(1, "a"));
        assert_eq!(answer.status, expected, "{fields}");
        if expected == 400 {
            let reply = answer.json();
            assert_eq!(
                (&reply["id"], &reply["error"]["code"]),
                (&1.into(), &(-32020).into())
            );
        }
    }
    let batch = format!("[{}]", call(1, "a"));
    let answer = gateway.ask("POST", "/mcp", "mcp-method: tools/call\r\n", &batch);
    assert_eq!(answer.status, 400);
    assert_eq!(stub.requests().len(), 1);

    // Fields that repeat an argument.
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "a", "arguments": {"region": "eu", "count": 3}}});
    for (fields, expected) in [
        ("mcp-param-region: eu\r\nmcp-param-n: 3\r\n", 200),
        ("mcp-param-region: us\r\n", 400),
        ("mcp-param-region: eu\r\nmcp-param-region: eu\r\n", 400),
    ] {
        let answer = gateway.ask("POST", "/mcp", fields, &body.to_string());
        assert_eq!(answer.status, expected, "{fields}");
    }
    let decisions = gateway.decisions();
    let refused = decisions
        .iter()
        .filter(|decision| decision["reason"] == "header_mismatch");
    assert_eq!(refused.count(), 5, "{decisions:?}");
}

#[test]
fn fields_follow_what_a_rule_changes() {
    let stub = echo();
    let policy = "[[rule]]\nid = \"near\"\nwhen = { tool = \"a\" }\naction = \"modify\"\nset = [{ path = \"arguments.region\", value = \"eu\" }]\n";
    let gateway = Gateway::before(policy, &stub);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "a", "arguments": {"region": "us", "count": 3}}});
    let fields = "mcp-param-region: us\r\nmcp-param-count: 3\r\n";
    let answer = gateway.ask("POST", "/mcp", fields, &body.to_string());
    assert_eq!(answer.status, 200);
    let seen = stub.requests();
    assert_eq!(seen[0].field("mcp-param-region"), Some("eu"));
    assert_eq!(seen[0].field("mcp-param-count"), Some("3"));
    assert!(
        seen[0].body.contains(r#""region":"eu""#),
        "{}",
        seen[0].body
    );
}

#[test]
fn redirects_do_not_lead_past_the_policy() {
    let stub = StubServer::start(|seen, out| {
        let to = match seen.head.contains("/away") {
            true => "http://evil.example/mcp".to_owned(),
            false => format!("http://{}/there?x=1", seen.field("host").unwrap()),
        };
        out.respond(
            "307 Temporary Redirect",
            &format!("location: {to}\r\n"),
            b"",
        );
    });
    let gateway = Gateway::before(JUDGED, &stub);
    let answer = gateway.ask("POST", "/mcp", "", &call(1, "a"));
    assert!(answer.head.contains("location: /there?x=1"), "{answer:?}");
    let answer = gateway.ask("POST", "/away", "", &call(1, "a"));
    assert_eq!((answer.status, &answer.json()["id"]), (502, &1.into()));
    let page = gateway.ask("GET", "/away", "accept: text/html\r\n", "");
    assert!(page.head.contains("location: http://evil.example/mcp"));
}
