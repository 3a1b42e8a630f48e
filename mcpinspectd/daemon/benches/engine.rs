//! What the whole of the daemon's user space achieves on one core: bytes in; messages, pins on disk,
//! findings and events out.
//!
//! `cargo bench -p mcpinspectd --bench engine`. Prints a table of its own rather than Criterion's,
//! for a definition is never seen only once: each round gets a new engine, and the best of several
//! rounds is told. Inputs that were made to be slow are measured at two sizes: what a byte costs must
//! not grow with their number.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run has nothing to measure"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpinspect_core::model::Direction;
use mcpinspect_core::source::script::Script;
use mcpinspect_engine::event::Body;
use mcpinspect_engine::{Engine, Limits, Output, OutputSink};
use mcpinspect_judge::detect::analysis::{Analyser, AnalysisContext};
use mcpinspect_judge::detect::cross_server::{ToolIndex, ToolProfile};
use mcpinspect_judge::detect::json::Json;
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_judge::detect::{ActiveRules, WeightedRules};
use mcpinspect_store::registry as store;
use serde_json::{Value, json};

/// Rounds of which the best counts.
const ROUNDS: usize = 5;
/// Definitions on a page.
const PAGE: usize = 80;

/// Counts what the engine says.
#[derive(Default)]
struct Count {
    messages: usize,
    tools: usize,
    events: usize,
    detections: usize,
}

impl OutputSink for Count {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => {
                std::hint::black_box(message);
                self.messages += 1;
            }
            Output::Event(event) => {
                self.events += 1;
                match &event.body {
                    Body::ToolSeen(_) => self.tools += 1,
                    Body::Detection(_) => self.detections += 1,
                    _ => {}
                }
                std::hint::black_box(event);
            }
            _ => {}
        }
    }
}

/// An engine with everything plugged in, its registry on disk.
struct Fixture {
    engine: Engine,
    count: Count,
    script: Script,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let registry = store::open(&folder.path().join("registry.db")).unwrap();
        let current = Arc::new(ActiveRules::new(WeightedRules::builtin()));
        let watch = Box::new(RuntimeDetector::new(current));
        let mut fixture = Self {
            engine: Engine::new(Limits::default(), registry, watch),
            count: Count::default(),
            script: Script::new("0"),
            _folder: folder,
        };
        fixture.server("bench");
        fixture
    }

    fn server(&mut self, name: &str) {
        self.script = Script::new(name);
        self.engine.handle(self.script.start(), &mut self.count);
    }

    fn send(&mut self, direction: Direction, line: &str) {
        // As the kernel hands it out: 64 KiB at most.
        for bytes in line.as_bytes().chunks(64 << 10) {
            self.engine
                .handle(self.script.bytes(direction, bytes), &mut self.count);
            self.script.wait(bytes.len() as u64 * 1000);
        }
    }

    fn exchange(&mut self, (call, answer): &(String, String)) {
        self.send(Direction::ClientToServer, call);
        self.send(Direction::ServerToClient, answer);
    }
}

/// A call and its answer, a line each.
fn exchange(id: usize, method: &str, params: &Value, result: &Value) -> (String, String) {
    let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let answer = json!({"result": result, "jsonrpc": "2.0", "id": id});
    (format!("{call}\n"), format!("{answer}\n"))
}

/// Words of which no two definitions have the same.
const WORDS: [&str; 64] = [
    "archive",
    "record",
    "invoice",
    "customer",
    "calendar",
    "meeting",
    "ticket",
    "branch",
    "commit",
    "release",
    "sensor",
    "reading",
    "garden",
    "recipe",
    "ingredient",
    "flight",
    "airport",
    "hotel",
    "booking",
    "route",
    "station",
    "train",
    "museum",
    "painting",
    "author",
    "chapter",
    "library",
    "lecture",
    "student",
    "grade",
    "course",
    "paper",
    "citation",
    "gene",
    "protein",
    "sample",
    "reagent",
    "patient",
    "dose",
    "ward",
    "vessel",
    "harbour",
    "cargo",
    "container",
    "shelf",
    "warehouse",
    "supplier",
    "price",
    "discount",
    "basket",
    "parcel",
    "address",
    "district",
    "parcel",
    "tariff",
    "meter",
    "turbine",
    "panel",
    "battery",
    "charge",
    "voltage",
    "circuit",
    "layer",
    "board",
];

