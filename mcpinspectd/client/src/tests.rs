use std::time::Duration;

use serde_json::{Map, Value, json};

use super::connection::{Connection, Patience, Settings, tree};
use super::era::{Era, Offer};
use super::failure::{Category, Code, Failure};
use super::peer::Received;
use super::replies::Replies;
use super::testing::FakePeer;

fn settings() -> Settings {
    Settings {
        patience: Patience::Each(Duration::from_secs(10)),
        capabilities: json!({"roots": {}}),
        log_level: Some("info".to_owned()),
        progress: true,
        replies: Replies::read(json!({"elicitation/create": {"action": "accept"}})).unwrap(),
    }
}

fn line(message: &Value) -> Received {
    Received::Line(message.to_string().into_bytes())
}

fn result(message: &Value, result: Value) -> Received {
    line(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

fn error(message: &Value, code: i64) -> Received {
    line(&json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": "no"}}))
}

/// A server of the legacy era that answers `answer` after the handshake.
fn legacy(answer: impl Fn(&Value) -> Vec<Received>) -> impl FnMut(&Value) -> Vec<Received> {
    move |message| match message["method"].as_str() {
        Some("server/discover") => vec![error(message, -32601)],
        Some("initialize") => vec![result(
            message,
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "old"}}),
        )],
        _ => answer(message),
    }
}

/// A server of the modern era.
fn modern(answer: impl Fn(&Value) -> Vec<Received>) -> impl FnMut(&Value) -> Vec<Received> {
    move |message| match message["method"].as_str() {
        Some("server/discover") => vec![result(
            message,
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new"}}}),
        )],
        Some("initialize") => vec![error(message, -32601)],
        _ => answer(message),
    }
}

fn methods(received: &[Value]) -> Vec<&str> {
    let methods = received.iter();
    methods
        .map(|message| message["method"].as_str().unwrap_or("(answer)"))
        .collect()
}

#[test]
fn each_era_is_greeted_in_its_own_way() {
    let mut old = FakePeer::new(legacy(|_| Vec::new()));
    let greeting = Connection::new(&mut old, settings())
        .greet(Offer::Either)
        .unwrap();
    assert_eq!(
        (greeting.era, greeting.version.as_str()),
        (Era::Legacy, "2025-06-18")
    );
    assert_eq!(greeting.server_info()["name"], "old");
    assert_eq!(
        methods(&old.received),
        ["server/discover", "initialize", "notifications/initialized"]
    );
    assert_eq!(
        old.received[1]["params"]["capabilities"],
        json!({"roots": {}})
    );

    let mut new = FakePeer::new(modern(|message| vec![result(message, json!({}))]));
    let mut connection = Connection::new(&mut new, settings());
    let greeting = connection.greet(Offer::Either).unwrap();
    assert_eq!(
        (greeting.era, greeting.server_info()["name"].as_str()),
        (Era::Modern, Some("new"))
    );
    connection.request("tools/list", Map::new()).unwrap();
    assert_eq!(methods(&new.received), ["server/discover", "tools/list"]);
    for message in &new.received {
        let meta = &message["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        assert_eq!(meta["io.modelcontextprotocol/logLevel"], "info");
    }
}

#[test]
fn an_empty_answer_to_the_first_question_is_none() {
    let mut yes = FakePeer::new(|message: &Value| match message["method"].as_str() {
        Some("initialize") => vec![result(
            message,
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}),
        )],
        _ => vec![result(message, json!({}))],
    });
    let mut connection = Connection::new(&mut yes, settings());
    let greeting = connection.greet(Offer::Either).unwrap();
    assert_eq!(greeting.era, Era::Legacy);
    assert_eq!(greeting.capabilities(), &json!({"tools": {}}));
}

