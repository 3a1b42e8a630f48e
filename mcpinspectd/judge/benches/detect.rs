//! How fast detection judges definitions, messages, large results, and text that is meant to be slow.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mcpinspect_core::mcp::message::{Payload, parse};
use mcpinspect_core::model::{Direction, Pid, ServerId, SessionId, Timestamp};
use mcpinspect_judge::detect::analysis::{Analyser, AnalysisContext, Subject, message};
use mcpinspect_judge::detect::json::Json;
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_judge::detect::{
    ActiveRules, Detector as _, Layers, MessageInContext, SessionContext, WeightedRules,
};
use serde_json::{Value, json};

/// A definition of the usual size (about 1.1 KB), different for each number.
fn definition(number: usize) -> Value {
    json!({
        "name": format!("search_records_{number}"),
        "description": format!(
            "Searches records in the archive and returns those that match, newest first.\n\nUse this tool when the user asks \
             for records by name, number or date. Call list_archives_{number} first to get the id of an archive. Results are \
             limited to 100 records; pass `offset` to get more. Dates must be in ISO 8601 format, for example 2026-05-01.\n\n\
             Args:\n  query: words to look for\n  archive_id: the archive to search\n  limit: most records to return\n\n\
             Returns:\n  A list of records with id, title, date and a snippet of the matching text."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "Words to look for; quotes search for a phrase" },
                "archive_id": { "type": "string", "description": "Identifier of the archive" },
                "limit": { "type": "integer", "default": 20, "minimum": 1, "maximum": 100, "description": "Most records to return" },
                "order": { "type": "string", "enum": ["newest", "oldest", "relevance"], "default": "newest" },
            },
            "required": ["query", "archive_id"],
        },
    })
}

fn result(text: String) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [{ "type": "text", "text": text }] } })
}

fn definitions(c: &mut Criterion) {
    let tools: Vec<String> = (0..1000)
        .map(|number| definition(number).to_string())
        .collect();
    let bytes: usize = tools.iter().map(String::len).sum();
    let mut analyser = Analyser::new(WeightedRules::builtin());
    let mut group = c.benchmark_group("definitions");
    group.throughput(Throughput::Elements(tools.len() as u64));
    group.bench_function(
        BenchmarkId::new("parse and look at", bytes / tools.len()),
        |b| {
            b.iter(|| {
                for tool in &tools {
                    let tool = Json::parse(tool.as_bytes()).unwrap_or_default();
                    black_box(analyser.tool(&tool, AnalysisContext::default()));
                }
            });
        },
    );
    let parsed: Vec<Json<'_>> = (0..1000).map(|n| definition(n).into()).collect();
    group.bench_function("look at", |b| {
        b.iter(|| {
            parsed
                .iter()
                .for_each(|tool| drop(black_box(analyser.tool(tool, AnalysisContext::default()))))
        });
    });
    group.finish();
}

fn messages(c: &mut Criterion) {
    let mut analyser = Analyser::new(WeightedRules::builtin());
    let texts: Vec<String> = (0..1000)
        .map(|number| match number % 3 {
            0 => result(format!("Thread {number}: {}", "the meeting was moved to Thursday at ten. ".repeat(8))).to_string(),
            1 => json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": { "name": "search_records", "arguments": { "query": "budget ".repeat(50) } } }).to_string(),
            _ => json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "worker started ".repeat(24) } }).to_string(),
        })
        .collect();
    let mut group = c.benchmark_group("messages");
    group.throughput(Throughput::Elements(texts.len() as u64));
    group.bench_function("440 B mixed", |b| {
        b.iter(|| {
            for text in &texts {
                let value = Json::parse(text.as_bytes()).unwrap_or_default();
                black_box(message::report(
                    &mut analyser,
                    &value,
                    AnalysisContext::default(),
                ));
            }
        });
    });
    group.finish();
}

