//! A thousand sessions at a time.

use std::time::Duration;

use super::stub::{OpenStream, StubServer};
use super::{Gateway, call};

const SESSIONS: usize = 1000;

/// A tool that answers with its session's name, and after so many calls does not answer.
const RULES: &str = r#"
[[rule]]
id = "three"
when = { method = "tools/call", rate = { more_than = 3, within = "1h" } }
action = "block"

[[rule]]
id = "masked"
on = ["response"]
when = { tool = "name" }
action = "modify"
redact = [{ path = "**", matches = "secret of" }]
"#;

#[test]
fn a_thousand_sessions_are_not_mixed_up() {
    let stub = StubServer::start(|seen, out| {
        let session = seen.field("mcp-session-id").unwrap();
        if seen.head.starts_with("GET") {
            out.chunked("content-type: text/event-stream\r\n");
            out.chunk(
                format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"to/{session}\"}}\n\n").as_bytes(),
            );
            return out.wait();
        }
        let id = seen.id();
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"t":"secret of {session}"}}}}"#);
        out.respond(
            "200 OK",
            "content-type: text/event-stream\r\n",
            format!("data: {answer}\n\n").as_bytes(),
        );
    });
    let gateway = Gateway::start(RULES, &stub.url("/mcp"), &[]);
    let mut streams: Vec<OpenStream> = (0..SESSIONS)
        .map(|number| {
            let fields = format!("mcp-session-id: s{number}\r\n");
            OpenStream::get(gateway.address(), "/mcp", &fields)
        })
        .collect();
    for (number, stream) in streams.iter_mut().enumerate() {
        stream.until(&format!("to/s{number}\""));
    }
    // All of them use the same ids.
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let gateway = &gateway;
            scope.spawn(move || {
                for round in 1..=4 {
                    for number in (worker..SESSIONS).step_by(8) {
                        let fields = format!("mcp-session-id: s{number}\r\n");
                        let answer = gateway.ask("POST", "/mcp", &fields, &call(round, "name"));
                        let text = answer.text();
                        let expected = match round {
                            4 => "-32090".to_owned(),
                            _ => format!(
                                "\"id\":{round},\"result\":{{\"t\":\"«redacted» s{number}\"}}"
                            ),
                        };
                        assert!(text.contains(&expected), "{number} {round}: {text}");
                    }
                }
            });
        }
    });
    std::thread::sleep(Duration::from_millis(100));
    for (number, stream) in streams.iter_mut().enumerate() {
        assert_eq!(stream.until("to/").matches("data:").count(), 1, "{number}");
    }
}
