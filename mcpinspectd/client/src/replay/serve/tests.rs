use mcpinspect_tape::read::TapeReader;
use serde_json::{Value, json};

use super::*;

/// A tape of these messages, a second apart. Those from the server have a leading `<`.
fn tape(messages: &[Value]) -> Recording {
    let header = json!({"format": "mcpinspect-tape", "version": 1, "session_id": "s", "server_id": "fake",
        "fingerprint": "f", "name_source": "x", "transport": "stdio", "protocol_version": "2025-06-18",
        "started": "2026-11-23T12:00:00Z"});
    let mut lines = vec![header.to_string()];
    for (at, message) in messages.iter().enumerate() {
        let (direction, message) = match message.get("<") {
            Some(message) => ("server_to_client", message),
            None => ("client_to_server", message),
        };
        let entry = json!({"time": format!("2026-11-23T12:00:{at:02}Z"), "direction": direction, "kind": "x",
            "sequence": at + 1, "transport": "stdio", "bytes": 0, "message": message,
            "modified": message.to_string().contains('«')});
        lines.push(entry.to_string());
    }
    Recording::read(TapeReader::new(lines.join("\n").as_bytes()).unwrap()).unwrap()
}

fn settings(matching: Matching) -> Settings {
    Settings {
        matching,
        speed: Speed::Max,
        assignments: Vec::new(),
        faults: Vec::new(),
        delays: Vec::new(),
    }
}

fn request(id: &str, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: &str, tool: &str, x: u64) -> Value {
    request(
        id,
        "tools/call",
        json!({"name": tool, "arguments": {"x": x}}),
    )
}

fn result(id: &str, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// What the server says to this.
fn say(server: &mut Server<'_>, message: &Value) -> Vec<Value> {
    let lines = server.line(message.to_string().as_bytes());
    lines
        .iter()
        .map(|line| serde_json::from_str(&line.text).unwrap())
        .collect()
}

/// Two calls, one of them twice with different answers.
fn calls() -> Recording {
    tape(&[
        call("1", "a", 1),
        json!({"<": result("1", json!("a1"))}),
        call("2", "b", 1),
        json!({"<": result("2", json!("b1"))}),
        call("3", "a", 1),
        json!({"<": result("3", json!("a2"))}),
    ])
}

#[test]
fn by_parameters_in_any_order_and_again() {
    let recording = calls();
    let mut server = Server::new(&recording, settings(Matching::ByParams));
    for (id, tool, answer) in [
        ("x", "b", "b1"),
        ("y", "a", "a1"),
        ("z", "a", "a2"),
        ("w", "a", "a2"),
    ] {
        let mut call = call(id, tool, 1);
        call["params"]["_meta"] = json!({"progressToken": id});
        assert_eq!(say(&mut server, &call), [result(id, json!(answer))]);
    }
    assert_eq!(
        say(&mut server, &call("v", "a", 2))[0]["error"]["code"],
        -32602
    );
    let other = request("u", "prompts/list", json!({}));
    assert_eq!(say(&mut server, &other)[0]["error"]["code"], -32601);
    assert_eq!(
        say(&mut server, &request("p", "ping", json!({}))),
        [result("p", json!({}))]
    );
    let served = server.finish();
    assert!(!served.complete && served.not_consumed.is_empty());
    let paths: Vec<&str> = served
        .not_on_tape
        .iter()
        .map(|one| one.path.as_str())
        .collect();
    assert_eq!(paths, ["tools/call[name=a]", "prompts/list"]);
}

#[test]
fn strict_in_the_order_of_the_tape() {
    let recording = calls();
    let mut server = Server::new(&recording, settings(Matching::Strict));
    assert!(
        say(&mut server, &call("x", "b", 1))[0]
            .get("error")
            .is_some()
    );
    assert_eq!(
        say(&mut server, &call("x", "a", 1)),
        [result("x", json!("a1"))]
    );
    assert_eq!(
        say(&mut server, &call("y", "b", 1)),
        [result("y", json!("b1"))]
    );
    let served = server.finish();
    assert_eq!(served.not_on_tape.len(), 1);
    assert_eq!(served.not_consumed[0].message, Some(5));
}

#[test]
fn sequential_whatever_the_parameters() {
    let recording = calls();
    let mut server = Server::new(&recording, settings(Matching::Sequential));
    for answer in ["a1", "b1", "a2"] {
        assert_eq!(
            say(&mut server, &call("x", "c", 9)),
            [result("x", json!(answer))]
        );
    }
    assert!(server.finish().complete);
}

#[test]
fn what_the_server_says_in_between_keeps_its_place() {
    let mut client_request = call("1", "a", 1);
    client_request["params"]["_meta"] = json!({"progressToken": "1"});
    let progress = |token: &str| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token}});
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let sampling = request("s", "sampling/createMessage", json!({}));
    let recording = tape(&[
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"<": changed}),
        client_request.clone(),
        call("2", "b", 1),
        json!({"<": progress("1")}),
        json!({"<": result("2", json!("b"))}),
        json!({"<": sampling}),
        result("s", json!({"text": "hello"})),
        json!({"<": result("1", json!("a"))}),
    ]);
    let mut server = Server::new(&recording, settings(Matching::ByParams));
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(say(&mut server, &initialized), [changed]);
    assert_eq!(say(&mut server, &initialized), [] as [Value; 0]);
    client_request["id"] = json!(77);
    client_request["params"]["_meta"]["progressToken"] = json!(77);
    let lines = say(&mut server, &client_request);
    let mut own = progress("1");
    own["params"]["progressToken"] = json!(77);
    assert_eq!(lines[0], own);
    assert_eq!(lines[1]["result"], "a");
    assert_eq!(lines[1]["id"], 77);
    // The server asked because of the second call, as far as the tape shows.
    let lines = say(&mut server, &call("z", "b", 1));
    assert_eq!(lines[0], result("z", json!("b")));
    assert_eq!(lines[1]["method"], "sampling/createMessage");
    assert!(server.finish().complete);
}

