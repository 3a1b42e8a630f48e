//! The chapters on events and on the tap's lines, out of the schemas.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use mcpinspect_engine::event::Event;
use mcpinspect_engine::event::body::Body;
use mcpinspect_engine::event::envelope::{Envelope, EventId};
use mcpinspect_engine::event::kind::EventKind;
use mcpinspect_engine::event::testing;
use mcpinspect_tests::places::repository;
use mcpinspect_tests::schema::{self, EVENTS, TAP};
use mcpinspectd::sink::journal;
use serde_json::Value;

use super::generated;

const EVENTS_TEXT: &str = include_str!("../../../mcpinspectd/docs/events.schema.json");
const TAP_TEXT: &str = include_str!("../../../mcpinspectd/docs/tap.schema.json");

/// Definitions with a section of their own, which fields link to.
const SHARED: [&str; 4] = ["detection", "match", "field_change", "party"];

/// Every field of an event is in its table; the journal's own fields are explained by hand.
const JOURNAL_COMMON: [&str; 12] = [
    "MESSAGE_ID",
    "SYSLOG_IDENTIFIER",
    "MCPINSPECT_EVENT",
    "MCPINSPECT_EVENT_ID",
    "MCPINSPECT_TIMESTAMP",
    "MCPINSPECT_SEVERITY",
    "MCPINSPECT_SERVER",
    "MCPINSPECT_SESSION",
    "MCPINSPECT_PID",
    "MCPINSPECT_UID",
    "MCPINSPECT_TRUNCATED",
    "MCPINSPECT_JSON",
];

/// An example of each type, made ready for the outputs.
fn examples() -> Vec<Envelope> {
    ready(&testing::examples())
}

/// The same, with what the examples leave out.
fn variants() -> Vec<Envelope> {
    let mut events = testing::examples();
    for event in &mut events {
        match &mut event.body {
            Body::ToolSeen(seen) => seen.detections = vec![testing::detection()],
            Body::ServerChanged(changed) => changed.detections = vec![testing::detection()],
            Body::Contained(contained) => contained.uid = Some(1000),
            Body::SessionStarted(started) => {
                started.url = Some("https://example.org/mcp".to_owned());
            }
            _ => {}
        }
    }
    ready(&events)
}

fn ready(events: &[Event]) -> Vec<Envelope> {
    let number = |(at, event)| {
        let id = EventId::new(testing::TIME, at + 1);
        Envelope::new(event, id, Some(1000), 48 << 10).unwrap()
    };
    (0_u64..).zip(events).map(number).collect()
}

#[test]
fn every_type_of_event_fits_the_schema() {
    let examples = examples();
    assert_eq!(examples.len(), EventKind::ALL.len());
    for example in examples.iter().chain(&variants()) {
        let value: Value = serde_json::from_str(&example.json).unwrap();
        schema::event(&value).unwrap();
    }
    let described = EVENTS["oneOf"].as_array().unwrap();
    let described: Vec<_> = described
        .iter()
        .map(|option| option["$ref"].as_str().unwrap())
        .collect();
    let all = EventKind::ALL.map(|kind| format!("#/$defs/{}", kind.name()));
    assert_eq!(described, all);
}

/// A tap writes events about the wire itself, without an id.
#[test]
fn events_that_a_tap_writes_fit_its_schema() {
    let mut checked = 0;
    for event in testing::examples() {
        let on_the_wire = [
            EventKind::CaptureGap,
            EventKind::BlindSpot,
            EventKind::Detection,
        ];
        if on_the_wire.contains(&event.kind()) {
            schema::tap_line(&serde_json::to_value(&event).unwrap()).unwrap();
            checked += 1;
        }
    }
    assert_eq!(checked, 3);
}

/// However small the limit, what is left of an event fits its schema.
#[test]
fn events_that_were_cut_fit_the_schema() {
    let long = "x".repeat(20_000);
    for most in [0, 1 << 10, 2 << 10, 4 << 10, 16 << 10] {
        for event in [
            testing::changed("files", &long),
            testing::detected("files"),
            testing::session_started("files", 1000),
        ] {
            let id = EventId::new(testing::TIME, 7);
            let envelope = Envelope::new(&event, id, None, most).unwrap();
            schema::event(&serde_json::from_str(&envelope.json).unwrap()).unwrap();
        }
    }
}

#[test]
fn the_event_reference_is_up_to_date() {
    let mut text = String::new();
    for (example, variant) in examples().into_iter().zip(variants()) {
        let name = example.kind.name();
        let definition = &EVENTS["$defs"][name];
        let _ = writeln!(text, "### `{name}`\n\n{}\n", sentence(definition));
        table(&mut text, &own_fields(EVENTS_TEXT, name, definition));
        let mut more: Vec<_> = journal::fields(&example)
            .into_iter()
            .chain(journal::fields(&variant))
            .map(|(name, _)| name)
            .filter(|name| !JOURNAL_COMMON.contains(name))
            .map(|name| format!("`{name}`"))
            .collect();
        let mut listed = BTreeSet::new();
        more.retain(|name| listed.insert(name.clone()));
        let _ = write!(
            text,
            "\nJournal: `MESSAGE_ID={}`",
            example.kind.message_id()
        );
        if !more.is_empty() {
            let _ = write!(text, "; fields {}", more.join(", "));
        }
        let _ = writeln!(text, ".\n\n```json\n{}\n```\n", pretty(&example.json));
    }
    generated("events.md", "event types", &text);

    let mut common = String::new();
    let mut fields = vec![("type", "string".into(), "The event's type.".into())];
    let subject = &EVENTS["$defs"]["subject"];
    fields.extend(properties(EVENTS_TEXT, "subject", subject));
    let any = &EVENTS["$defs"]["mcp_tool_seen"];
    let mut outer = properties(EVENTS_TEXT, "mcp_tool_seen", any);
    outer.retain(|(name, ..)| ["event_id", "truncated"].contains(name));
    fields.extend(outer);
    table(&mut common, &fields);
    generated("events.md", "common fields", &common);

    let mut shared = String::new();
    for name in SHARED {
        let definition = &EVENTS["$defs"][name];
        let _ = writeln!(shared, "### {name}\n\n{}\n", sentence(definition));
        table(&mut shared, &properties(EVENTS_TEXT, name, definition));
        shared.push('\n');
    }
    generated("events.md", "shared objects", &shared);
}

