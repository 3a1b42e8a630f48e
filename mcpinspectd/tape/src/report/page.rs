//! The page: what a reader wants first comes first, and the messages themselves come last.

use std::collections::HashMap;

use mcpinspect_core::html;
use mcpinspect_core::html::{Text, put};
use mcpinspect_core::mcp::json::cut;
use mcpinspect_core::model::Direction;
use mcpinspect_core::text::human::{duration, moment, size};
use serde_json::Value;

use super::collect::{Body, Report, ReportMessage, SessionEvent};
use super::picture;

/// Bytes of an explanation or quotation.
const QUOTED: usize = 600;
/// Findings of one event to show.
const FINDINGS: usize = 8;

impl Report {
    /// The whole page: up to about 60 MiB if all bounds are reached.
    pub fn html(mut self) -> String {
        self.events.sort_by_key(|event| event.time);
        let mut out = String::new();
        head(&self, &mut out);
        summary(&self, &mut out);
        findings(&self, &mut out);
        put!(&mut out, "<h2 id=\"sequence\">Sequence</h2>\n");
        picture::put(&self.messages, &mut out);
        if !self.latencies.is_empty() {
            out.push_str("<h2 id=\"latency\">Response times</h2>\n");
            self.latencies.put(&mut out);
        }
        if !self.definitions.is_empty() {
            out.push_str("<h2 id=\"tools\">Tools</h2>\n");
            self.definitions.put(&mut out);
        }
        messages(&self, &mut out);
        out.push_str("</body></html>\n");
        out
    }
}

fn head(report: &Report, out: &mut String) {
    let title = format!("MCP session with {}", report.header.server_id);
    html::begin(out, &title, "");
}

fn summary(report: &Report, out: &mut String) {
    let header = &report.header;
    let totals = report.totals();
    out.push_str("<nav><a href=\"#findings\">Findings</a><a href=\"#sequence\">Sequence</a><a href=\"#latency\">Response times</a><a href=\"#tools\">Tools</a><a href=\"#messages\">Messages</a></nav>\n<dl>");
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            put!(out, "<dt>{name}</dt><dd>{}</dd>\n", Text(cut(value, 1024)));
        }
    };
    let or_nothing = |text: &Option<String>| text.clone().unwrap_or_default();
    row("session", &header.session_id);
    row("server", &or_nothing(&header.server_exe));
    row("client", &or_nothing(&header.client_exe));
    for (name, info) in [
        ("server says", &header.server_info),
        ("client says", &header.client_info),
    ] {
        row(name, info.as_ref().map_or("", |info| info.0.get()));
    }
    row(
        "protocol",
        &match &header.protocol_version {
            Some(version) => format!("MCP {version} over {}", header.transport),
            None => format!("MCP over {}", header.transport),
        },
    );
    row("host", &or_nothing(&header.host));
    row("started", &moment(&header.started));
    if let Some(ended) = &header.ended {
        row("ended", &moment(ended));
    }
    row(
        "messages",
        &format!(
            "{} of {}; errors: {}",
            totals.messages,
            size(totals.bytes),
            totals.errors
        ),
    );
    if let Some(mean) = totals.mean_response_ns {
        row("mean response", &duration(mean));
    }
    row(
        "text",
        &match (header.is_anonymised, totals.modified, totals.without_text) {
            (true, ..) => "anonymous".to_owned(),
            (_, 0, 0) => "as on the wire".to_owned(),
            (_, masked, missing) => {
                format!("secrets masked in {masked} messages, {missing} without text")
            }
        },
    );
    if header.joined_midstream {
        row("begins", "while the session was under way");
    }
    out.push_str("</dl>\n");
}

/// Whether an event says that something is wrong, rather than that something happened.
fn is_finding(event: &SessionEvent) -> bool {
    event.severity.is_some()
        || matches!(
            event.kind.as_str(),
            "mcp_tool_changed" | "mcp_call_hung" | "mcp_server_orphaned" | "mcp_capture_gap"
        )
}

fn findings(report: &Report, out: &mut String) {
    out.push_str("<h2 id=\"findings\">Findings</h2>\n");
    let found: Vec<&SessionEvent> = report
        .events
        .iter()
        .filter(|event| is_finding(event))
        .collect();
    if found.is_empty() {
        out.push_str("<p>No findings.</p>\n");
    }
    for event in found {
        put_event(report, event, out);
    }
    if report.more_events > 0 {
        put!(
            out,
            "<p class=\"note\">{} more events are not shown.</p>\n",
            report.more_events
        );
    }
}

