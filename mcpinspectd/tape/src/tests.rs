use mcpinspect_core::model::{Input, InputSink, Timestamp};
use mcpinspect_core::source::{Progress, Source as _};
use mcpinspect_engine::{Engine, Limits, Output, OutputSink};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::Registry;
use serde_json::{Value, json};

use super::anonymise::Anonymiser;
use super::read::{TapeReader, TapeSource};
use super::write::TapeWriter;
use super::*;

fn header() -> Header {
    let session = json!({
        "format": FORMAT, "version": VERSION, "session_id": "s-1", "server_id": "files", "fingerprint": "f0",
        "name_source": "package:npm", "transport": "stdio", "host": "annas-laptop",
        "server_exe": "/home/anna/.nvm/bin/node", "client_exe": "/usr/bin/claude",
        "server_info": {"name": "secure-filesystem-server", "version": "0.2.0"},
        "started": "2026-11-23T12:00:00.000000000Z", "ended": "2026-11-23T12:00:09.000000000Z",
        "end_reason": "client_closed",
    });
    serde_json::from_value(session).unwrap()
}

fn entry(sequence: u64, direction: Direction, message: &Value) -> Entry {
    let kind = match (&message["method"], &message["id"]) {
        (Value::Null, _) => "response",
        (_, Value::Null) => "notification",
        _ => "request",
    };
    let line = json!({
        "time": format!("2026-11-23T12:00:0{sequence}.000000000Z"), "direction": direction, "kind": kind,
        "sequence": sequence, "transport": "stdio", "method": message["method"], "id": message["id"].to_string(),
        "bytes": message.to_string().len(), "message": message,
    });
    serde_json::from_value(line).unwrap()
}

fn entries() -> Vec<Entry> {
    use Direction::{ClientToServer as Up, ServerToClient as Down};
    vec![
        entry(
            1,
            Up,
            &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        ),
        entry(
            2,
            Down,
            &json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "read_file",
            "description": "Reads below /home/anna/docs; ask anna@example.com", "inputSchema": {"type": "object"}}]}}),
        ),
        entry(
            3,
            Up,
            &json!({"jsonrpc": "2.0", "id": "call-anna-7", "method": "tools/call", "params": {"name": "read_file",
            "arguments": {"path": "/home/anna/diary.txt", "limit": 12, "account": 4_444_333_u32, "/home/anna": true}}}),
        ),
        entry(
            4,
            Down,
            &json!({"jsonrpc": "2.0", "id": "call-anna-7", "result": {"content": [{"type": "text",
            "text": "Dear diary"}], "structuredContent": {"file": "/home/anna/diary.txt"}, "isError": false}}),
        ),
    ]
}

fn written(header: &Header, entries: &[Entry]) -> Vec<u8> {
    let mut writer = TapeWriter::new(Vec::new(), header).unwrap();
    for entry in entries {
        writer.entry(entry).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn what_is_written_is_read() {
    let tape = written(&header(), &entries());
    let mut reader = TapeReader::new(tape.as_slice()).unwrap();
    assert_eq!(*reader.header(), header());
    let read: Vec<Entry> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(read, entries());
    let mut counting = Counting::default();
    read.iter().for_each(|entry| counting.add(entry));
    let totals = counting.totals;
    assert_eq!((totals.messages, totals.methods["tools/call"]), (4, 1));
    assert_eq!(totals.kinds["response"], 2);
}

#[test]
fn what_is_wrong_is_an_error_with_its_line() {
    let error = |tape: &[u8]| match TapeReader::new(tape) {
        Err(error) => error.to_string(),
        Ok(reader) => {
            let read: Result<Vec<Entry>, _> = reader.collect();
            read.unwrap_err().to_string()
        }
    };
    let tape = written(&header(), &entries());
    assert_eq!(error(b""), "line 1 of the tape is not the header of a tape");
    assert_eq!(
        error(b"{}\n"),
        "line 1 of the tape is not the header of a tape"
    );
    let newer = String::from_utf8(tape.clone())
        .unwrap()
        .replace("\"version\":1", "\"version\":9");
    assert!(error(newer.as_bytes()).contains("format version 9"));
    assert_eq!(
        error(&tape[..tape.len() - 9]),
        "line 5 of the tape is truncated"
    );
    let broken = [&tape[..], b"{\"time\":7}\n"].concat();
    assert!(error(&broken).starts_with("line 6 of the tape is invalid"));
}

/// An engine that notes messages in abbreviated form.
struct LoggedEngine {
    engine: Engine,
    log: OutputLog,
}

#[derive(Default)]
struct OutputLog(Vec<(u64, Option<u64>, Option<u64>)>, Vec<String>);

impl OutputSink for OutputLog {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => {
                let exchange = message.exchange;
                let answers = exchange.answers.as_ref().map(|request| request.sequence);
                self.0
                    .push((message.frame.time.0, answers, exchange.latency_ns));
            }
            Output::Event(event) => self.1.push(event.kind().name().to_owned()),
            _ => {}
        }
    }
}