/// What stands between them.
const BETWEEN: [&str; 16] = [
    "of", "and", "by", "for", "with", "from", "in", "or", "near", "without", "per", "after",
    "within", "beside", "across", "as",
];

/// One of `words` for the place `at` of definition `number`.
fn pick(words: &[&'static str], number: usize, at: usize) -> &'static str {
    words[mixed((number as u64) << 16 | at as u64) as usize % words.len()]
}

/// A definition of the usual size, different for each number.
fn definition(number: usize) -> Value {
    let word = |at| pick(&WORDS, number, at);
    let mut description = "Finds a".to_owned();
    for at in 0..24 {
        let between = pick(&BETWEEN, number, 100 + at);
        description += &format!(" {} {between}", word(at));
        if at % 6 == 5 {
            description += &format!(" {}. Returns the", word(50 + at));
        }
    }
    json!({
        "name": format!("{}_{}", letters(number), word(80)),
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words to look for; quotes search for a phrase"},
                "limit": {"type": "integer", "default": 20, "description": "Most records to return"},
                "order": {"type": "string", "enum": ["newest", "oldest", "relevance"]},
            },
            "required": ["query"],
        },
    })
}

/// Ten letters that are far from those of any other number: a name that ends in a count looks like
/// another version of its neighbour.
fn letters(number: usize) -> String {
    (0..10)
        .map(|at| char::from(b'a' + (mixed((number as u64) << 8 | at) % 26) as u8))
        .collect()
}

/// Bits without a pattern (SplitMix64): texts that share one would be taken for copies.
fn mixed(state: u64) -> u64 {
    let mut bits = state.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Listings of `servers` servers with `PAGE` definitions each.
fn listings(servers: usize) -> Vec<(String, String)> {
    (0..servers)
        .map(|server| {
            let tools: Vec<Value> = (0..PAGE)
                .map(|index| definition(server * PAGE + index))
                .collect();
            exchange(server, "tools/list", &json!({}), &json!({"tools": tools}))
        })
        .collect()
}

/// How long something took: on the clock on the wall, and of the processor's time. They differ where
/// others use the processor, and where a disk is waited for.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    processor: Duration,
}

fn processor_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    Duration::from(time)
}

/// The best of several rounds, each with a new engine.
fn best(mut round: impl FnMut(&mut Fixture) -> Took) -> (Took, Fixture) {
    (0..ROUNDS)
        .map(|_| {
            let mut fixture = Fixture::new();
            (round(&mut fixture), fixture)
        })
        .min_by_key(|(took, _)| took.wall)
        .unwrap()
}

fn timed(act: impl FnOnce()) -> Took {
    let (begin, used) = (Instant::now(), processor_time());
    act();
    Took {
        wall: begin.elapsed(),
        processor: processor_time() - used,
    }
}

fn told(what: &str, amount: f64, took: Took, unit: &str, bar: Option<f64>) {
    let bar = bar.map_or(String::new(), |bar| {
        let verdict = if amount / took.processor.as_secs_f64() >= bar {
            "met"
        } else {
            "MISSED"
        };
        format!("bar {bar:.0}: {verdict}")
    });
    println!(
        "{what:<36} {:>12.0} {:>12.0} {unit:<14} {bar}",
        amount / took.wall.as_secs_f64(),
        amount / took.processor.as_secs_f64()
    );
}

/// Detection alone, as `mcpinspect scan` has it: text in, verdicts beside all other servers' tools out.
fn judged(pages: &[(String, String)]) -> Took {
    let tools = |page: &str| -> Vec<String> {
        let answer: Value = serde_json::from_str(page).unwrap();
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(Value::to_string).collect()
    };
    let texts: Vec<Vec<String>> = pages.iter().map(|(_, answer)| tools(answer)).collect();
    let round = |_| {
        let mut analyser = Analyser::new(WeightedRules::builtin());
        let mut index = ToolIndex::new();
        timed(|| {
            for (server, texts) in texts.iter().enumerate() {
                let server = server.to_string();
                for text in texts {
                    let tool = Json::parse(text.as_bytes()).unwrap();
                    let profile = Arc::new(ToolProfile::of(&tool).unwrap());
                    index.insert(&server, Arc::clone(&profile));
                    let context = AnalysisContext {
                        server: Some(&server),
                        tools: Some(&index),
                        profile: Some(&profile),
                        ..AnalysisContext::default()
                    };
                    std::hint::black_box(analyser.tool(&tool, context));
                }
            }
        })
    };
    let rounds = (0..ROUNDS).map(round);
    rounds.min_by_key(|took| took.wall).unwrap()
}