#[test]
fn the_rest_waits_for_the_answer_of_the_client() {
    let recording = tape(&[
        call("1", "a", 1),
        json!({"<": request("s", "elicitation/create", json!({}))}),
        result("s", json!({"action": "accept"})),
        json!({"<": result("1", json!("a"))}),
    ]);
    let mut server = Server::new(&recording, settings(Matching::ByParams));
    let lines = say(&mut server, &call("x", "a", 1));
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["method"], "elicitation/create");
    assert_eq!(
        say(&mut server, &result("nobody", json!({}))),
        [] as [Value; 0]
    );
    let mut answer = result("", json!({}));
    answer["id"] = lines[0]["id"].clone();
    assert_eq!(say(&mut server, &answer), [result("x", json!("a"))]);
}

#[test]
fn answers_are_changed_failed_and_delayed() {
    let recording = calls();
    let mut server = Server::new(
        &recording,
        Settings {
            assignments: vec!["tools/call[name=a].result=7".parse().unwrap()],
            faults: vec!["tools/call[name=b]:-5@0.5".parse().unwrap()],
            delays: vec![
                "5".parse().unwrap(),
                "tools/call[name=b]:20".parse().unwrap(),
            ],
            ..settings(Matching::ByParams)
        },
    );
    assert_eq!(
        say(&mut server, &call("x", "a", 1)),
        [result("x", json!(7))]
    );
    assert_eq!(
        say(&mut server, &call("x", "b", 1)),
        [result("x", json!("b1"))]
    );
    let late = server.line(call("x", "b", 1).to_string().as_bytes());
    assert_eq!(late[0].after, Duration::from_millis(25));
    assert!(late[0].text.contains("-5"));
    assert_eq!(server.finish().failed, 1);
    let slow = Settings {
        speed: Speed::Times(2.0),
        ..settings(Matching::ByParams)
    };
    let mut server = Server::new(&recording, slow);
    let lines = server.line(call("x", "a", 1).to_string().as_bytes());
    assert_eq!(lines[0].after, Duration::from_millis(500));
}

#[test]
fn a_greeting_is_made_up_and_secrets_match_their_masks() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
    let masked = mcpinspect_core::text::redact::json(&call("1", token, 1).to_string()).into_owned();
    let recording = tape(&[
        serde_json::from_str(&masked).unwrap(),
        json!({"<": result("1", json!("a"))}),
    ]);
    let mut server = Server::new(&recording, settings(Matching::ByParams));
    let greeting = say(&mut server, &request("0", "initialize", json!({})));
    assert_eq!(greeting[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(greeting[0]["result"]["capabilities"], json!({"tools": {}}));
    assert_eq!(
        say(&mut server, &call("x", token, 1)),
        [result("x", json!("a"))]
    );
}

#[test]
fn hostile_lines_do_no_harm() {
    let recording = tape(&[
        json!({"<": {"id": 1, "result": 2}}),
        json!({"<": request("q", "x", json!({}))}),
        json!({"id": 1, "result": 2}),
        call("1", "a", 1),
        call("1", "a", 1),
    ]);
    let mut server = Server::new(&recording, settings(Matching::ByParams));
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    for line in [
        "",
        " ",
        "x",
        "[]",
        "[1]",
        "{",
        "{\"id\":{}}",
        "{\"id\":1,\"result\":1}",
        "\u{0}",
        "{\"method\":\"notifications/x\",\"params\":7}",
    ] {
        server.line(line.as_bytes());
    }
    server.line(format!("{{\"id\":1,\"method\":\"m\",\"params\":{deep}}}").as_bytes());
    server.line(&[0xff; 100]);
    // Requests without an answer on the tape get none.
    assert_eq!(say(&mut server, &call("x", "a", 1)), [] as [Value; 0]);
    for at in 0..2 * MAX_UNKNOWN {
        server.line(
            request("y", &format!("m{at}"), json!({}))
                .to_string()
                .as_bytes(),
        );
    }
    let served = server.finish();
    assert_eq!(served.not_on_tape.len(), MAX_UNKNOWN);
    assert!(served.invalid >= 5);
}
