use mcpinspect_tape::read::TapeReader;
use serde_json::{Value, json};

use super::*;
use crate::peer::Received;
use crate::replay::compare::{Depth, Kind};
use crate::testing::FakePeer;

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
        let mut entry = json!({"time": format!("2026-11-23T12:00:{at:02}Z"), "direction": direction, "kind": "x",
            "sequence": at + 1, "transport": "stdio", "bytes": 0, "modified": message.to_string().contains("«")});
        match message {
            Value::String(text) => entry["text"] = text.as_str().into(),
            message => entry["message"] = message.clone(),
        }
        lines.push(entry.to_string());
    }
    Recording::read(TapeReader::new(lines.join("\n").as_bytes()).unwrap()).unwrap()
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn result(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// What a client and a server say at first.
fn greeting() -> Vec<Value> {
    vec![
        request(0, "initialize", json!({"protocolVersion": "2025-06-18"})),
        json!({"<": result(&json!(0), json!({"capabilities": {}}))}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ]
}

fn settings() -> Settings {
    Settings {
        speed: Speed::Max,
        timeout: Duration::from_secs(10),
        assignments: Vec::new(),
        only: Vec::new(),
        skip: Vec::new(),
        rules: Rules::new(Depth::Values, Rules::volatile().collect()),
    }
}

fn line(message: &Value) -> Received {
    Received::Line(message.to_string().into_bytes())
}

/// Replays, and returns the report, what the client said, and how long it took.
fn replay(
    messages: &[Value],
    settings: &Settings,
    answer: impl FnMut(&Value) -> Vec<Received>,
) -> (Result<Report, String>, Vec<Value>, Duration) {
    let mut fake = FakePeer::new(answer);
    let report = drive(&tape(messages), settings, &mut fake);
    (report, fake.received, fake.now)
}

/// A server that answers every request with its parameters.
fn echo(message: &Value) -> Vec<Received> {
    match (message.get("method"), message.get("id")) {
        (Some(method), Some(id)) if method == "initialize" => {
            vec![line(&result(id, json!({"capabilities": {}})))]
        }
        (Some(_), Some(id)) => vec![line(&result(id, message["params"].clone()))],
        _ => Vec::new(),
    }
}

fn kinds(report: &Report) -> Vec<(Kind, &str)> {
    let all = report.differences.iter();
    all.map(|difference| (difference.kind, difference.path.as_str()))
        .collect()
}

#[test]
fn the_same_answers_are_no_differences() {
    let mut messages = greeting();
    messages.extend([
        request(
            40,
            "tools/call",
            json!({"name": "a", "arguments": {"x": 1}}),
        ),
        request(41, "tools/call", json!({"name": "b"})),
        json!({"<": result(&json!(41), json!({"name": "b"}))}),
        json!({"<": result(&json!(40), json!({"name": "a", "arguments": {"x": 1}}))}),
    ]);
    let (report, received, took) = replay(&messages, &settings(), echo);
    let report = report.unwrap();
    assert!(report.same, "{report:#?}");
    assert_eq!((report.requests, report.compared, report.equal), (3, 3, 3));
    let ids: Vec<&Value> = received
        .iter()
        .filter_map(|message| message.get("id"))
        .collect();
    assert_eq!(ids, [&json!(1), &json!(2), &json!(3)]);
    assert_eq!(took, Duration::ZERO);
    let slow = Settings {
        speed: Speed::Times(2.0),
        ..settings()
    };
    let (report, _, took) = replay(&messages, &slow, echo);
    assert!(report.unwrap().same);
    // Three gaps before what the client says: the answers come at once.
    assert_eq!(took, Duration::from_millis(1500));
}

#[test]
fn a_handshake_is_made_up_where_there_is_none() {
    let messages = [
        request(7, "tools/list", json!({})),
        json!({"<": result(&json!(7), json!({}))}),
    ];
    let (report, received, _) = replay(&messages, &settings(), echo);
    assert!(report.unwrap().same);
    let methods: Vec<&str> = received
        .iter()
        .map(|message| message["method"].as_str().unwrap())
        .collect();
    assert_eq!(
        methods,
        ["initialize", "notifications/initialized", "tools/list"]
    );
    assert_eq!(received[0]["params"]["protocolVersion"], "2025-06-18");
    let meta = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    let stateless = [
        request(7, "tools/list", meta.clone()),
        json!({"<": result(&json!(7), meta)}),
    ];
    let (report, received, _) = replay(&stateless, &settings(), echo);
    assert!(report.unwrap().same);
    assert_eq!(received.len(), 1);
    let (report, _, _) = replay(&messages, &settings(), |message| {
        vec![line(
            &json!({"id": message["id"], "error": {"code": -1, "message": "no"}}),
        )]
    });
    assert!(report.unwrap_err().contains("refused `initialize`"));
}

#[test]
fn substituted_and_filtered() {
    let mut messages = greeting();
    messages.extend([
        request(
            1,
            "tools/call",
            json!({"name": "a", "arguments": {"path": "/home"}}),
        ),
        json!({"<": result(&json!(1), json!({"name": "a", "arguments": {"path": "/home"}}))}),
        request(2, "tools/list", json!({})),
        json!({"<": result(&json!(2), json!({}))}),
    ]);
    let settings = Settings {
        assignments: vec![
            "tools/call[name=a].arguments.path=/tmp".parse().unwrap(),
            "tools/call[name=b].x=1".parse().unwrap(),
        ],
        only: vec!["tools/c*".to_owned()],
        ..settings()
    };
    let (report, received, _) = replay(&messages, &settings, echo);
    let report = report.unwrap();
    assert_eq!(
        kinds(&report),
        [(Kind::Value, "tools/call[name=a].result.arguments.path")]
    );
    assert_eq!(received.len(), 3);
    assert_eq!(report.not_sent, 1);
    let places: Vec<u64> = report.substitutions.iter().map(|one| one.places).collect();
    assert_eq!(places, [1, 0]);
}

#[test]
fn requests_of_the_server_are_answered_as_on_the_tape() {
    let mut messages = greeting();
    let ask = |id: u64, text: &str| request(id, "sampling/createMessage", json!({"text": text}));
    messages.extend([
        request(1, "tools/call", json!({"name": "a"})),
        json!({"<": ask(5, "one")}),
        result(&json!(5), json!({"answer": "first"})),
        json!({"<": ask(6, "two")}),
        result(&json!(6), json!({"answer": "second"})),
        json!({"<": result(&json!(1), json!({"name": "a"}))}),
    ]);
    let mut done = Vec::new();
    let (report, received, _) =
        replay(&messages, &settings(), |message| match &message["method"] {
            method if method == "tools/call" => {
                done.push(message["id"].clone());
                ["two", "three", "four"]
                    .into_iter()
                    .enumerate()
                    .map(|(at, text)| {
                        let mut ask = ask(0, text);
                        ask["id"] = format!("s{at}").into();
                        line(&ask)
                    })
                    .chain([line(&request(9, "elicitation/create", json!({})))])
                    .collect()
            }
            Value::Null if message["id"] == 9 => {
                vec![line(&result(&done[0], json!({"name": "a"})))]
            }
            _ => echo(message),
        });
    let report = report.unwrap();
    let answers: Vec<&Value> = received
        .iter()
        .filter(|message| message.get("method").is_none())
        .collect();
    assert_eq!(
        answers[0],
        &result(&json!("s0"), json!({"answer": "second"}))
    );
    assert_eq!(
        answers[1],
        &result(&json!("s1"), json!({"answer": "first"}))
    );
    assert_eq!(answers[2]["error"]["code"], -1);
    assert_eq!(answers[3]["result"]["action"], "decline");
    assert_eq!((report.answered_from_tape, report.declined), (2, 2));
    assert_eq!(kinds(&report), [(Kind::Added, "elicitation/create")]);
}

#[test]
fn what_the_server_says_on_its_own_account_has_to_come() {
    let mut messages = greeting();
    messages.push(json!({"<": {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}}));
    messages.push(json!({"<": {"jsonrpc": "2.0", "method": "notifications/message"}}));
    let (report, _, took) = replay(&messages, &settings(), echo);
    let report = report.unwrap();
    assert_eq!(
        kinds(&report),
        [(Kind::Missing, "notifications/tools/list_changed")]
    );
    assert_eq!(took, Duration::from_secs(1));
    let (report, _, _) = replay(&messages, &settings(), |message| {
        let mut lines = echo(message);
        lines.push(line(&json!({"method": "notifications/tools/list_changed"})));
        lines
    });
    assert!(report.unwrap().same);
}

#[test]
fn broken_servers_are_given_up() {
    let mut messages = greeting();
    for id in 1..10 {
        messages.push(request(id, "ping", json!({"n": id})));
        messages.push(json!({"<": result(&json!(id), json!({"n": id}))}));
    }
    let (report, _, _) = replay(&messages, &settings(), |_| vec![Received::Closed]);
    assert_eq!(report.unwrap_err(), "no answer to `initialize`: it ended");
    let (report, _, took) = replay(&messages, &settings(), |_| Vec::new());
    assert_eq!(
        report.unwrap_err(),
        "no answer to `initialize`: none within 10 s"
    );
    assert_eq!(took, Duration::from_secs(10));

    let silent = |message: &Value| match message["method"] == "initialize" {
        true => echo(message),
        false => Vec::new(),
    };
    let (report, received, took) = replay(&messages, &settings(), silent);
    let report = report.unwrap();
    assert_eq!(received.len(), 5);
    assert_eq!(took, Duration::from_secs(30));
    assert!(
        report
            .stopped
            .as_deref()
            .unwrap()
            .contains("did not answer 3")
    );
    assert_eq!(report.differences.len(), 1);
    assert_eq!(
        (report.differences[0].kind, report.differences[0].times),
        (Kind::NoAnswer, 3)
    );
    assert_eq!(report.not_sent, 6);

    let (report, _, _) = replay(&messages, &settings(), |message| {
        match message["params"]["n"] == 4 {
            true => vec![Received::Closed],
            false => echo(message),
        }
    });
    let report = report.unwrap();
    assert_eq!(report.stopped.as_deref(), Some("it ended"));
    assert_eq!(kinds(&report), [(Kind::NoAnswer, "ping")]);

    let mut flood = 0;
    let (report, _, _) = replay(&messages, &settings(), |message| {
        let mut lines = echo(message);
        if message["method"] == "ping" {
            flood += 1;
            lines = (0..60_000)
                .map(|at| line(&json!({"method": format!("x{at}")})))
                .collect();
        }
        lines
    });
    let report = report.unwrap();
    assert!(
        report
            .stopped
            .as_deref()
            .unwrap()
            .contains("unrequested messages"),
        "{:?}",
        report.stopped
    );
    assert_eq!(flood, 2);
}

#[test]
fn what_is_no_message_is_reported_once() {
    let messages = greeting();
    let (report, _, _) = replay(&messages, &settings(), |message| {
        let mut lines: Vec<Received> = ["\u{1b}[31mbanner", "[", "{\"a\":1}", "", "[1]"]
            .map(|text| Received::Line(text.into()))
            .into();
        lines.push(Received::TooLong(1 << 28));
        lines.push(Received::Line(vec![0xff, 0xfe]));
        lines.push(line(&result(&json!("nobody"), json!({}))));
        lines.extend(echo(message));
        lines
    });
    let report = report.unwrap();
    assert!(
        report.notes[0].contains("u001b[31mbanner"),
        "{:?}",
        report.notes
    );
    assert_eq!(
        kinds(&report),
        [
            (Kind::Added, "(answer to no request)"),
            (Kind::Added, "(no message)")
        ]
    );
}

#[test]
fn hostile_tapes_do_no_harm() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut messages = greeting();
    messages.extend([
        json!({"<": result(&json!(99), json!("an answer to nothing"))}),
        result(&json!(98), json!("an answer to nothing")),
        json!("no message"),
        json!({"<": "no message"}),
        json!({"<": format!("{{\"id\":3,\"result\":{deep}}}")}),
        json!([request(5, "a", json!({})), 7, request(5, "a", json!({}))]),
        json!({"<": [result(&json!(5), json!({})), result(&json!(5), json!({}))]}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []}),
        json!({"id": {}, "method": 7}),
    ]);
    let mut recording = tape(&messages);
    let text = format!("{{\"id\":1,\"method\":\"m\",\"params\":{deep}}}");
    recording.messages.push(TapeMessage {
        number: 99,
        time: Default::default(),
        direction: Direction::ClientToServer,
        kind: TapeMessageKind::Request {
            method: "m".into(),
            id: "1".into(),
            answer: Some(usize::MAX),
        },
        text: text.into(),
        is_masked: true,
    });
    let mut fake = FakePeer::new(|message: &Value| echo(message));
    let report = drive(&recording, &settings(), &mut fake).unwrap();
    assert_eq!((report.requests, fake.received.len()), (4, 6));
}

#[test]
fn a_masked_answer_is_compared_masked() {
    let mut messages = greeting();
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
    messages.extend([
        request(1, "tools/call", json!({"name": "a"})),
        json!({"<": result(&json!(1), json!({"text": "«redacted:github_token» is it"}))}),
    ]);
    let kind = mcpinspect_core::text::redact::json(token).into_owned();
    messages[4]["<"]["result"]["text"] = format!("{} is it", kind.trim_matches('"')).into();
    let (report, _, _) = replay(&messages, &settings(), |message| {
        match message["method"] == "tools/call" {
            true => vec![line(&result(
                &message["id"],
                json!({"text": format!("{token} is it")}),
            ))],
            false => echo(message),
        }
    });
    let report = report.unwrap();
    assert!(report.same, "{report:#?}");
}
