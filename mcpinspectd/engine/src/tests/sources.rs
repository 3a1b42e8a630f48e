//! Scripts, tapes and recordings, with an engine behind them.

use std::sync::atomic::AtomicBool;

use mcpinspect_core::model::Direction;
use mcpinspect_core::model::Direction::{ClientToServer as Up, ServerToClient as Down};
use mcpinspect_core::model::{
    BlindMechanism, EndReason, Input, InputSink, Pid, ServerEndpoint, ServerId, ServerIdentity,
    SessionId, Timestamp,
};
use mcpinspect_core::source::recorder::Recorder;
use mcpinspect_core::source::script::Script;
use mcpinspect_core::source::tape::{TapeError, TapeFault, TapeReader, TapeWriter};
use mcpinspect_core::source::{Progress, Source, run};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::Registry;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::event::testing::party;
use crate::{Engine, Limits, Output, OutputSink};

const START: Timestamp = Timestamp(1_760_000_000_123_456_789);
const HEADER: &str = "{\"format\":\"mcpinspect-inputs\",\"version\":1}\n";

/// Everything an engine said, one line each.
#[derive(Default)]
struct Log(Vec<String>);

impl OutputSink for Log {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => self.0.push(format!("{message:?}")),
            Output::Event(event) => self.0.push(serde_json::to_string(event).unwrap()),
            _ => {}
        }
    }
}

/// An engine that takes inputs.
struct EngineSink {
    engine: Engine,
    log: Log,
}

impl EngineSink {
    fn new() -> Self {
        Self {
            engine: Engine::new(
                Limits::default(),
                Registry::in_memory(),
                Box::new(NoDetector),
            ),
            log: Log::default(),
        }
    }
}

impl InputSink for EngineSink {
    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(input, &mut self.log);
    }
}