#[test]
fn an_era_that_the_server_does_not_speak_is_a_failure() {
    let mut old = FakePeer::new(legacy(|_| Vec::new()));
    let failure = Connection::new(&mut old, settings())
        .greet(Offer::Only(Era::Modern))
        .unwrap_err();
    assert_eq!(
        (failure.category, failure.code),
        (Category::Protocol, Code::Number(-32601))
    );
    let mut new = FakePeer::new(modern(|_| Vec::new()));
    let failure = Connection::new(&mut new, settings())
        .greet(Offer::Only(Era::Legacy))
        .unwrap_err();
    assert_eq!(
        (failure.category, failure.code),
        (Category::Protocol, Code::Number(-32601))
    );
    assert_eq!(methods(&new.received), ["initialize"]);
    let mut other = FakePeer::new(|message: &Value| {
        vec![result(
            message,
            json!({"supportedVersions": ["2099-01-01"]}),
        )]
    });
    let failure = Connection::new(&mut other, settings())
        .greet(Offer::Only(Era::Modern))
        .unwrap_err();
    assert_eq!(failure.code, Code::Name("unsupported_revision"));
}

#[test]
fn a_slow_server_may_answer_the_first_question_late() {
    let mut first = None;
    let mut slow = FakePeer::new(move |message: &Value| match message["method"].as_str() {
        Some("server/discover") => {
            first = Some(message.clone());
            Vec::new()
        }
        Some("initialize") => vec![
            result(
                first.as_ref().unwrap(),
                json!({"supportedVersions": ["2026-07-28"]}),
            ),
            error(message, -32601),
        ],
        _ => vec![result(message, json!({}))],
    });
    let mut connection = Connection::new(&mut slow, settings());
    assert_eq!(connection.greet(Offer::Either).unwrap().era, Era::Modern);
    connection.request("tools/list", Map::new()).unwrap();
    let (logs, _) = connection.server_messages.take();
    assert_eq!(
        logs.len(),
        1,
        "the answer to `initialize` is not asked for: {logs:?}"
    );
}

/// Asks a server of the legacy era `x`.
fn ask(
    answer: impl Fn(&Value) -> Vec<Received>,
) -> (Result<Value, Failure>, Vec<String>, Vec<Value>) {
    let mut fake = FakePeer::new(legacy(answer));
    let mut connection = Connection::new(&mut fake, settings());
    connection.greet(Offer::Either).unwrap();
    let answered = connection.request("x", Map::new()).map(|raw| tree(&raw));
    let (logs, _) = connection.server_messages.take();
    let logs = logs
        .into_iter()
        .map(|log| format!("{} {}", log.level, log.message))
        .collect();
    (answered, logs, fake.received)
}

#[test]
fn what_comes_beside_the_answer_is_kept_and_does_not_hide_it() {
    let (answered, logs, received) = ask(|message| {
        if message["method"] != "x" {
            return Vec::new();
        }
        vec![
            Received::Line(b"Listening on stdio".to_vec()),
            Received::TooLong(70_000_000),
            line(&json!({"jsonrpc": "2.0", "id": 99, "result": {}})),
            line(&json!({"jsonrpc": "2.0", "id": message["id"].to_string(), "result": {}})),
            line(
                &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": {"a": 1}}}),
            ),
            line(&json!([
                {"jsonrpc": "2.0", "id": "q", "method": "roots/list"},
                {"jsonrpc": "2.0", "id": message["id"], "result": {"right": true}},
            ])),
        ]
    });
    assert_eq!(answered.unwrap(), json!({"right": true}));
    for (at, part) in [
        "not a message",
        "70000000 bytes",
        "id 99",
        "id \"3\"",
        "error {\"a\":1}",
    ]
    .into_iter()
    .enumerate()
    {
        assert!(logs[at].contains(part), "{part}: {logs:?}");
    }
    assert_eq!(logs.len(), 5);
    // The reply to the server is sent with the next message, or during a wait.
    assert_eq!(received.last().unwrap()["method"], "x");
}

