//! Servers at a URL that are good, odd, broken or hostile in one way each.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{envelope, mcpinspect};
use crate::support::folder::Folder;
use crate::support::running::{RunningServer, python};

/// A server whose path says how it behaves.
struct MisbehavingServer {
    folder: Folder,
    server: RunningServer,
    scheme: &'static str,
}

impl MisbehavingServer {
    fn new() -> Self {
        Self::start("http", |_| Vec::new())
    }

    fn start(scheme: &'static str, more: impl Fn(&Folder) -> Vec<String>) -> Self {
        let folder = Folder::with_server(include_str!("odd_http.py"));
        let server = RunningServer::start(
            Command::new("python3")
                .arg(folder.path("server.py"))
                .arg(folder.path("requests"))
                .args(more(&folder)),
        );
        Self {
            folder,
            server,
            scheme,
        }
    }

    fn url(&self, path: &str) -> String {
        format!(
            "{}://127.0.0.1:{}{path}",
            self.scheme, self.server.first_line
        )
    }

    fn call(&self, path: &str, options: &[&str]) -> Output {
        let url = self.url(path);
        let options = [options, &["--structured", "--url", &url]].concat();
        mcpinspect(&options).output().unwrap()
    }

    fn response(&self, path: &str, options: &[&str]) -> Value {
        envelope(&self.call(path, options))
    }

    /// The requests so far.
    fn requests(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.folder.path("requests")).unwrap();
        let lines = log.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Why there is no answer, for each cause.
#[test]
fn the_table_of_failures_over_http() {
    let peer = MisbehavingServer::new();
    for (path, options, code, words) in [
        ("/401", "ping", "unauthorized", "Bearer resource_metadata="),
        ("/403", "ping", "forbidden", "go away"),
        ("/404", "ping", "http_status", "404 Not Found: <html>"),
        ("/500", "ping", "http_status", "out of cheese"),
        ("/oauth", "ping", "http_status", "no such API"),
        ("/html", "ping", "not_mcp", "text/html"),
        ("/202", "ping", "no_answer", "202 Accepted and no message"),
        ("/garbage", "ping", "not_mcp", "{"),
        (
            "/away",
            "ping",
            "redirected",
            "http://localhost:1/plain, which is another server",
        ),
        (
            "/moved",
            "ping",
            "redirected",
            "turns the message into a GET",
        ),
        ("/loop", "ping", "redirected", "too many times"),
        (
            "/old-elsewhere",
            "ping",
            "redirected",
            "http://127.0.0.2:1/messages",
        ),
        ("/cut", "ping", "closed", "was lost"),
        ("/deaf", "notifications/x", "http_status", "pardon?"),
        ("/silent", "ping --timeout 1", "timeout", "within 1 s"),
        ("/drip", "ping --timeout 1", "timeout", "within 1 s"),
        ("/gone", "tools/list", "session_ended", "Session not found"),
        ("/wide", "tools/list", "too_large", "64 MiB"),
        ("/long", "tools/list", "too_large", "64 MiB"),
        (
            "/break-silently",
            "tools/list",
            "closed",
            "before it answered",
        ),
        (
            "/break-forever",
            "tools/list",
            "closed",
            "before it answered",
        ),
    ] {
        let options: Vec<&str> = options.split(' ').collect();
        let output = peer.call(path, &options);
        let response = envelope(&output);
        assert_eq!(output.status.code(), Some(1), "{path}: {response}");
        assert_eq!(
            response["error"]["category"], "transport",
            "{path}: {response}"
        );
        assert_eq!(response["error"]["code"], code, "{path}: {response}");
        let message = response["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{path}: {message}");
        assert!(!output.stdout.contains(&0x1b), "{path}");
    }
    let response = peer.response("/401", &["ping"]);
    let details = &response["error"]["details"];
    assert_eq!(details["status"], 401);
    assert_eq!(
        details["wwwAuthenticate"],
        json!(["Bearer resource_metadata=\"https://auth.example.org/\""])
    );
}

#[test]
fn who_is_not_there_is_told_apart() {
    // A port that was free a moment ago, and one that speaks something else.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let not_http = format!("http://{}/", other.local_addr().unwrap());
    let no_tls = not_http.replace("http:", "https:");
    std::thread::spawn(move || {
        for stream in other.incoming() {
            use std::io::{Read as _, Write as _};
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 100]);
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
        }
    });
    for (url, code) in [
        (refused.as_str(), "refused"),
        ("http://no-such-host.invalid/mcp", "unknown_host"),
        (&not_http, "not_http"),
        (&no_tls, "tls"),
    ] {
        let output = mcpinspect(&["ping", "--structured", "--url", url]).output();
        let response = envelope(&output.unwrap());
        assert_eq!(
            response["error"]["category"], "transport",
            "{url}: {response}"
        );
        assert_eq!(response["error"]["code"], code, "{url}: {response}");
    }
    for options in [
        &["ping", "--url", "ftp://example.org/"][..],
        &["ping", "--url", "http://u:p@example.org/"],
        &["ping", "name", "--url", "http://example.org/"],
        &["ping", "--url", "http://example.org/", "--env", "A=b"],
        &[
            "ping",
            "--url",
            "http://example.org/",
            "--header",
            "nonsense",
        ],
        &[
            "ping",
            "--url",
            "http://example.org/",
            "--header",
            "A: ${NO_SUCH_VARIABLE}",
        ],
    ] {
        let output = mcpinspect(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
    }
}

