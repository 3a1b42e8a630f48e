//! What the policy makes of messages on their way, and that everything else passes as it came.

use std::process::Command;

use serde_json::{Value, json};

use super::stub::{OpenStream, StubServer};
use super::{Gateway, JUDGED, RULES, call};

/// Answers as a server with a tool that says a password would, as JSON or as events.
fn server(as_events: bool) -> StubServer {
    StubServer::start(move |seen, out| {
        let Ok(message) = serde_json::from_str::<Value>(&seen.body) else {
            return out.json("{}");
        };
        let answer = |message: &Value| -> Option<Value> {
            let id = message.get("id")?;
            let result = match message["method"].as_str()? {
                "tools/list" => json!({"tools": [{"name": "read"}, {"name": "write"}]}),
                _ => json!({"content": [{"type": "text", "text": "it is hunter2"}]}),
            };
            Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
        };
        let answers: Vec<Value> = match &message {
            Value::Array(all) => all.iter().filter_map(answer).collect(),
            one => answer(one).into_iter().collect(),
        };
        match (as_events, answers.as_slice()) {
            (_, []) => out.respond("202 Accepted", "", b""),
            (true, all) => {
                out.chunked("content-type: text/event-stream\r\n");
                for one in all {
                    out.chunk(format!("event: message\nid: e\ndata: {one}\n\n").as_bytes());
                }
                out.end();
            }
            (false, [one]) if message.is_object() => out.json(&one.to_string()),
            (false, all) => out.json(&json!(all).to_string()),
        }
    })
}

#[test]
fn rules_hold_for_json_and_for_events() {
    for as_events in [false, true] {
        let stub = server(as_events);
        let gateway = Gateway::before(RULES, &stub);
        let answer = gateway.post(&call(1, "write"));
        assert_eq!(
            (answer.status, &answer.json()["result"]["isError"]),
            (200, &json!(true))
        );
        let answer = gateway.post(&call(2, "fails"));
        assert_eq!(
            answer.json()["error"],
            json!({"code": -32050, "message": "out of cheese"})
        );
        assert!(stub.requests().is_empty());
        let answer = gateway.post(&call(3, "env"));
        assert!(answer.text().contains("it is «redacted»"), "{answer:?}");
        let answer = gateway.post(r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#);
        assert!(
            answer.text().contains("read") && !answer.text().contains("write"),
            "{answer:?}"
        );
        let answer = gateway.post(&call(5, "other"));
        assert!(answer.text().contains("hunter2"));
        let batch = format!(
            "[{},{},{}]",
            call(6, "write"),
            call(7, "env"),
            call(8, "other")
        );
        let answer = gateway.post(&batch);
        let text = answer.text();
        assert!(
            text.contains("Read only.") && text.contains("«redacted»") && text.contains("hunter2"),
            "{text}"
        );
        if !as_events {
            assert_eq!(answer.json().as_array().unwrap().len(), 3);
        }
        let actions: Vec<Value> = gateway
            .decisions()
            .iter()
            .map(|one| one["action"].clone())
            .collect();
        assert_eq!(
            actions,
            ["block", "error", "modify", "hide", "block", "modify"]
        );
    }
}

#[test]
fn what_no_rule_concerns_passes_byte_for_byte() {
    const ODD: &str = " {\"jsonrpc\":\"2.0\" ,\r\n \"id\":1,\"result\":{\"b\":1.0,\"a\":\"\\u0041\"}, \"x\":[ ]}\n";
    let stub = StubServer::start(|seen, out| match seen.head.contains("/token") {
        true => out.json(TOKEN),
        false => out.json(ODD),
    });
    const TOKEN: &str = "{ \"access_token\" : \"x\" }";
    for policy in [JUDGED, RULES, ""] {
        let gateway = Gateway::before(policy, &stub);
        let asked = "{\r\n \"method\":\"ping\", \"jsonrpc\":\"2.0\",\"id\" : 1 }";
        let answer = gateway.post(asked);
        assert_eq!(answer.text(), ODD);
        assert_eq!(stub.requests().pop().unwrap().body, asked);
        // Other things that a server of the same host has.
        let answer = gateway.ask(
            "POST",
            "/token",
            "content-type: application/x-www-form-urlencoded\r\n",
            "a=b&c=%20",
        );
        assert_eq!((answer.status, &*answer.text()), (200, TOKEN));
    }
}

#[test]
fn what_can_be_read_in_two_ways_gets_past_no_rule() {
    let stub = server(false);
    let gateway = Gateway::before(RULES, &stub);
    for (body, has_id) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"write"}}"#,
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","name":"write"}}"#,
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","Name":"write"}}"#,
            true,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"write\"}} x",
            false,
        ),
        ("{'jsonrpc':'2.0','id':1,'method':'tools/call'}", false),
    ] {
        let answer = gateway.ask("POST", "/mcp", "content-type: text/plain\r\n", body);
        assert_eq!(answer.json()["error"]["code"], -32600, "{body}: {answer:?}");
        assert_eq!(answer.status, if has_id { 200 } else { 400 }, "{body}");
    }
    assert!(stub.requests().is_empty(), "{:?}", stub.requests());
    let refused = gateway.decisions();
    assert!(refused.len() == 5 && refused.iter().all(|one| one["action"] == "refuse"));
}

