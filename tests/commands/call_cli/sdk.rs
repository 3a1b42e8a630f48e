//! Real servers of the Python SDK, in both eras and on each transport.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{call, envelope, mcpinspect};
use crate::support::folder::Folder;
use crate::support::running::{RunningServer, python};

/// A real server that runs as a process.
fn clock() -> Vec<String> {
    [&python(), "-m", "mcp_server_time"]
        .map(str::to_owned)
        .to_vec()
}

/// A server with something of everything, on a transport.
fn everything(folder: &Folder, transport: &str) -> RunningServer {
    let program = folder.path("server.py");
    RunningServer::start(Command::new(python()).arg(program).arg(transport))
}

fn folder() -> Folder {
    Folder::with_server(include_str!("sdk_server.py"))
}

/// A method with its options, and a pointer in the result that says it was understood.
const METHODS: [(&str, &str, &str); 11] = [
    ("discover", "/serverInfo/name", "something-of-everything"),
    ("ping", "", ""),
    ("tools/list", "/tools/0/name", "add"),
    (
        "tools/call --tool add --arg a=2 --arg b=40",
        "/content/0/text",
        "42",
    ),
    (
        "tools/call --tool where --arg region=Köln",
        "/content/0/text",
        "in Köln",
    ),
    ("resources/list", "/resources/0/uri", "note://one"),
    (
        "resources/read --uri note://of/Ann",
        "/contents/0/text",
        "a note of Ann",
    ),
    (
        "resources/templates/list",
        "/resourceTemplates/0/uriTemplate",
        "note://of/{name}",
    ),
    ("prompts/list", "/prompts/0/name", "greet"),
    (
        "prompts/get --prompt greet --arg name=Ann",
        "/messages/0/content/text",
        "Greet Ann.",
    ),
    (
        "completion/complete --prompt greet --arg name=An",
        "/completion/values/1",
        "Anton",
    ),
];

#[test]
fn everything_is_answered_on_each_transport_of_http_and_in_both_eras() {
    let folder = folder();
    for (transport, era, spoken) in [
        ("stream", "auto", "modern"),
        ("stream", "legacy", "legacy"),
        ("json", "modern", "modern"),
        ("json", "legacy", "legacy"),
        ("stateless", "legacy", "legacy"),
        ("sse", "auto", "modern"),
        ("sse", "legacy", "legacy"),
    ] {
        let server = everything(&folder, transport);
        let ask = |options: &str| {
            let options = options.split(' ').chain(["--era", era, "--structured"]);
            let options: Vec<&str> = options.chain(["--url", &server.first_line]).collect();
            let output = mcpinspect(&options).output().unwrap();
            (output.status.code(), envelope(&output))
        };
        for (options, pointer, expected) in METHODS {
            let (status, response) = ask(options);
            assert_eq!(status, Some(0), "{transport} {era} {options}: {response}");
            let found = response["result"].pointer(pointer);
            let is_right = pointer.is_empty() || found == Some(&json!(expected));
            assert!(is_right, "{transport} {era} {options}: {response}");
            if options == "discover" {
                assert_eq!(response["result"]["era"], spoken, "{transport} {era}");
            }
        }
        for (options, category, expected) in [
            ("tools/call --tool fail", "application", 0),
            ("tools/call --tool add --arg a=x --arg b=1", "validation", 1),
            ("x/y", "protocol", 1),
        ] {
            let (status, response) = ask(options);
            assert_eq!(
                status,
                Some(expected),
                "{transport} {era} {options}: {response}"
            );
            assert_eq!(
                response["error"]["category"], category,
                "{transport} {era} {options}: {response}"
            );
        }
    }
}

/// Where there is a way back, the server asks over HTTP too.
#[test]
fn a_server_at_a_url_asks_back() {
    let folder = folder();
    let answers = json!({"elicitation/create": {"action": "accept", "content": {"name": "Ann"}}});
    let answers = folder.write("answers.json", &answers.to_string());
    for transport in ["stream", "sse"] {
        let server = everything(&folder, transport);
        let options = [
            "tools/call",
            "--tool",
            "ask",
            "--era",
            "legacy",
            "--structured",
            "--answer",
            &answers,
        ];
        let output = mcpinspect(&[&options[..], &["--url", &server.first_line]].concat());
        let response = envelope(&{ output }.output().unwrap());
        assert_eq!(
            response["result"]["content"][0]["text"], "accept",
            "{transport}: {response}"
        );
        assert_eq!(response["serverRequests"][0]["scripted"], true);
    }
}