fn put_event(report: &Report, event: &SessionEvent, out: &mut String) {
    let class = match event.severity.as_deref() {
        Some("critical") => "critical",
        Some("high") => "high",
        Some(_) => "some",
        None => "none",
    };
    let offset = report.offset(event.time);
    put!(out, "<div class=\"finding {class}\">");
    if let Some(severity) = &event.severity {
        put!(out, "<span class=\"severity\">{}</span> ", Text(severity));
    }
    put!(out, "{}", Text(cut(&event.title, QUOTED)));
    match before(report, offset) {
        Some(message) => put!(
            out,
            " <a class=\"at\" href=\"#m{}\">{}</a>",
            message.sequence,
            duration(offset)
        ),
        None => put!(out, " <span class=\"at\">{}</span>", duration(offset)),
    }
    explain(&event.json, out);
    out.push_str("</div>\n");
}

/// The last message shown that passed no later than this.
fn before(report: &Report, offset: u64) -> Option<&ReportMessage> {
    let after = report
        .messages
        .partition_point(|message| message.offset <= offset);
    after
        .checked_sub(1)
        .and_then(|index| report.messages.get(index))
}

/// Adds the reasons and quotations of an event.
fn explain(json: &str, out: &mut String) {
    let Ok(event) = serde_json::from_str::<Value>(json) else {
        return;
    };
    let one = event.get("detection").into_iter();
    let many = event.get("detections").and_then(Value::as_array);
    for detection in one.chain(many.into_iter().flatten()).take(FINDINGS) {
        let text = |value: Option<&Value>| {
            let text = value.and_then(Value::as_str).unwrap_or_default();
            cut(text, QUOTED).to_owned()
        };
        put!(out, "<br>{}", Text(&text(detection.get("explanation"))));
        let quoted = detection.pointer("/matches/0/context");
        if quoted.is_some() {
            put!(out, "<q>{}</q>", Text(&text(quoted)));
        }
    }
}

fn messages(report: &Report, out: &mut String) {
    out.push_str("<h2 id=\"messages\">Messages</h2>\n");
    let mut events: HashMap<u64, Vec<&SessionEvent>> = HashMap::new();
    for event in &report.events {
        let message = before(report, report.offset(event.time));
        let sequence = message.map_or(0, |message| message.sequence);
        events.entry(sequence).or_default().push(event);
    }
    for event in events.remove(&0).unwrap_or_default() {
        put_line(report, event, out);
    }
    for message in &report.messages {
        put_message(message, out);
        for event in events.remove(&message.sequence).unwrap_or_default() {
            if is_finding(event) {
                put_event(report, event, out);
            } else {
                put_line(report, event, out);
            }
        }
    }
    let more = report
        .totals()
        .messages
        .saturating_sub(report.messages.len() as u64);
    if more > 0 {
        put!(
            out,
            "<p class=\"note\">{more} more messages are not shown; <code>mcpinspect show</code> lists all.</p>\n"
        );
    }
}

fn put_line(report: &Report, event: &SessionEvent, out: &mut String) {
    put!(
        out,
        "<p class=\"dim\">{} {}</p>\n",
        duration(report.offset(event.time)),
        Text(cut(&event.title, QUOTED))
    );
}

fn put_message(message: &ReportMessage, out: &mut String) {
    let class = if message.is_error {
        " class=\"error\""
    } else {
        ""
    };
    let arrow = match message.direction {
        Direction::ClientToServer => "client → server",
        Direction::ServerToClient => "server → client",
    };
    put!(
        out,
        "<article id=\"m{0}\"{class}><span class=\"at\">{0} · {1} · {arrow} · {2} · {3}</span>",
        message.sequence,
        duration(message.offset),
        Text(&message.kind),
        size(message.bytes),
    );
    if let Some(id) = &message.id {
        put!(out, "<span class=\"at\"> · id {}</span>", Text(id));
    }
    if let Some(request) = message.answers {
        put!(
            out,
            "<span class=\"at\"> · answers <a href=\"#m{request}\">{request}</a></span>"
        );
    }
    for note in [
        message
            .correlation
            .as_deref()
            .filter(|how| *how != "answer"),
        message.gap_before.then_some("bytes were lost before it"),
        message.is_modified.then_some("changed before it was kept"),
    ]
    .into_iter()
    .flatten()
    {
        put!(out, "<span class=\"changed\"> · {}</span>", Text(note));
    }
    put!(
        out,
        "\n<details><summary>{}</summary>",
        Text(&picture::label(message))
    );
    match &message.text {
        Body::Missing => out.push_str("<p class=\"note\">Its text was not stored.</p>"),
        Body::NoRoom => {
            out.push_str("<p class=\"note\">Its text is left out: the page is full.</p>")
        }
        Body::Full(text) => put!(out, "<pre>{}</pre>", Text(text)),
        Body::Cut(text) => put!(
            out,
            "<pre>{}</pre><p class=\"note\">The rest of it is not shown.</p>",
            Text(text)
        ),
    }
    out.push_str("</details></article>\n");
}