#[test]
fn failures_have_one_category_each() {
    let refused = ask(|message| vec![error(message, -32602)]).0.unwrap_err();
    assert_eq!(
        (refused.category, refused.code),
        (Category::Protocol, Code::Number(-32602))
    );
    let nameless =
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "no"}});
    let refused = ask(|message| {
        if message["method"] == "x" {
            vec![line(&nameless)]
        } else {
            Vec::new()
        }
    })
    .0
    .unwrap_err();
    assert_eq!(refused.code, Code::Number(-32700));
    let (late, _, received) = ask(|_| Vec::new());
    assert_eq!(late.unwrap_err().code, Code::Name("timeout"));
    assert_eq!(
        received.last().unwrap()["method"],
        "notifications/cancelled"
    );
    let gone = ask(|message| {
        if message["method"] == "x" {
            vec![Received::Closed]
        } else {
            Vec::new()
        }
    })
    .0
    .unwrap_err();
    assert_eq!(
        (gone.category, gone.code),
        (Category::Transport, Code::Name("closed"))
    );
}

#[test]
fn input_that_is_required_is_given_under_a_new_id() {
    let ask = json!({"resultType": "input_required", "requestState": "opaque",
        "inputRequests": {"who": {"method": "elicitation/create", "params": {"message": "Who?"}}}});
    let mut fake = FakePeer::new(modern(move |message| {
        let params = &message["params"];
        let answered = params["inputResponses"]["who"]["action"] == "accept"
            && params["requestState"] == "opaque";
        vec![result(
            message,
            if answered {
                json!({"resultType": "complete"})
            } else {
                ask.clone()
            },
        )]
    }));
    let mut connection = Connection::new(&mut fake, settings());
    connection.greet(Offer::Either).unwrap();
    let params = json!({"name": "t"});
    let done = connection
        .call("tools/call", params.as_object().unwrap())
        .unwrap();
    assert_eq!(tree(&done)["resultType"], "complete");
    let (_, requests) = connection.server_messages.take();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].scripted);
    assert_eq!(requests[0].params["message"], "Who?");
    let [.., first, second] = fake.received.as_slice() else {
        unreachable!()
    };
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["params"]["name"], "t");
    for call in [first, second] {
        assert_eq!(call["params"]["_meta"]["progressToken"], call["id"]);
    }
}

#[test]
fn input_that_nobody_has_is_a_failure_and_so_is_no_end_of_it() {
    let required = |method: &str| {
        let ask =
            json!({"resultType": "input_required", "inputRequests": {"a": {"method": method}}});
        let mut fake = FakePeer::new(modern(move |message| vec![result(message, ask.clone())]));
        let mut connection = Connection::new(&mut fake, settings());
        connection.greet(Offer::Either).unwrap();
        let failure = connection.call("tools/call", &Map::new()).unwrap_err();
        (failure.category, connection.server_messages.take().1.len())
    };
    assert_eq!(
        required("sampling/createMessage"),
        (Category::Capability, 1)
    );
    assert_eq!(required("elicitation/create"), (Category::Protocol, 10));
}

#[test]
fn a_list_is_followed_to_its_end_and_an_endless_one_is_not() {
    let pages = |endless: bool| {
        let mut count = 0;
        let mut fake = FakePeer::new(move |message: &Value| {
            count += 1;
            let next = (endless || count < 4).then(|| format!("c{count}"));
            vec![result(message, json!({"nextCursor": next}))]
        });
        let mut connection = Connection::new(&mut fake, settings());
        connection.greet(Offer::Only(Era::Legacy)).unwrap();
        let mut pages = Vec::new();
        let listed = connection.pages("tools/list", &Map::new(), &mut pages);
        (listed.map_err(|failure| failure.code), pages.len())
    };
    // The first of the four is the greeting, the second the notification's.
    assert_eq!(pages(false), (Ok(()), 2));
    assert_eq!(pages(true), (Err(Code::Name("endless_list")), 200));
}