#[test]
fn many_requests_at_a_time_go_to_a_url() {
    let folder = folder();
    let server = everything(&folder, "stream");
    for era in ["legacy", "modern"] {
        let options = [
            "tools/call",
            "--tool",
            "add",
            "--arg",
            "a=1",
            "--arg",
            "b=1",
            "--repeat",
            "200",
        ];
        let more = [
            "--concurrency",
            "16",
            "--era",
            era,
            "--structured",
            "--url",
            &server.first_line,
        ];
        let response = envelope(
            &mcpinspect(&[&options[..], &more].concat())
                .output()
                .unwrap(),
        );
        assert_eq!(response["result"]["answers"], 200, "{response}");
        assert_eq!(response["result"]["failures"], 0, "{response}");
    }
}

/// What one client changes, another hears who watches, in the way of the modern era.
#[test]
fn a_server_at_a_url_is_watched() {
    let folder = folder();
    let server = everything(&folder, "stream");
    let watch = [
        "tools/list",
        "--watch",
        "5s",
        "--structured",
        "--url",
        &server.first_line,
    ];
    let mut watching = mcpinspect(&watch).stdout(Stdio::piped()).spawn().unwrap();
    while watching.try_wait().unwrap().is_none() {
        let change = ["tools/call", "--tool", "tell", "--url", &server.first_line];
        assert!(mcpinspect(&change).output().unwrap().status.success());
    }
    let response = envelope(&watching.wait_with_output().unwrap());
    let methods: Vec<&str> = response["notifications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|notified| notified["method"].as_str().unwrap())
        .collect();
    for method in [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    ] {
        assert!(methods.contains(&method), "{methods:?}");
    }
}

/// A row of the table as a step of a script.
fn step(options: &str) -> Value {
    let mut words = options.split(' ');
    let mut step = json!({"method": words.next()});
    while let (Some(option), Some(value)) = (words.next(), words.next()) {
        match (option, value.split_once('=')) {
            ("--arg", Some((name, value))) => {
                let value = value.parse::<u64>().map_or(json!(value), Value::from);
                step["arguments"][name] = value;
            }
            _ => step[option.trim_start_matches('-')] = value.into(),
        }
    }
    step
}

#[test]
fn a_script_runs_over_one_session_of_each_transport() {
    let folder = folder();
    let steps: Vec<Value> = METHODS.iter().map(|(options, ..)| step(options)).collect();
    let script = folder.write("script.json", &json!(steps).to_string());
    let check = |response: &Value, how: &str| {
        let ran = response.as_array().unwrap();
        assert_eq!(ran.len(), METHODS.len(), "{how}: {response:#}");
        for (ran, (options, pointer, expected)) in ran.iter().zip(METHODS) {
            let found = ran["result"].pointer(pointer);
            let is_right = pointer.is_empty() || found == Some(&json!(expected));
            assert!(is_right && ran["passed"] == true, "{how} {options}: {ran}");
        }
    };
    for transport in ["stream", "sse"] {
        let server = everything(&folder, transport);
        let output = mcpinspect(&["--script", &script, "--url", &server.first_line]).output();
        check(&envelope(&output.unwrap()), transport);
    }
    let program = folder.path("server.py");
    let command = [&python(), program.to_str().unwrap(), "stdio"].map(str::to_owned);
    for era in ["legacy", "modern"] {
        let output = call(&["--script", &script, "--era", era], &command);
        check(&envelope(&output), era);
    }
}

#[test]
fn a_real_server_answers_in_both_eras() {
    for (era, spoken) in [
        ("auto", "modern"),
        ("modern", "modern"),
        ("legacy", "legacy"),
    ] {
        let output = call(&["discover", "--era", era], &clock());
        let found = envelope(&output);
        assert_eq!(found["era"], spoken);
        assert_eq!(found["serverInfo"]["name"], "mcp-time");
        assert_eq!(found["tools"][0]["name"], "get_current_time");
        for list in ["resources", "resourceTemplates", "prompts"] {
            assert_eq!(found[list], json!([]), "{list}");
        }
        let ping = call(&["ping", "--era", era], &clock());
        assert_eq!(ping.status.code(), Some(0), "{ping:?}");
        let output = call(
            &[
                "tools/call",
                "--era",
                era,
                "--tool",
                "get_current_time",
                "--arg",
                "timezone=Europe/Paris",
                "--structured",
            ],
            &clock(),
        );
        let response = envelope(&output);
        assert_eq!(
            (&response["success"], &response["error"]),
            (&json!(true), &json!(null)),
            "{response}"
        );
        assert_eq!(
            response["result"]["structuredContent"]["timezone"],
            "Europe/Paris"
        );
    }
}