#[test]
fn a_session_has_its_headers_and_is_ended() {
    let peer = MisbehavingServer::new();
    let options = ["tools/call", "--tool", "echo", "--url", &peer.url("/plain")];
    let output = mcpinspect(&options)
        .args([
            "--header",
            "Authorization: Bearer ${TOKEN}",
            "--header",
            "X-Two: b",
        ])
        .env("TOKEN", "s3cret")
        .output()
        .unwrap();
    assert_eq!(
        envelope(&output)["content"][0]["text"],
        "called",
        "{output:?}"
    );
    let requests = peer.requests();
    let what: Vec<(&str, &str)> = requests
        .iter()
        .map(|request| {
            let method = request["message"]["method"].as_str();
            (request["do"].as_str().unwrap(), method.unwrap_or_default())
        })
        .collect();
    let mut expected = vec![
        ("POST", "server/discover"),
        ("POST", "initialize"),
        ("POST", "notifications/initialized"),
        ("GET", ""),
        ("POST", "tools/list"),
        ("POST", "tools/call"),
        ("DELETE", ""),
    ];
    // The stream is asked for beside the way.
    let mut sorted = what.clone();
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected, "{what:?}");
    assert_eq!(what.last(), Some(&("DELETE", "")));
    for request in &requests {
        let headers = &request["headers"];
        assert_eq!(headers["authorization"], "Bearer s3cret", "{request}");
        assert_eq!(headers["x-two"], "b");
        let method = request["message"]["method"].as_str().unwrap_or_default();
        let (revision, session) = match method {
            "server/discover" => (json!("2026-07-28"), Value::Null),
            "initialize" => (Value::Null, Value::Null),
            _ => (json!("2025-06-18"), json!("s e/1")),
        };
        assert_eq!(headers["mcp-protocol-version"], revision, "{request}");
        assert_eq!(headers["mcp-session-id"], session, "{request}");
        let repeated = (method == "server/discover").then_some("server/discover");
        assert_eq!(headers["mcp-method"], json!(repeated), "{request}");
    }
}

#[test]
fn the_same_server_may_redirect() {
    let peer = MisbehavingServer::new();
    let response = peer.response("/here", &["tools/list", "--header", "A: b"]);
    assert_eq!(response["result"]["tools"][0]["name"], "echo", "{response}");
    let requests = peer.requests();
    assert!(
        requests
            .iter()
            .all(|request| request["headers"]["a"] == "b")
    );
}