fn definitions() {
    const SERVERS: usize = 100;
    let pages = listings(SERVERS);
    let count = (SERVERS * PAGE) as f64;
    let (took, mut fixture) = best(|fixture| {
        timed(|| {
            for (server, page) in pages.iter().enumerate() {
                fixture.server(&server.to_string());
                fixture.exchange(page);
            }
        })
    });
    assert_eq!(fixture.count.tools, SERVERS * PAGE);
    println!(
        "findings in {count} definitions: {}",
        fixture.count.detections
    );
    assert_eq!(fixture.engine.registry().health().unsaved, 0, "on disk");
    let bytes: usize = pages.iter().map(|(_, answer)| answer.len()).sum();
    told(
        &format!("definitions of {:.0} B never seen", bytes as f64 / count),
        count,
        judged(&pages),
        "definitions/s",
        Some(20_000.0),
    );
    told(
        "with hashes and pins on disk",
        count,
        took,
        "definitions/s",
        None,
    );
    let again = timed(|| {
        for (server, page) in pages.iter().enumerate() {
            fixture.script = Script::new(&server.to_string());
            fixture
                .script
                .jump(Direction::ClientToServer, page.0.len() as u64);
            fixture
                .script
                .jump(Direction::ServerToClient, page.1.len() as u64);
            fixture.exchange(page);
        }
    });
    told("definitions unchanged", count, again, "definitions/s", None);
}

/// Messages of about 440 bytes: calls, answers and notifications.
fn messages() {
    let lines: Vec<(Direction, String)> = (0..30_000)
        .flat_map(|id| {
            let query = json!({"name": "search_records", "arguments": {"query": format!("{id} {}", "budget ".repeat(44))}});
            let text = format!("Thread {id}: {}", "the meeting was moved to Thursday at ten. ".repeat(8));
            let (call, answer) = exchange(id, "tools/call", &query, &json!({"content": [{"type": "text", "text": text}]}));
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": format!("{id} {}", "worker started ".repeat(23))}});
            [
                (Direction::ClientToServer, call),
                (Direction::ServerToClient, answer),
                (Direction::ServerToClient, format!("{log}\n")),
            ]
        })
        .collect();
    let bytes: usize = lines.iter().map(|(_, line)| line.len()).sum();
    let (took, fixture) = best(|fixture| {
        timed(|| {
            for (direction, line) in &lines {
                fixture.send(*direction, line);
            }
        })
    });
    assert_eq!(fixture.count.messages, lines.len());
    let what = format!("mixed messages of {} B", bytes / lines.len());
    told(
        &what,
        lines.len() as f64,
        took,
        "messages/s",
        Some(50_000.0),
    );
}

fn results() {
    let prose = "The committee met on Monday and agreed on the budget for the next year. Members asked for details on the new building. ";
    let code = "fn add(a: i64, b: i64) -> i64 {\n    // TODO: check for overflow\n    a + b\n}\n";
    let wide = "Комитет собрался в понедельник и утвердил бюджет. 委員会は月曜日に開かれ、予算を承認した。";
    for (name, text) in [("prose", prose), ("code", code), ("other scripts", wide)] {
        let text = text.repeat((64 << 10) / text.len());
        let params = json!({"name": "read_file", "arguments": {"path": "/tmp/a"}});
        let result = json!({"content": [{"type": "text", "text": text}]});
        let exchanges: Vec<_> = (0..200)
            .map(|id| exchange(id, "tools/call", &params, &result))
            .collect();
        let bytes: usize = exchanges.iter().map(|(_, answer)| answer.len()).sum();
        let (took, _) =
            best(|fixture| timed(|| exchanges.iter().for_each(|one| fixture.exchange(one))));
        told(
            &format!("results of 64 KiB, {name}"),
            bytes as f64 / 1e6,
            took,
            "MB/s",
            Some(20.0),
        );
    }
}