fn large(c: &mut Criterion) {
    let mut analyser = Analyser::new(Arc::clone(&WeightedRules::builtin()));
    let prose = "The committee met on Monday and agreed on the budget for the next year. Members asked for details on the new building. ";
    let code = "fn add(a: i64, b: i64) -> i64 {\n    // TODO: check for overflow\n    a + b\n}\n";
    let wide = "Комитет собрался в понедельник и утвердил бюджет. 委員会は月曜日に開かれ、予算を承認した。";
    let inputs = [
        ("prose 64 KiB", prose.repeat(64 * 1024 / prose.len())),
        ("code 64 KiB", code.repeat(64 * 1024 / code.len())),
        ("wide 64 KiB", wide.repeat(64 * 1024 / wide.len())),
        ("blanks 10 MB", " ".repeat(10_000_000)),
        (
            "anchors 1 MB",
            "you must first call `x_y` with 'z' ".repeat(1_000_000 / 36),
        ),
        ("quotes 1 MB", "'".repeat(1_000_000)),
    ];
    let mut group = c.benchmark_group("results");
    group.sample_size(10);
    for (name, text) in inputs {
        group.throughput(Throughput::Bytes(text.len() as u64));
        let message = Json::from(result(text));
        let value = message.get("result").unwrap_or(&Json::Null);
        group.bench_function(name, |b| {
            b.iter(|| {
                black_box(analyser.value(value, Subject::ToolResult, AnalysisContext::default()))
            })
        });
    }
    group.finish();
}

/// Results of 64 KiB as the daemon judges them, by every layer and by two of them alone.
fn daemon(c: &mut Criterion) {
    const SIZE: usize = 64 * 1024;
    let prose = "The committee met on Monday, 3 May, and agreed on the budget for next year. Members asked for details on the \
         new building; please send questions to office@example.org before the 20th.\n\n";
    let code = "fn add(a: i64, b: i64) -> i64 {\n    // TODO: check for overflow\n    a.wrapping_add(b)\n}\n";
    let record = |number: usize| json!({ "id": number, "name": format!("Customer {number}"), "email": format!("c{number}@example.org"), "created": "2026-05-03T10:20:30Z", "tags": ["new", "eu"], "balance": 12.5 });
    let records: Vec<Value> = (0..SIZE / 130).map(record).collect();
    let inputs = [
        ("prose", prose.repeat(SIZE / prose.len())),
        ("code", code.repeat(SIZE / code.len())),
        ("records", Value::from(records).to_string()),
        ("letters", "abcdefgh".repeat(SIZE / 8)),
    ];
    let (server, session) = (ServerId("bench".into()), SessionId("s".into()));
    let context = SessionContext {
        server_id: &server,
        user: Some(1000),
        session_id: &session,
        client: Some(Pid(7)),
        time: Timestamp(1),
    };
    let only = |layers: &str| layers.parse().unwrap_or(Layers::ALL);
    let mut group = c.benchmark_group("daemon");
    for (name, text) in inputs {
        let line = result(text).to_string();
        group.throughput(Throughput::Bytes(line.len() as u64));
        let Ok(Payload::Single(message)) = parse(line.as_bytes()) else {
            continue;
        };
        let message = MessageInContext {
            direction: Direction::ServerToClient,
            message: &message.message,
            reply_to: Some("tools/call"),
            tool: Some("read_file"),
        };
        for (layers, shown) in [
            (Layers::ALL, "all"),
            (only("evidence"), "evidence"),
            (only("behaviour"), "behaviour"),
        ] {
            let active = Arc::new(ActiveRules::new(WeightedRules::builtin()));
            let mut detector = RuntimeDetector::new(active).with_layers(layers);
            group.bench_function(BenchmarkId::new(name, shown), |b| {
                b.iter(|| black_box(detector.message(&context, &message)))
            });
        }
    }
    group.finish();
}

criterion_group!(benches, definitions, messages, large, daemon);
criterion_main!(benches);