impl InputSink for LoggedEngine {
    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(input, &mut self.log);
    }
}

fn played(tape: &[u8]) -> OutputLog {
    let mut play = LoggedEngine {
        engine: Engine::new(
            Limits::default(),
            Registry::in_memory(),
            Box::new(NoDetector),
        ),
        log: OutputLog::default(),
    };
    let mut source = TapeSource::new(TapeReader::new(tape).unwrap());
    while source.poll(&mut play).unwrap() == Progress::Open {}
    source.finish(&mut play).unwrap();
    play.log
}

#[test]
fn a_tape_is_a_source() {
    let OutputLog(messages, events) = played(&written(&header(), &entries()));
    let start = Timestamp::parse("2026-11-23T12:00:00Z").unwrap().0;
    let second = 1_000_000_000;
    assert_eq!(
        messages,
        [
            (start + second, None, None),
            (start + 2 * second, Some(1), Some(second)),
            (start + 3 * second, None, None),
            (start + 4 * second, Some(3), Some(second)),
        ]
    );
    assert_eq!(
        events,
        ["mcp_session_started", "mcp_tool_seen", "mcp_session_ended"]
    );
}

#[test]
fn what_is_missing_on_a_tape_is_a_gap() {
    let mut entries = entries();
    entries[2].message = None;
    let OutputLog(messages, events) = played(&written(&header(), &entries));
    assert_eq!(messages.len(), 3);
    assert!(events.contains(&"mcp_capture_gap".to_owned()));
}

#[test]
fn an_anonymous_tape_tells_no_one_and_plays_the_same() {
    let (mut anonymiser, anonymous) = Anonymiser::new(header());
    let entries: Vec<Entry> = entries()
        .into_iter()
        .map(|entry| anonymiser.entry(entry))
        .collect();
    let tape = written(&anonymous, &entries);
    let text = String::from_utf8(tape.clone()).unwrap();
    for name in ["anna", "laptop", "diary", "4444333", "2026", "s-1", "f0\""] {
        assert!(!text.to_lowercase().contains(name), "{name}: {text}");
    }
    for kept in [
        "read_file",
        "tools/call",
        "secure-filesystem-server",
        "isError",
        "Reads below /home/user/docs",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    let message = |index: usize| -> Value {
        let message: &Entry = &entries[index];
        serde_json::from_str(message.message.as_ref().unwrap().0.get()).unwrap()
    };
    // The same text becomes the same placeholder.
    let path = &message(2)["params"]["arguments"]["path"];
    assert_eq!(message(3)["result"]["structuredContent"]["file"], *path);
    assert_eq!(message(2)["params"]["arguments"]["limit"], 12);
    assert_eq!(message(2)["id"], message(3)["id"]);
    let OutputLog(messages, _) = played(&tape);
    let related: Vec<_> = messages
        .iter()
        .map(|(_, answers, latency)| (*answers, *latency))
        .collect();
    assert_eq!(related[3], (Some(3), Some(1_000_000_000)));
}