#[test]
fn the_tap_reference_is_up_to_date() {
    let mut text = String::new();
    for name in ["tap_ready", "mcp_message", "tap_summary"] {
        let definition = &TAP["$defs"][name];
        let _ = writeln!(text, "### `{name}`\n\n{}\n", sentence(definition));
        table(&mut text, &own_fields(TAP_TEXT, name, definition));
        text.push('\n');
    }
    for (name, title) in [("stream", "Entries of `streams`"), ("capture", "`capture`")] {
        let definition = &TAP["$defs"][name];
        let _ = writeln!(text, "### {title}\n\n{}\n", sentence(definition));
        table(&mut text, &properties(TAP_TEXT, name, definition));
        text.push('\n');
    }
    generated("tap.md", "lines", &text);
}

/// The example lines in the chapter on the tap are lines that it may write.
#[test]
fn the_examples_of_tap_lines_fit_the_schema() {
    let chapter = repository().join("mcpinspectd/docs/tap.md");
    let text = std::fs::read_to_string(chapter).unwrap();
    let mut lines = 0;
    for line in super::blocks(&text, "json")
        .into_iter()
        .flat_map(str::lines)
    {
        schema::tap_line(&serde_json::from_str(line).unwrap()).unwrap();
        lines += 1;
    }
    assert!(lines > 2);
}

type Field = (&'static str, String, String);

/// The fields that are not the same in every event.
fn own_fields(text: &str, name: &str, definition: &'static Value) -> Vec<Field> {
    let mut fields = properties(text, name, definition);
    fields.retain(|(name, ..)| !["type", "event_id", "truncated"].contains(name));
    fields
}

/// The properties of a definition, in the order in which its author wrote them: a JSON object as
/// this crate reads it has none.
fn properties(text: &str, name: &str, definition: &'static Value) -> Vec<Field> {
    let start = text.find(&format!("    \"{name}\": {{\n")).unwrap();
    let place = |property: &str| text[start..].find(&format!("\n        \"{property}\": {{"));
    let properties = definition["properties"].as_object().unwrap();
    let mut fields: Vec<Field> = properties
        .iter()
        .map(|(name, schema)| (name.as_str(), kind(schema), sentence(schema)))
        .collect();
    fields.sort_by_key(|(property, ..)| place(property));
    fields
}

fn table(text: &mut String, fields: &[Field]) {
    text.push_str("| Field | Type | Meaning |\n|---|---|---|\n");
    for (name, kind, meaning) in fields {
        let _ = writeln!(text, "| `{name}` | {kind} | {meaning} |");
    }
}

fn sentence(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// What a value may be, in a few words.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return named(reference);
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words
            .iter()
            .map(|word| format!("`{}`", word.as_str().unwrap()))
            .collect();
        return words.join(", ");
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let options: Vec<_> = options.iter().map(kind).collect();
        return options.join(" or ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names: Vec<_> = names.iter().map(|name| name.as_str().unwrap()).collect();
            names.join(" or ")
        }
        _ => "any value".to_owned(),
    }
}

/// A definition that fields refer to.
fn named(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap();
    match name {
        "timestamp" => "timestamp".to_owned(),
        "sha256" => "string (SHA-256)".to_owned(),
        "pid" | "uid" => "integer".to_owned(),
        "severity" => "[severity](#severity)".to_owned(),
        "direction" => "`client_to_server`, `server_to_client`".to_owned(),
        "stream" => "[stream](#entries-of-streams)".to_owned(),
        "capture" => "[object](#capture)".to_owned(),
        shared if SHARED.contains(&shared) => format!("[{shared}](#{shared})"),
        other => panic!("no words for {other}"),
    }
}

/// A line of JSON over several lines, its members in their order.
fn pretty(json: &str) -> String {
    let mut text = String::new();
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, c) in json.char_indices() {
        let line = |depth: usize| format!("\n{}", "  ".repeat(depth));
        match c {
            _ if quoted => {
                quoted = escaped || c != '"';
                escaped = !escaped && c == '\\';
                text.push(c);
            }
            '{' | '[' if json[at + 1..].starts_with(['}', ']']) => text.push(c),
            '}' | ']' if text.ends_with(['{', '[']) => text.push(c),
            '{' | '[' => {
                depth += 1;
                text.push(c);
                text.push_str(&line(depth));
            }
            '}' | ']' => {
                depth -= 1;
                text.push_str(&line(depth));
                text.push(c);
            }
            ',' => {
                text.push(c);
                text.push_str(&line(depth));
            }
            ':' => text.push_str(": "),
            c => {
                quoted = c == '"';
                text.push(c);
            }
        }
    }
    text
}
