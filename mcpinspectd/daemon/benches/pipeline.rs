//! What the user-space pipeline costs: bytes in, messages and events out, on one core.
//!
//! `cargo bench -p mcpinspectd --bench pipeline [FILTER]`. Besides Criterion's means, the parser's
//! percentiles are printed, for a mean hides what a burst feels.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run has nothing to measure"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Bencher, BenchmarkId, Criterion, Throughput, criterion_group};
use mcpinspect_core::mcp;
use mcpinspect_core::model::{Direction, ItemKind, ServerId, SessionId, Timestamp};
use mcpinspect_core::source::script::Script;
use mcpinspect_core::wire::framing::{DEFAULT_MAX_FRAME, Framer};
use mcpinspect_engine::{Engine, Limits, Output, OutputSink};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::{Owner, Registry, Sighting};
use mcpinspect_runtime::queue::{Arrival, Bounds};
use mcpinspectd::pipeline::{MessageQueue, message_queue};
use serde_json::json;
use serde_json::value::RawValue;

/// Counts what the engine says.
#[derive(Default)]
struct Count {
    messages: u64,
    events: u64,
    /// Takes a copy, as for a store.
    queue: Option<MessageQueue>,
}

impl OutputSink for Count {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => {
                black_box(message);
                self.messages += 1;
                if let Some(queue) = &mut self.queue {
                    queue.output(output);
                }
            }
            Output::Event(event) => {
                black_box(event);
                self.events += 1;
            }
            _ => {}
        }
    }
}

/// A text of exactly `size` bytes around `core`.
fn padded(size: usize, with: impl Fn(&str) -> String) -> String {
    let bare = with("").len();
    let text = with(&"x".repeat(size.saturating_sub(bare)));
    assert!(text.len() >= size);
    text
}

fn call(id: usize, size: usize) -> String {
    padded(size, |text| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "read_file", "arguments": {"path": "/tmp/a", "text": text}}}).to_string()
    })
}

fn answer(id: usize, size: usize) -> String {
    padded(size, |text| {
        json!({"result": {"content": [{"type": "text", "text": text}]}, "jsonrpc": "2.0", "id": id})
            .to_string()
    })
}

fn framing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("framing");
    for (name, line, chunk) in [
        ("300 B lines in 64 KiB chunks", 300, 64 << 10),
        ("64 KiB lines in 64 KiB chunks", 64 << 10, 64 << 10),
        ("1 MiB lines in 64 KiB chunks", 1 << 20, 64 << 10),
        ("8 MiB lines in 64 KiB chunks", 8 << 20, 64 << 10),
    ] {
        let mut text = vec![b'x'; line];
        text[line - 1] = b'\n';
        let text = text.repeat((16 << 20) / line);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.sample_size(20);
        group.bench_function(name, |bencher| {
            let mut framer = Framer::new(DEFAULT_MAX_FRAME);
            let mut position = 0;
            bencher.iter(|| {
                let mut bytes = 0;
                for chunk in text.chunks(chunk) {
                    framer.push(position, chunk, |framed| {
                        black_box(&framed);
                        bytes += 1;
                    });
                    position += chunk.len() as u64;
                }
                bytes
            });
        });
    }
    group.finish();
}

fn parsing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    for size in [300, 4 << 10, 1 << 20] {
        let text = answer(7, size);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(size), &text, |bencher, text| {
            bencher.iter(|| black_box(mcp::parse(black_box(text.as_bytes()))).is_ok());
        });
    }
    group.finish();
}

/// Calls and answers, interleaved as an agent makes them, in chunks as the kernel hands them out.
fn pipeline(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pipeline");
    for (name, size, per_chunk) in [
        ("300 B, a chunk each", 300, 1),
        ("300 B, ten to a chunk", 300, 10),
        ("4 KiB, a chunk each", 4 << 10, 1),
        ("64 KiB, a chunk each", 64 << 10, 1),
    ] {
        let session = Exchanges::new(size, per_chunk);
        group.throughput(Throughput::Elements(session.messages()));
        group.sample_size(20);
        group.bench_function(name, |bencher| session.run(bencher, &mut Count::default()));
        // The same where a store takes a copy of each message. How fast it is, the benchmark `store` says.
        let (queue, mut records) = message_queue(Bounds {
            items: 16_384,
            bytes: 16 << 20,
        });
        let taking = std::thread::spawn(move || {
            let batch = Bounds {
                items: 4096,
                bytes: 4 << 20,
            };
            while records.blocking_recv().is_some() {
                records.gather(batch, Instant::now() + Duration::from_millis(250));
                let now = Instant::now();
                while let Arrival::Received(_) = records.recv_until(now) {}
            }
        });
        let mut count = Count {
            queue: Some(queue),
            ..Count::default()
        };
        group.bench_function(format!("{name}, recorded"), |bencher| {
            session.run(bencher, &mut count);
        });
        drop(count);
        taking.join().unwrap();
    }
    group.finish();
}

