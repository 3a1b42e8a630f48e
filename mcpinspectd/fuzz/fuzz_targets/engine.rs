//! Arbitrary inputs in any order cause no panic, every byte is counted, and the size of chunks makes no
//! difference.
#![cfg_attr(fuzzing, no_main)]

use arbitrary::Arbitrary;
use mcpinspect_core::model::{Direction, EndReason};
use mcpinspect_core::source::script::Script;
use mcpinspect_engine::event::Body;
use mcpinspect_engine::{Engine, Limits, Output, OutputSink};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::Registry;
use mcpinspectd_fuzz::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Text {
        up: bool,
        text: &'a str,
    },
    /// A message that the fuzzer would hardly find by itself.
    Ask {
        id: u8,
        method: u8,
        params: &'a str,
    },
    Answer {
        id: u8,
        result: &'a str,
    },
    Tools {
        id: u8,
        name: u8,
        description: &'a str,
        next: Option<u8>,
    },
    Gap {
        up: bool,
        bytes: u8,
    },
    End {
        up: bool,
    },
}

#[derive(Default)]
struct Log {
    lines: Vec<String>,
    ended: Option<(u64, u64)>,
}

impl OutputSink for Log {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => self.lines.push(format!("{message:?}")),
            Output::Event(event) => {
                if let Body::SessionEnded(ended) = &event.body {
                    self.ended = Some((ended.bytes, ended.bytes_lost));
                }
                self.lines.push(format!("{event:?}"));
            }
            _ => {}
        }
    }
}

const METHODS: [&str; 6] = [
    "initialize",
    "tools/list",
    "tools/call",
    "server/discover",
    "ping",
    "x",
];

fn run(steps: &[Step<'_>], midstream: bool, chunk: usize) -> Log {
    let registry = Registry::in_memory();
    let limits = Limits {
        max_message: 4096,
        max_in_flight: 16,
        ..Limits::default()
    };
    let mut engine = Engine::new(limits, registry, Box::new(NoDetector));
    let mut log = Log::default();
    let mut script = Script::new("server");
    if midstream {
        script = script.joined_midstream();
    }
    engine.handle(script.start(), &mut log);
    let (mut sent, mut lost) = (0, 0);
    for step in steps {
        script.wait(1);
        let (up, text) = match step {
            Step::Text { up, text } => (*up, (*text).to_owned()),
            Step::Ask { id, method, params } => {
                let method = METHODS[usize::from(*method) % METHODS.len()];
                let line = format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
                );
                (true, line)
            }
            Step::Answer { id, result } => (
                false,
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n"),
            ),
            Step::Tools {
                id,
                name,
                description,
                next,
            } => {
                let tool =
                    serde_json::json!({"name": name.to_string(), "description": description});
                let next =
                    next.map_or_else(String::new, |next| format!(",\"nextCursor\":\"{next}\""));
                (
                    false,
                    format!(
                        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"tools\":[{tool}]{next}}}}}\n"
                    ),
                )
            }
            Step::Gap { up, bytes } => {
                lost += u64::from(*bytes);
                engine.handle(script.gap(direction(*up), u64::from(*bytes)), &mut log);
                continue;
            }
            Step::End { up } => {
                engine.handle(script.end_of_stream(direction(*up)), &mut log);
                continue;
            }
        };
        for bytes in text.as_bytes().chunks(chunk) {
            sent += bytes.len() as u64;
            engine.handle(script.bytes(direction(up), bytes), &mut log);
        }
    }
    engine.handle(script.end(EndReason::ServerExited), &mut log);
    let (bytes, _) = log.ended.expect("the end is reported");
    assert_eq!(bytes, sent);
    assert!(log.ended.is_some_and(|(_, bytes_lost)| bytes_lost >= lost));
    log
}

fn direction(up: bool) -> Direction {
    if up {
        Direction::ClientToServer
    } else {
        Direction::ServerToClient
    }
}

fuzz_target!(|input: (bool, u8, Vec<Step<'_>>)| {
    let (midstream, chunk, steps) = input;
    let whole = run(&steps, midstream, usize::MAX);
    let pieces = run(&steps, midstream, usize::from(chunk) + 1);
    assert_eq!(whole.lines, pieces.lines);
});
