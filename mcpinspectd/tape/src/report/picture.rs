//! The sequence of a session's messages, as a drawing: client on the left, server on the right, an arrow per
//! message, and a bar beside the server's line while it works on a request.

use std::collections::HashMap;

use mcpinspect_core::html::{Text, put};
use mcpinspect_core::mcp::json::cut;
use mcpinspect_core::model::Direction;
use mcpinspect_core::text::human::duration;

use super::collect::ReportMessage;

/// Messages to draw.
const DRAWN: usize = 600;
/// Where the lines of client and server are.
const CLIENT: usize = 150;
const SERVER: usize = 690;
const WIDTH: usize = 800;
/// Above the first arrow, and between two.
const TOP: usize = 46;
const STEP: usize = 24;
/// Characters of a label.
const LABEL: usize = 64;
/// Bars side by side.
const LANES: usize = 8;

/// Adds the drawing of the first messages. Each is a link to the message itself.
pub(super) fn put(messages: &[ReportMessage], out: &mut String) {
    let drawn = &messages[..messages.len().min(DRAWN)];
    let height = TOP + STEP * drawn.len() + 16;
    put!(
        out,
        "<svg class=\"sequence\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"sequence of messages\">\n"
    );
    for (x, who) in [(CLIENT, "client"), (SERVER, "server")] {
        put!(
            out,
            "<text class=\"who\" x=\"{x}\" y=\"18\">{who}</text><line class=\"life\" x1=\"{x}\" y1=\"26\" x2=\"{x}\" y2=\"{height}\"/>\n"
        );
    }
    bars(drawn, out);
    for (row, message) in drawn.iter().enumerate() {
        arrow(message, y(row), out);
    }
    out.push_str("</svg>\n");
    if messages.len() > DRAWN {
        put!(
            out,
            "<p class=\"note\">The first {DRAWN} messages are drawn.</p>\n"
        );
    }
}

fn y(row: usize) -> usize {
    TOP + STEP * row
}

/// A bar from each request to its response, beside the line of the side that works on it.
fn bars(drawn: &[ReportMessage], out: &mut String) {
    let rows: HashMap<u64, usize> = drawn
        .iter()
        .enumerate()
        .map(|(row, message)| (message.sequence, row))
        .collect();
    // Up to which row a lane is taken, for each side.
    let mut lanes = [[0; LANES]; 2];
    let mut spans: Vec<(usize, usize, &ReportMessage)> = drawn
        .iter()
        .enumerate()
        .filter_map(|(row, message)| {
            let request = *rows.get(&message.answers?)?;
            (request < row).then_some((request, row, message))
        })
        .collect();
    spans.sort_by_key(|(request, _, _)| *request);
    for (request, response, message) in spans {
        let works = match message.direction {
            Direction::ServerToClient => 1,
            Direction::ClientToServer => 0,
        };
        let Some(lane) = lanes[works].iter().position(|taken| *taken <= request) else {
            continue;
        };
        lanes[works][lane] = response;
        let x = match works {
            1 => SERVER + 4 + 7 * lane,
            _ => CLIENT - 9 - 7 * lane,
        };
        let class = if message.is_error {
            "work error"
        } else {
            "work"
        };
        put!(
            out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"5\" height=\"{}\"/>\n",
            y(request),
            y(response) - y(request)
        );
    }
}

fn arrow(message: &ReportMessage, y: usize, out: &mut String) {
    let (from, to, tip) = match message.direction {
        Direction::ClientToServer => (CLIENT, SERVER, SERVER - 7),
        Direction::ServerToClient => (SERVER, CLIENT, CLIENT + 7),
    };
    let class = match (message.is_error, message.kind.as_str()) {
        (true, _) => "error",
        (_, "request") => "request",
        (_, "response") => "response",
        (_, "notification") => "notification",
        _ => "odd",
    };
    put!(
        out,
        "<a href=\"#m{}\"><text class=\"at\" x=\"4\" y=\"{}\">{}</text>",
        message.sequence,
        y + 4,
        duration(message.offset)
    );
    if message.gap_before {
        put!(
            out,
            "<text class=\"gap\" x=\"{}\" y=\"{}\">bytes were lost before</text>",
            CLIENT + 12,
            y + 14
        );
    }
    put!(
        out,
        "<line class=\"{class}\" x1=\"{from}\" y1=\"{y}\" x2=\"{to}\" y2=\"{y}\"/>\
         <path class=\"{class}\" d=\"M{to} {y} L{tip} {} L{tip} {} Z\"/>\
         <text class=\"label\" x=\"{}\" y=\"{}\">{}</text></a>\n",
        y - 4,
        y + 4,
        (CLIENT + SERVER) / 2,
        y - 4,
        Text(&label(message))
    );
}

/// What a message is, in a few words.
pub(super) fn label(message: &ReportMessage) -> String {
    let method = message.method.as_deref().unwrap_or(&message.kind);
    let mut label = match message.kind.as_str() {
        "response" => format!("answer to {method}"),
        _ => method.to_owned(),
    };
    if let Some(tool) = &message.tool {
        label.push(' ');
        label.push_str(tool);
    }
    if label.len() > LABEL {
        label = format!("{}…", cut(&label, LABEL));
    }
    if message.is_error {
        label.push_str(", error");
    }
    if let Some(nanos) = message.latency {
        label.push_str(", ");
        label.push_str(&duration(nanos));
    }
    label
}
