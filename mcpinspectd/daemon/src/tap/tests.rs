use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use mcpinspect_core::text::escape::is_hidden;
use mcpinspect_engine::MessageKind;
use mcpinspect_engine::event::EventKind;
use mcpinspect_engine::event::testing::examples;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::testing::{Message, conversation, request, response};
use super::*;

const NOW: Timestamp = Timestamp(1_760_000_009_000_000_000);

/// An output that the test still holds after the tap is gone.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }

    fn json(&self) -> Vec<Value> {
        self.text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn ledger(session: &str, direction: Direction, lost: u64) -> StreamLedger {
    StreamLedger {
        session_id: SessionId(Arc::from(session)),
        direction,
        bytes_written: 1000,
        bytes_read: 1000,
        bytes_captured: 1000 - lost,
        bytes_lost: lost,
    }
}

fn run<F: Format>(
    format: F,
    filter: Filter,
    messages: &[Message],
    events: &[Event],
    lost: u64,
) -> Shared {
    let out = Shared::default();
    let mut tap = Tap::new(out.clone(), format, filter);
    tap.ready(&Ready {
        timestamp: NOW,
        version: "1.2.3",
        pid: Pid(77),
    });
    for message in messages {
        tap.message(&message.seen());
    }
    for event in events {
        tap.event(event);
    }
    let ledgers = [
        ledger("s-2", Direction::ClientToServer, 0),
        ledger("s-1", Direction::ServerToClient, lost),
        ledger("s-1", Direction::ClientToServer, 0),
    ];
    tap.finish(NOW, &ledgers, CaptureTotals::default()).unwrap();
    out
}

#[test]
fn json_lines_keep_their_shape() {
    let messages = conversation();
    let lines = run(
        Jsonl { raw: true },
        Filter::default(),
        &messages,
        &examples(),
        7,
    )
    .json();
    assert_eq!(
        lines[0],
        json!({"type": "tap_ready", "timestamp": NOW.to_string(), "version": "1.2.3", "pid": 77})
    );
    assert_eq!(
        lines[5],
        json!({
            "type": "mcp_message",
            "timestamp": "2025-10-09T08:53:20.123456Z",
            "session_id": "s-1",
            "server_id": "filesystem",
            "direction": "client_to_server",
            "server_pid": 4242,
            "client_pid": 4100,
            "kind": "request",
            "method": "tools/call",
            "id": "a-7",
            "bytes": messages[4].text.len(),
            "sha256": format!("{:x}", <sha2::Sha256 as sha2::Digest>::digest(&messages[4].text)),
            "raw": String::from_utf8(messages[4].text.clone()).unwrap(),
            "gap_before": false
        })
    );
    // A response has no method of its own.
    assert_eq!(lines[6]["method"], Value::Null);
    assert_eq!(lines[6]["kind"], "response");
    assert_eq!(lines[9]["gap_before"], true);
    // Not UTF-8: the bytes still come through.
    assert_eq!(lines[10]["kind"], "invalid");
    assert!(lines[10].get("raw").is_none());
    assert_eq!(lines[10]["raw_base64"], "U3RhcnRpbmf/IHNlcnZlcgc=");
    let types: Vec<&str> = lines[11..]
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["mcp_capture_gap", "mcp_blind_spot", "tap_summary"]);
    assert_eq!(lines[11]["bytes_lost"], 512);
    assert_eq!(
        lines[13]["streams"],
        json!([
            {"session_id": "s-1", "direction": "client_to_server", "bytes_written": 1000, "bytes_read": 1000,
             "bytes_captured": 1000, "bytes_lost": 0, "frames": 3},
            {"session_id": "s-1", "direction": "server_to_client", "bytes_written": 1000, "bytes_read": 1000,
             "bytes_captured": 993, "bytes_lost": 7, "frames": 7},
            {"session_id": "s-2", "direction": "client_to_server", "bytes_written": 1000, "bytes_read": 1000,
             "bytes_captured": 1000, "bytes_lost": 0, "frames": 0},
        ])
    );
}