/// What both sides of a session say.
struct Exchanges {
    chunks: Vec<(Direction, String)>,
    pairs: usize,
}

impl Exchanges {
    fn new(size: usize, per_chunk: usize) -> Self {
        let pairs = if size > 10_000 { 100 } else { 5_000 };
        let chunks = |make: &dyn Fn(usize, usize) -> String| -> Vec<String> {
            let lines: Vec<String> = (0..pairs).map(|id| make(id, size - 1) + "\n").collect();
            lines.chunks(per_chunk).map(<[String]>::concat).collect()
        };
        let both = chunks(&call).into_iter().zip(chunks(&answer));
        let both = both.flat_map(|(call, answer)| {
            [
                (Direction::ClientToServer, call),
                (Direction::ServerToClient, answer),
            ]
        });
        Self {
            chunks: both.collect(),
            pairs,
        }
    }

    fn messages(&self) -> u64 {
        2 * self.pairs as u64
    }

    fn run(&self, bencher: &mut Bencher<'_>, count: &mut Count) {
        let (mut engine, mut script) = (engine(), Script::new("bench"));
        engine.handle(script.start(), count);
        let before = count.events;
        bencher.iter(|| {
            for (direction, text) in &self.chunks {
                engine.handle(script.bytes(*direction, text.as_bytes()), count);
                script.wait(1000);
            }
        });
        assert!(count.messages > 0);
        assert_eq!(count.events, before, "nothing is worth telling");
    }
}

fn engine() -> Engine {
    Engine::new(
        Limits::default(),
        Registry::in_memory(),
        Box::new(NoDetector),
    )
}

fn tool(index: usize) -> Box<RawValue> {
    let definition = json!({
        "name": format!("tool_{index}"),
        "description": "Reads the complete contents of a file from the file system, in various encodings.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where the file is"},
                "head": {"type": "number", "description": "Only this many lines from its start"},
                "tail": {"type": "number", "description": "Only this many lines from its end"},
            },
            "required": ["path"],
            "additionalProperties": false,
        },
        "annotations": {"readOnlyHint": true},
    });
    RawValue::from_string(definition.to_string()).unwrap()
}

fn registry(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("registry");
    let (server, session) = (ServerId("bench".into()), SessionId("bench".into()));
    let sighting = Sighting {
        owner: Owner::User(1000),
        server: &server,
        session: &session,
        time: Timestamp(0),
    };
    let tools: Vec<(String, Box<RawValue>)> = (0..100)
        .map(|index| (format!("tool_{index}"), tool(index)))
        .collect();
    group.throughput(Throughput::Elements(tools.len() as u64));
    group.bench_function("unchanged definitions", |bencher| {
        let mut registry = Registry::in_memory();
        bencher.iter(|| {
            registry.refresh();
            for (name, definition) in &tools {
                black_box(registry.observe(sighting, ItemKind::Tool, name, definition));
            }
            registry.save(sighting.time);
        });
    });
    group.bench_function("definitions never seen", |bencher| {
        bencher.iter_with_setup(Registry::in_memory, |mut registry| {
            for (name, definition) in &tools {
                black_box(registry.observe(sighting, ItemKind::Tool, name, definition));
            }
            registry
        });
    });
    group.bench_function("canonical text", |bencher| {
        bencher.iter(|| {
            for (_, definition) in &tools {
                black_box(mcpinspect_judge::registry::canonical::definition(
                    definition,
                ));
            }
        });
    });
    group.finish();
}

/// How long reading one message takes, as percentiles over many.
fn parse_percentiles() {
    let mut report = String::new();
    for size in [300, 4 << 10] {
        let texts: Vec<String> = (0..64).map(|id| answer(id, size)).collect();
        let mut nanoseconds: Vec<u128> = (0..200_000)
            .map(|round: usize| {
                let text = texts[round % texts.len()].as_bytes();
                let start = Instant::now();
                black_box(mcp::parse(black_box(text))).unwrap();
                start.elapsed().as_nanos()
            })
            .collect();
        nanoseconds.sort_unstable();
        let at = |share: f64| nanoseconds[(nanoseconds.len() as f64 * share) as usize];
        let _ = writeln!(
            report,
            "parse/{size} B: p50 {} ns, p99 {} ns, p99.9 {} ns",
            at(0.5),
            at(0.99),
            at(0.999)
        );
    }
    print!("{report}");
}

criterion_group!(benches, framing, parsing, pipeline, registry);

fn main() {
    if !std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        parse_percentiles();
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