/// Texts that were made to be slow, at two sizes.
fn hostile() {
    let nested = |levels: usize| {
        (0..levels).fold(
            json!("do not tell the user"),
            |inner, _| json!({"properties": {"a": inner}}),
        )
    };
    let repeated = |text: &'static str| move |size: usize| json!({"name": "t", "description": text.repeat(size / text.len())});
    let result = |text: &'static str| move |size: usize| json!({"content": [{"type": "text", "text": text.repeat(size / text.len())}]});
    type Make = Box<dyn Fn(usize) -> Value>;
    let inputs: Vec<(&str, bool, Make, usize)> = vec![
        ("blanks", false, Box::new(result(" ")), 10_000_000),
        ("quotes", false, Box::new(result("'")), 1_000_000),
        (
            "anchors of every expression",
            false,
            Box::new(result("../../ ](http ../../../ ![ ](http://x?data=")),
            1_000_000,
        ),
        (
            "prefixes of phrases",
            false,
            Box::new(result(
                "do not tell do not te ignore all previou before you can us ",
            )),
            1_000_000,
        ),
        (
            "words of every rule",
            false,
            Box::new(result(
                "you must never tell user before call `a_b` with 'c d' send password to x@y.zz ~/.ssh/id_rsa; ",
            )),
            1_000_000,
        ),
        (
            "beginnings of payloads",
            false,
            Box::new(result("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo= %41%42%43 ")),
            1_000_000,
        ),
        (
            "letters without a glyph",
            false,
            Box::new(result("a\u{200b}\u{e0041}b\u{202e}")),
            1_000_000,
        ),
        (
            "definition of the words of every rule",
            true,
            Box::new(repeated(
                "you must never tell user before call `a_b` with 'c d' send password to x@y.zz; ",
            )),
            400_000,
        ),
        (
            "definition of one endless sentence",
            true,
            Box::new(repeated("must never tell user before call send password ")),
            400_000,
        ),
        (
            "schema of many levels",
            true,
            Box::new(move |size| json!({"name": "t", "inputSchema": nested((size / 22).min(60))})),
            1300,
        ),
        (
            "schema of very many levels",
            true,
            Box::new(|size| {
                let levels = size / 2;
                serde_json::from_str(&format!(
                    "{{\"name\":\"t\",\"inputSchema\":{}1{}}}",
                    "[".repeat(100.min(levels)),
                    "]".repeat(100.min(levels))
                ))
                .unwrap()
            }),
            200,
        ),
        (
            "schema of many properties",
            true,
            Box::new(|size| {
                let properties: serde_json::Map<_, _> = (0..size / 40)
                    .map(|n| (format!("param_{n}"), json!({"description": "a value"})))
                    .collect();
                json!({"name": "t", "inputSchema": {"properties": properties}})
            }),
            1_000_000,
        ),
    ];
    println!(
        "\n{:<44} {:>12} {:>12}   ns per byte at a fourth, and in full",
        "hostile input", "bytes", "ms"
    );
    for (name, is_tool, make, size) in inputs {
        let cost = |size: usize| {
            let value = make(size);
            let line = if is_tool {
                exchange(1, "tools/list", &json!({}), &json!({"tools": [value]}))
            } else {
                let params = json!({"name": "read_file", "arguments": {}});
                exchange(1, "tools/call", &params, &value)
            };
            let (took, _) = best(|fixture| timed(|| fixture.exchange(&line)));
            (took.processor, line.1.len())
        };
        let (small, small_bytes) = cost(size / 4);
        let (large, bytes) = cost(size);
        let per_byte = |took: Duration, bytes: usize| took.as_nanos() as f64 / bytes as f64;
        println!(
            "{name:<44} {bytes:>12} {:>12.2}   {:.1} and {:.1}",
            large.as_secs_f64() * 1e3,
            per_byte(small, small_bytes),
            per_byte(large, bytes)
        );
    }
}

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    println!("{:<36} {:>12} {:>12}", "", "by the clock", "by one core");
    definitions();
    messages();
    results();
    hostile();
    let memory = WeightedRules::builtin().rules.memory();
    println!(
        "\nrules and automata: {:.1} MiB (bar 16)",
        memory as f64 / f64::from(1 << 20)
    );
}