/// Keeps inputs.
#[derive(Default)]
struct RecordedInputs(Vec<Input<'static>>);

impl InputSink for RecordedInputs {
    fn input(&mut self, input: Input<'_>) {
        self.0.push(input.into_owned());
    }
}

/// A session in which everything happens that can.
fn session() -> Vec<Input<'static>> {
    let mut script = Script::new("files")
        .session("1-0")
        .identity(ServerIdentity {
            server_id: ServerId("files".into()),
            fingerprint: "f0".to_owned(),
            name_source: "package:npm".to_owned(),
            publisher: None,
            former: None,
        })
        .processes(Some(party(7, 1000)), Some(party(8, 1000)))
        .paced(START, 1_000_001);
    let program = json!({"executable": "/usr/bin/node", "package": "npm:files"});
    let mut inputs = vec![
        script.start(),
        script.parties(Some(Pid(7)), None),
        script.program(serde_json::value::to_raw_value(&program).unwrap()),
    ];
    let tools = |description: &str| json!({"tools": [{"name": "read", "description": description, "inputSchema": {"type": "object"}}]});
    for description in ["Reads a file.", "Reads a file, grün \u{202e}."] {
        inputs.extend(script.exchange("tools/list", "{}", tools(description)));
    }
    inputs.extend([
        script.bytes(Down, b"half a li").into_owned(),
        script.bytes(Down, b"ne\xff\x00\r\n").into_owned(),
        script.difference(Down, b"what was read", b"what was \xff written"),
        script.gap(Down, 12),
        script.line(Down, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#),
        script.blind_spot(BlindMechanism::Splice, Pid(7)),
        script.end_of_stream(Up),
        script.end(EndReason::ServerExited),
    ]);
    inputs
}

/// A session over HTTP with a server that is not a process on this machine.
fn remote_session() -> Vec<Input<'static>> {
    let url = "https://mcp.example.org/v1".to_owned();
    let mut script = Script::new("mcp.example.org")
        .session("1-1")
        .endpoint(ServerEndpoint::Http { url })
        .processes(None, Some(party(8, 1000)))
        .paced(START, 500);
    let mut inputs = vec![script.start()];
    inputs.push(script.message(
        Up,
        "{\n \"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"\n}",
    ));
    inputs.push(script.message(Down, "{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{}}"));
    script.jump(Down, 100);
    inputs.push(script.message(Down, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#));
    inputs.push(script.end(EndReason::ClientClosed));
    inputs
}

/// What an engine says about inputs.
fn said(inputs: &[Input<'static>]) -> Vec<String> {
    let mut sink = EngineSink::new();
    for input in inputs {
        sink.input(input.clone());
    }
    sink.log.0
}

fn tape(inputs: &[Input<'static>]) -> Vec<u8> {
    let mut writer = TapeWriter::new(Vec::new()).unwrap();
    for input in inputs {
        writer.write(input).unwrap();
    }
    writer.finish().unwrap()
}

fn read(tape: &[u8]) -> Vec<Input<'static>> {
    TapeReader::new(tape)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

fn replayed(tape: &[u8]) -> Vec<String> {
    let mut sink = EngineSink::new();
    let mut source = TapeReader::new(tape).unwrap();
    run(&mut source, &AtomicBool::new(false), &mut sink, |_, _| {}).unwrap();
    sink.log.0
}

#[test]
fn a_tape_reads_back_to_equal_inputs() {
    let inputs = [session(), remote_session()].concat();
    assert_eq!(read(&tape(&inputs)), inputs);
    let kinds: Vec<_> = inputs.iter().map(std::mem::discriminant).collect();
    let different = kinds
        .iter()
        .enumerate()
        .filter(|(index, kind)| !kinds[..*index].contains(kind))
        .count();
    assert_eq!(different, 10, "every kind of input is on this tape");
}

#[test]
fn a_tape_of_a_script_gives_the_same_messages_and_events_to_the_byte() {
    for inputs in [session(), remote_session()] {
        let live = said(&inputs);
        assert!(live.len() >= inputs.len() - 4, "{live:#?}");
        assert_eq!(replayed(&tape(&inputs)), live);
    }
}

#[test]
fn a_recording_gives_the_same_messages_and_events_to_the_byte() {
    let mut recorder = Recorder::new(EngineSink::new(), Vec::new()).unwrap();
    for input in [session(), remote_session()].concat() {
        recorder.input(input);
        recorder.idle(START);
    }
    let (sink, tape) = recorder.finish().unwrap();
    assert_eq!(replayed(&tape), sink.log.0);
}

#[test]
fn a_tape_is_readable_json_lines() {
    let tape = String::from_utf8(tape(&session())).unwrap();
    let lines: Vec<Value> = tape
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[0],
        json!({"format": "mcpinspect-inputs", "version": 1})
    );
    let request = &lines[4]["bytes"];
    assert_eq!(
        request,
        &json!({
            "session": "1-0", "direction": "client_to_server", "position": 0,
            "time": "2025-10-09T08:53:20.125456791Z",
            "bytes": "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"tools/list\",\"params\":{}}\n",
        })
    );
    assert_eq!(lines[8]["bytes"]["bytes"], "half a li");
    assert_eq!(lines[9]["bytes"]["bytes"], json!({"base64": "bmX/AA0K"}));
}

#[test]
fn a_remote_server_is_told_by_its_transport() {
    let events: Vec<Value> = said(&remote_session())
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let started = &events[0];
    assert_eq!(
        (&started["server_type"], &started["server"]),
        (&json!("http"), &Value::Null)
    );
    let gap = &events[1];
    assert_eq!(
        (&gap["type"], &gap["bytes_lost"], &gap["reason"]),
        (
            &json!("mcp_capture_gap"),
            &json!(100),
            &json!("position_jump")
        )
    );
    let ended = &events[2];
    assert_eq!(
        (&ended["messages"], &ended["unanswered"]),
        (&json!(3), &json!(0))
    );
}

fn fault(tape: impl AsRef<[u8]>) -> TapeError {
    let mut reader = match TapeReader::with_max_line(tape.as_ref(), 200) {
        Ok(reader) => reader,
        Err(error) => return error,
    };
    let error = reader.find_map(Result::err).unwrap();
    assert!(reader.next().is_none(), "nothing comes after an error");
    error
}

#[test]
fn a_bad_line_is_refused_with_its_number() {
    let end = r#"{"session_ended":{"session":"s","reason":"client_exited","time":"1970-01-01T00:00:00Z"}}"#;
    let two_lines = format!("{HEADER}{end}\n");
    for bad in [
        "",
        "{}",
        "null",
        r#"{"session_ended":{"session":"s","reason":"client_exited"}}"#,
        r#"{"session_ended":{"session":"s","reason":"other","time":"1970-01-01T00:00:00Z"}}"#,
        r#"{"gap":{}}"#,
        r#"{"hiccup":{}}"#,
        r#"{"end_of_stream":{"session":"s","direction":"up","time":"1970-01-01T00:00:00Z"}}"#,
        &format!("{end} {end}"),
    ] {
        let error = fault(format!("{two_lines}{bad}\n{end}\n"));
        assert_eq!(error.line, 3, "{bad}: {error}");
        assert!(
            matches!(error.fault, TapeFault::Malformed(_)),
            "{bad}: {error}"
        );
    }
    let cut = fault(format!("{two_lines}{}", &end[..30]));
    assert_eq!(
        (cut.line, cut.to_string().as_str()),
        (3, "line 3 of the tape is truncated")
    );
    let long = fault(format!("{two_lines}{}", "x".repeat(201)));
    assert!(matches!(long.fault, TapeFault::TooLong(200)), "{long}");
    assert_eq!(long.line, 3);
    let binary = fault([two_lines.as_bytes(), b"\xff\xfe\n"].concat());
    assert!(matches!(binary.fault, TapeFault::Malformed(_)), "{binary}");
    // The last line needs no newline.
    assert_eq!(read(format!("{two_lines}{end}").as_bytes()).len(), 2);
}

#[test]
fn what_is_not_a_tape_of_this_version_is_refused() {
    for text in [
        "",
        "\n",
        "not json\n",
        "{\"format\":\"other\",\"version\":1}\n",
    ] {
        let error = fault(text);
        assert!(matches!(error.fault, TapeFault::NotATape), "{error}");
        assert_eq!(error.line, 1);
    }
    let later = fault(HEADER.replace(":1}", ":2}"));
    assert!(matches!(later.fault, TapeFault::Version(2)), "{later}");
    let endless = fault("x".repeat(1000));
    assert!(
        matches!(endless.fault, TapeFault::TooLong(200)),
        "{endless}"
    );
}

#[test]
fn json_text_with_line_breaks_stays_on_its_line() {
    let mut script = Script::new("files");
    let text = "{\n\"executable\": \"a\\nb\"\n}".to_owned();
    let program = serde_json::value::RawValue::from_string(text).unwrap();
    let tape = tape(&[script.program(program)]);
    let [Input::Program { definition, .. }] = &read(&tape)[..] else {
        panic!("one input")
    };
    assert_eq!(definition.raw().get(), r#"{ "executable": "a\nb" }"#);
}

/// Fails after the header.
struct FullDisk(bool);

impl std::io::Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if std::mem::replace(&mut self.0, true) {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn inputs_pass_where_they_cannot_be_recorded() {
    let mut recorder = Recorder::new(RecordedInputs::default(), FullDisk(false)).unwrap();
    for input in session() {
        recorder.input(input);
    }
    assert_eq!(recorder.sink().0, session());
    let error = recorder.finish().err().unwrap();
    assert_eq!(error.line, 2);
    assert!(matches!(error.fault, TapeFault::Io(_)), "{error}");
}

#[test]
fn a_source_is_fed_until_it_is_exhausted_or_stopped() {
    let mut script = Script::new("files");
    let inputs: Vec<_> = (0..1000).map(|_| script.line(Up, "{}")).collect();
    let tape = tape(&inputs);
    let stop = AtomicBool::new(false);
    let (mut sink, mut polls) = (RecordedInputs::default(), 0);
    let mut source = TapeReader::new(&tape[..]).unwrap();
    run(&mut source, &stop, &mut sink, |_, _| polls += 1).unwrap();
    assert_eq!((sink.0.len(), polls), (1000, 4));
    assert_eq!(source.poll(&mut sink).unwrap(), Progress::Exhausted);

    let mut sink = RecordedInputs::default();
    let mut source = TapeReader::new(&tape[..]).unwrap();
    run(&mut source, &stop, &mut sink, |sink, _| {
        stop.store(sink.0.len() > 300, std::sync::atomic::Ordering::Release);
    })
    .unwrap();
    assert_eq!(sink.0.len(), 512, "it stops between two polls");
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Up), Just(Down)]
}

proptest! {
    #[test]
    fn any_bytes_and_times_come_back(
        inputs in prop::collection::vec(
            (direction(), any::<Vec<u8>>(), any::<u64>(), any::<u64>(), ".*"),
            0..20,
        ),
    ) {
        let inputs: Vec<_> = inputs
            .into_iter()
            .map(|(direction, bytes, position, time, text)| Input::EndsDisagree {
                session: std::borrow::Cow::Owned(SessionId(text.as_str().into())),
                direction,
                position,
                bytes: position,
                read: bytes.into(),
                written: text.into_bytes().into(),
                time: Timestamp(time),
            })
            .collect();
        prop_assert_eq!(read(&tape(&inputs)), inputs);
    }
}