#[test]
fn a_stream_that_breaks_off_is_resumed() {
    let peer = MisbehavingServer::new();
    let response = peer.response("/break", &["tools/list"]);
    assert_eq!(response["result"]["tools"][0]["name"], "echo", "{response}");
    assert_eq!(response["logs"][0]["message"], "before the break");
    let requests = peer.requests();
    let resumed = requests
        .iter()
        .find_map(|request| request["headers"]["last-event-id"].as_str());
    assert!(resumed.unwrap().ends_with("/tools.list"));
}

#[test]
fn a_server_asks_in_the_stream_of_a_request() {
    let peer = MisbehavingServer::new();
    let response = peer.response("/asks", &["tools/call", "--tool", "echo"]);
    assert_eq!(
        response["serverRequests"][0]["method"], "roots/list",
        "{response}"
    );
    let requests = peer.requests();
    let mut answers = requests
        .iter()
        .filter(|request| request["message"]["id"] == "q");
    let answer = answers.next().unwrap();
    assert_eq!(answer["message"]["error"]["code"], -32601);
    assert_eq!(answer["headers"]["mcp-session-id"], "s e/1");
}

#[test]
fn a_notification_arrives_although_nothing_answers_it() {
    let peer = MisbehavingServer::new();
    let response = peer.response("/plain", &["notifications/roots/list_changed"]);
    assert_eq!(
        (&response["success"], &response["result"]),
        (&json!(true), &Value::Null)
    );
    let requests = peer.requests();
    let method = |request: &Value| request["message"]["method"].clone();
    let arrived = requests
        .iter()
        .any(|request| method(request) == "notifications/roots/list_changed");
    assert!(arrived, "{requests:?}");
}

#[test]
fn messages_come_as_a_batch_too() {
    let peer = MisbehavingServer::new();
    let response = peer.response("/batch", &["tools/list"]);
    assert_eq!(response["result"]["tools"][0]["name"], "echo", "{response}");
    assert_eq!(response["logs"][0]["message"], "first");
}

#[test]
fn the_older_transport_is_found_out() {
    let peer = MisbehavingServer::new();
    let response = peer.response("/old", &["tools/call", "--tool", "echo"]);
    assert_eq!(
        response["result"]["content"][0]["text"], "called",
        "{response}"
    );
}

#[test]
fn a_configuration_may_have_a_url() {
    let peer = MisbehavingServer::new();
    let servers = json!({"mcpServers": {"odd": {"type": "http", "url": peer.url("/plain"),
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-One": "a"}}}});
    peer.folder.write(".mcp.json", &servers.to_string());
    let output = mcpinspect(&["tools/list", "odd", "--header", "x-one: b"])
        .current_dir(peer.folder.path("."))
        .env("HOME", "/nonexistent")
        .env("TOKEN", "t")
        .output()
        .unwrap();
    assert_eq!(envelope(&output)["tools"][0]["name"], "echo", "{output:?}");
    let headers = &peer.requests()[0]["headers"];
    assert_eq!(headers["authorization"], "Bearer t");
    assert_eq!(headers["x-one"], "b");
}

#[test]
fn only_who_is_trusted_is_talked_to_over_tls() {
    let peer = MisbehavingServer::start("https", |folder| {
        let made = Command::new(python())
            .args(["-c", include_str!("certificate.py")])
            .arg(folder.path(""))
            .status();
        assert!(made.unwrap().success());
        ["server.pem", "server.key"]
            .map(|name| folder.path(name).to_str().unwrap().to_owned())
            .to_vec()
    });
    let ask = |authority: &str| {
        let url = peer.url("/plain");
        let output = mcpinspect(&["tools/list", "--structured", "--url", &url])
            .env("SSL_CERT_FILE", peer.folder.path(authority))
            .output();
        envelope(&output.unwrap())
    };
    let response = ask("authority.pem");
    assert_eq!(response["success"], true, "{response}");
    let response = ask("server.pem");
    assert_eq!(response["error"]["code"], "tls", "{response}");
}