#[test]
fn without_raw_no_content_leaves() {
    let text = run(Jsonl::default(), Filter::default(), &conversation(), &[], 0).text();
    assert!(!text.contains("/etc/hosts") && !text.contains("raw"));
}

#[test]
fn ids_stay_what_they_are() {
    for (id, expected) in [
        ("0", "0"),
        ("-1.5e300", "-1.5e300"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("\"a\\\"b\"", "\"a\\\"b\""),
        ("\"é\u{202e}\"", "\"é\\u202e\""),
        ("null", "null"),
        ("{broken", "\"{broken\""),
    ] {
        let message = request("ping", id, "{}");
        let text = run(Jsonl::default(), Filter::default(), &[message], &[], 0).text();
        assert!(
            text.contains(&format!("\"id\":{expected},")),
            "{id}: {text}"
        );
    }
}

#[test]
fn lines_for_people() {
    let events: Vec<Event> = examples()
        .into_iter()
        .filter(|event| {
            matches!(
                event.kind(),
                EventKind::SessionStarted
                    | EventKind::ToolChanged
                    | EventKind::CaptureGap
                    | EventKind::RegistryFull
                    | EventKind::EventsDropped
            )
        })
        .collect();
    let text = run(
        Human::new(false, Some(150)),
        Filter::default(),
        &conversation(),
        &events,
        7,
    )
    .text();
    insta::assert_snapshot!(text, @r#"
    mcpinspectd 1.2.3 watches every MCP server on this machine; times are UTC, Ctrl-C ends
    08:53:20.123  filesystem(4242)       → initialize                         0                   153 B  claude 2.0, protocol 2025-06-18
    08:53:20.123  filesystem(4242)       ← ✓ initialize                       0        1.4 ms     131 B  secure-filesystem-server 0.2, protocol 2025-06-18
    08:53:20.123  filesystem(4242)       → notifications/initialized                               54 B
    08:53:20.123  filesystem(4242)       ← ✓ tools/list                       1        820 µs      88 B  2 tools: read_file, write_file
    08:53:20.123  filesystem(4242)       → tools/call read_file               "a-7"               178 B  {"api_key":"«redacted:anthropic_key»","path":"/e…
    08:53:20.123  filesystem(4242)       ← ✓ tools/call read_file             "a-7"     2.3 s     108 B  127.0.0.1\tlocalhost\n\u{1b}[2J
    08:53:20.123  filesystem(4242)       ← ✗ tools/call                       8         15 ms      77 B  -32602 Unknown tool: rm
    08:53:20.123  filesystem(4242)       ← sampling/createMessage             12345…               92 B  {"maxTokens":100}
    08:53:20.123  filesystem(4242)       ← [gap] batch                                             19 B  [{"jsonrpc":"2.0"}]
    08:53:20.123  filesystem(4242)       ← invalid: not_json                                       17 B  Starting� server\u{7}
    08:53:20.000  files(4242)            ▲ Tool "read" of files has changed; field description; pinned aaaaaaaaaaaa, now bbbbbbbbbbbb; Credential access: The description asks the agent to read /etc/shadow
    08:53:20.000  files(4242)            · MCP session with files started; server pid 4242 uid 1000 /usr/bin/node; client pid 4241 uid 1000 /usr/bin/node; named by package:npm
    08:53:20.000  files(4242)            ! 512 bytes of files were lost; server_to_client from byte 4096: ring_full
    08:53:20.000  files(4242)            ! No room to pin 12 definitions of files; limit user_items; uid 1000
    08:53:20.000                         ! 3 events did not reach the journal sink; its queue was full

    server                 direction             written         read     captured         lost   frames
    files                  client_to_server         1000         1000         1000            0        3
    files                  server_to_client         1000         1000          993            7        7
    s-2                    client_to_server         1000         1000         1000            0        0
    7 B were lost.
    "#);
}

#[test]
fn a_clean_end_and_an_empty_one() {
    let out = Shared::default();
    Tap::new(out.clone(), Human::new(false, None), Filter::default())
        .finish(NOW, &[], CaptureTotals::default())
        .unwrap();
    assert_eq!(out.text(), "No MCP session was seen.\n");
    let text = run(Human::new(false, Some(100)), Filter::default(), &[], &[], 0).text();
    assert!(text.ends_with("Nothing was lost.\n"), "{text}");
}

#[test]
fn colour_only_adds_escapes_of_its_own() {
    let plain = run(
        Human::new(false, Some(150)),
        Filter::default(),
        &conversation(),
        &examples(),
        7,
    )
    .text();
    let coloured = run(
        Human::new(true, Some(150)),
        Filter::default(),
        &conversation(),
        &examples(),
        7,
    )
    .text();
    let escapes = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    assert!(escapes.find_iter(&coloured).count() > 20);
    let stripped = escapes.replace_all(&coloured, "");
    let trimmed = |text: &str| {
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(trimmed(&stripped), trimmed(&plain));
    assert!(!plain.contains('\u{1b}'));
}

#[test]
fn raw_shows_the_message_below_its_line_harmless() {
    let text = run(
        Human::new(false, Some(150)).with_raw(true),
        Filter::default(),
        &conversation(),
        &[],
        0,
    )
    .text();
    assert!(text.contains("\n    {\"method\":\"initialize\","));
    assert!(text.contains("\n    Starting\u{fffd} server\\u{7}\n"));
}

#[test]
fn filters_hold_for_messages_events_and_summary() {
    let mut other = request("ping", "1", "{}");
    other.session.id = SessionId(Arc::from("s-2"));
    other.session.server_id = ServerId(Arc::from("git"));
    let messages = [conversation().remove(4), other];
    let shown = |filter: Filter| {
        let lines = run(Jsonl::default(), filter, &messages, &examples(), 0).json();
        let count = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
        (
            count("mcp_message"),
            count("mcp_capture_gap"),
            lines.last().unwrap()["streams"].as_array().unwrap().len(),
        )
    };
    assert_eq!(shown(Filter::default()), (2, 1, 3));
    assert_eq!(shown(Filter::new(Some("git"), None).unwrap()), (1, 0, 1));
    // The examples' session is named again by the event that starts it.
    assert_eq!(shown(Filter::new(Some("file*"), None).unwrap()).0, 1);
    assert_eq!(
        shown(Filter::new(None, Some(Pid(4242))).unwrap()),
        (2, 1, 3)
    );
    assert_eq!(shown(Filter::new(None, Some(Pid(1))).unwrap()), (0, 0, 0));
}

/// An output that fails after some bytes.
struct Failing(usize, io::ErrorKind);

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(self.1.into());
        }
        let n = bytes.len().min(self.0);
        self.0 -= n;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_leaves_ends_the_tap_and_an_error_is_told() {
    for (kind, is_error) in [
        (io::ErrorKind::BrokenPipe, false),
        (io::ErrorKind::StorageFull, true),
    ] {
        let mut tap = Tap::new(Failing(100, kind), Jsonl::default(), Filter::default());
        tap.ready(&Ready {
            timestamp: NOW,
            version: "1",
            pid: Pid(1),
        });
        assert!(tap.is_open());
        tap.message(&request("ping", "1", "{}").seen());
        tap.flush();
        assert!(!tap.is_open());
        tap.message(&request("ping", "1", "{}").seen());
        assert!(tap.gathered.is_empty());
        assert_eq!(
            tap.finish(NOW, &[], CaptureTotals::default()).is_err(),
            is_error
        );
    }
}

/// An output that takes a little at a time, and is often not ready.
struct Slow(Shared, usize);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 += 1;
        match self.1 % 3 {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            1 => Err(io::ErrorKind::Interrupted.into()),
            _ => self.0.write(&bytes[..bytes.len().min(50)]),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        self.1 += 1;
        match self.1 % 2 {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_slow_output_gets_every_line_whole() {
    let out = Shared::default();
    let mut tap = Tap::new(Slow(out.clone(), 0), Jsonl::default(), Filter::default());
    for message in conversation() {
        tap.message(&message.seen());
    }
    tap.finish(NOW, &[], CaptureTotals::default()).unwrap();
    assert_eq!(out.json().len(), conversation().len() + 1);
}

#[test]
fn much_is_written_before_anybody_asks() {
    let out = Shared::default();
    let mut tap = Tap::new(out.clone(), Jsonl { raw: true }, Filter::default());
    let large = request(
        "ping",
        "1",
        &format!("{{\"x\":\"{}\"}}", "y".repeat(GATHERED)),
    );
    tap.message(&large.seen());
    assert_eq!(out.json().len(), 1);
}

#[test]
fn previews_of_what_people_look_for() {
    let preview = |message: &Message| preview::preview(&message.seen(), 60);
    assert_eq!(
        preview(&request("tools/call", "1", r#"{"params":{"name":"x"}}"#)),
        ""
    );
    assert_eq!(
        preview(&request(
            "tools/call",
            "1",
            r#"{"params":{"arguments":{"k":"\u0067hp_abcdefghij0123456789"}}}"#
        )),
        r#"{"k":"«redacted:github_token»"}"#
    );
    assert_eq!(
        preview(&request("x", "1", r#"{"params":{"_meta":{"a":1}}}"#)),
        ""
    );
    assert_eq!(
        preview(&request(
            "resources/read",
            "1",
            r#"{"params":{"uri":"file:///x"}}"#
        )),
        "file:///x"
    );
    assert_eq!(
        preview(&response(
            "tools/list",
            "1",
            1,
            r#"{"result":{"tools":[{"name":"a"}]}}"#
        )),
        "1 tool: a"
    );
    assert_eq!(
        preview(&response("tools/list", "1", 1, r#"{"result":{"tools":7}}"#)),
        r#"{"tools":7}"#
    );
    assert_eq!(
        preview(&response(
            "tools/call",
            "1",
            1,
            r#"{"result":{"content":[{"type":"image","data":"x"},{"text":"t"}]}}"#
        )),
        "[image] t"
    );
    assert_eq!(preview(&response("x", "1", 1, r#"{"error":"odd"}"#)), "odd");
    assert_eq!(preview(&response("x", "1", 1, "not json")), "not json");
    let long = request(
        "x",
        "1",
        &format!(r#"{{"params":{{"a":"{}"}}}}"#, "z".repeat(5 << 20)),
    );
    assert_eq!(preview(&long).chars().count(), 60);
}

proptest! {
    #[test]
    fn any_message_is_one_harmless_line(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..100),
            "\\{\"(params|result|error)\":(\\{\"(content|tools|arguments)\":.{0,20}\\}|.{0,10})\\}".prop_map(String::into_bytes),
            any::<String>().prop_map(String::into_bytes),
        ],
        method in prop::sample::select(vec!["initialize", "tools/call", "tools/list", "a\u{202e}\n"]),
        kind in prop::sample::select(vec![MessageKind::Request, MessageKind::Response, MessageKind::Invalid, MessageKind::Batch]),
    ) {
        let mut message = response(method, "\"\u{7f}\n\"", 1, "")
            .with_method(method)
            .with_tool("t\u{1b}[31m");
        message.head.kind = kind;
        message.text.clone_from(&bytes);
        let mut out = Vec::new();
        Human::new(false, Some(200)).message(&message.seen(), &mut out);
        let text = String::from_utf8(out).unwrap();
        prop_assert_eq!(text.matches('\n').count(), 1);
        prop_assert!(!text.trim_end_matches('\n').chars().any(is_hidden));
        prop_assert!(text.chars().count() <= 201);

        let mut out = Vec::new();
        Jsonl { raw: true }.message(&message.seen(), &mut out);
        let text = String::from_utf8(out).unwrap();
        prop_assert!(!text.trim_end_matches('\n').chars().any(is_hidden));
        let line: Value = serde_json::from_str(&text).unwrap();
        match std::str::from_utf8(&bytes) {
            Ok(exact) => prop_assert_eq!(line["raw"].as_str(), Some(exact)),
            Err(_) => prop_assert!(line["raw_base64"].is_string()),
        }
    }
}