#[test]
fn an_answer_that_can_be_read_in_two_ways_becomes_an_error() {
    for body in [
        r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{"a":"hunter2"}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}} {}",
    ] {
        for kind in ["application/json", "text/plain", "text/event-stream"] {
            let stub = StubServer::start(move |_, out| {
                let body = match kind {
                    "text/event-stream" => format!("data: {body}\n\n"),
                    _ => body.to_owned(),
                };
                out.respond(
                    "200 OK",
                    &format!("content-type: {kind}\r\n"),
                    body.as_bytes(),
                );
            });
            let gateway = Gateway::before(RULES, &stub);
            let answer = gateway.post(&call(1, "env"));
            let text = answer.text();
            assert!(
                !text.contains("\"result\"") && text.contains("\"id\":1,\"error\""),
                "{kind} {body}: {answer:?}"
            );
        }
    }
}

/// Compresses with Python, which every machine that runs these tests has.
fn compressed(text: &str, how: &str) -> Vec<u8> {
    let program =
        format!("import sys, {how}; sys.stdout.buffer.write({how}.compress(sys.argv[1].encode()))");
    Command::new("python3")
        .args(["-c", &program, text])
        .output()
        .unwrap()
        .stdout
}

#[test]
fn compressed_answers_are_judged() {
    for (coding, how) in [("gzip", "gzip"), ("deflate", "zlib")] {
        for kind in ["application/json", "text/event-stream", "text/plain"] {
            let message = r#"{"jsonrpc":"2.0","id":1,"result":{"text":"hunter2"}}"#;
            let text = match kind {
                "text/event-stream" => format!("data: {message}\n\n"),
                _ => message.to_owned(),
            };
            let bytes = compressed(&text, how);
            let stub = StubServer::start(move |_, out| {
                let fields = format!("content-type: {kind}\r\ncontent-encoding: {coding}\r\n");
                out.respond("200 OK", &fields, &bytes);
            });
            let gateway = Gateway::before(RULES, &stub);
            let answer = gateway.post(&call(1, "env"));
            assert_eq!(
                answer.text(),
                text.replace("hunter2", "«redacted»"),
                "{coding} {kind}"
            );
            assert!(!answer.head.contains("content-encoding"));
        }
    }
    let stub = StubServer::start(|_, out| {
        out.respond(
            "200 OK",
            "content-type: application/json\r\ncontent-encoding: gzip, br\r\n",
            b"x",
        );
    });
    let gateway = Gateway::before(RULES, &stub);
    let answer = gateway.post(&call(1, "env"));
    assert_eq!((answer.status, &answer.json()["id"]), (502, &json!(1)));
}

/// What the server asks and may not is answered in the client's place.
#[test]
fn a_blocked_request_of_the_server_is_answered() {
    let stub = StubServer::start(|seen, out| {
        if seen.head.starts_with("POST") {
            return out.respond("202 Accepted", "", b"");
        }
        out.chunked("content-type: text/event-stream\r\n");
        out.chunk(
            b"data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"sampling/createMessage\"}\n\n",
        );
        out.chunk(b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/after\"}\n\n");
        out.wait();
    });
    let gateway = Gateway::before(RULES, &stub);
    let fields = "mcp-session-id: s\r\nauthorization: Bearer x\r\nlast-event-id: 3\r\n";
    let mut stream = OpenStream::get(gateway.address(), "/mcp", fields);
    assert!(!stream.until("notifications/after").contains("sampling"));
    let seen = stub.requests();
    let posted = seen
        .iter()
        .find(|seen| seen.head.starts_with("POST /mcp "))
        .unwrap();
    assert_eq!(posted.id(), "\"q\"");
    assert!(posted.body.contains("-32090"), "{posted:?}");
    assert_eq!(posted.field("mcp-session-id"), Some("s"));
    assert_eq!(posted.field("authorization"), Some("Bearer x"));
    assert_eq!(posted.field("last-event-id"), None);
}

#[test]
fn each_session_has_a_memory_of_its_own() {
    const RATE: &str = "[[rule]]\nid = \"slowly\"\nwhen = { method = \"tools/call\", rate = { more_than = 2, within = \"1h\" } }\naction = \"block\"\n";
    let stub = server(false);
    let gateway = Gateway::before(RATE, &stub);
    let passes = |fields: &str| {
        let answer = gateway.ask("POST", "/mcp", fields, &call(1, "read"));
        answer.json().get("result").is_some()
    };
    for fields in [
        "mcp-session-id: a\r\n",
        "mcp-session-id: b\r\n",
        "",
        "authorization: x\r\n",
    ] {
        let passed = [passes(fields), passes(fields), passes(fields)];
        assert_eq!(passed, [true, true, false], "{fields}");
    }
    gateway.ask("DELETE", "/mcp", "mcp-session-id: a\r\n", "");
    assert!(passes("mcp-session-id: a\r\n"));
}

/// A server says so that it has forgotten a session, and clients begin a new one when they see the status.
#[test]
fn errors_without_an_id_pass_and_are_judged() {
    let stub = StubServer::start(|seen, out| {
        let text = match seen.head.starts_with("GET") {
            true => "no stream",
            false => "session not found: hunter2",
        };
        let error =
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": text}});
        out.respond(
            "404 Not Found",
            "content-type: application/json\r\n",
            error.to_string().as_bytes(),
        );
    });
    for policy in [JUDGED, RULES] {
        let gateway = Gateway::before(policy, &stub);
        let answer = gateway.post(&call(1, "read"));
        assert_eq!(answer.status, 404, "{answer:?}");
        assert!(
            answer.text().contains("session not found: hunter2"),
            "{answer:?}"
        );
        let answer = gateway.ask("GET", "/mcp", "accept: text/event-stream\r\n", "");
        assert_eq!(answer.status, 404, "{answer:?}");
        assert!(answer.text().contains("no stream"), "{answer:?}");
    }
    // It answers the call that came with it.
    let rule = "[[rule]]\nid = \"a\"\non = [\"response\"]\nwhen = { tool = \"env\" }\naction = \"block\"\n";
    let gateway = Gateway::before(rule, &stub);
    assert!(gateway.post(&call(2, "read")).text().contains("hunter2"));
    let answer = gateway.post(&call(3, "env"));
    assert!(!answer.text().contains("hunter2"), "{answer:?}");
    assert_eq!(gateway.decisions().len(), 1);
}
