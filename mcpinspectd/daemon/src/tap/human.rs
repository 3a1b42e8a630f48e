//! Messages as lines for a person at a terminal.
//!
//! ```text
//! 10:53:20.000  filesystem(4242)  → tools/call read_file      1            184 B  {"path":"/etc/hosts"}
//! 10:53:20.002  filesystem(4242)  ← tools/call read_file      1  1.5 ms  2.1 KiB  127.0.0.1 localhost
//! ```
//!
//! Columns are fixed so that the eye can scan them: time, server, direction, method, request id,
//! latency, size, preview. Times are UTC. Events that are not messages appear in between as
//! sentences. Colour only repeats what the text says; it is used only on a terminal, and not if
//! `NO_COLOR` is set (<https://no-color.org>).

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use mcpinspect_core::model::{Direction, Severity, Timestamp, ToolStatus};
use mcpinspect_core::text::escape;
use mcpinspect_engine::event::body::ToolSeen;
use mcpinspect_engine::event::{Body, Event, render};
use mcpinspect_engine::{MessageKind, MessageSeen};
use unicode_width::UnicodeWidthStr as _;

use super::preview::preview;
use super::{Format, Ready, StreamSummary, Summary};

/// Widths of columns, in characters.
const SERVER: usize = 22;
const WHAT: usize = 34;
const ID: usize = 6;
const LATENCY: usize = 8;
const SIZE: usize = 9;
/// Width of everything before the preview: columns, time, arrow and blanks.
const BEFORE_PREVIEW: usize = 12 + 2 + SERVER + 1 + 2 + WHAT + 1 + ID + 1 + LATENCY + 1 + SIZE + 2;
/// Shortest preview, in characters.
const PREVIEW_MIN: usize = 24;
/// Preview if the terminal's width is unknown, in characters.
const PREVIEW_DEFAULT: usize = 80;

const TIME: Style = Style::new().dimmed();
const SERVER_NAME: Style = Style::new().bold();
const TO_SERVER: Style = AnsiColor::Cyan.on_default();
const TO_CLIENT: Style = AnsiColor::Green.on_default();
const FAILED: Style = AnsiColor::Red.on_default();
const QUIET: Style = Style::new().dimmed();
const NOTICE: Style = AnsiColor::Blue.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const ALARM: Style = AnsiColor::Red.on_default().bold();

/// Writes one line per message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Human {
    colour: bool,
    /// Longest preview.
    preview: usize,
    raw: bool,
}

impl Human {
    /// Fits lines to a terminal of `width` columns, if that is known.
    pub fn new(colour: bool, width: Option<usize>) -> Self {
        let preview = width.map_or(PREVIEW_DEFAULT, |width| {
            width.saturating_sub(BEFORE_PREVIEW).max(PREVIEW_MIN)
        });
        Self {
            colour,
            preview,
            raw: false,
        }
    }

    /// Adds each message in full on a line below, escaped, neither cut nor redacted.
    pub fn with_raw(self, raw: bool) -> Self {
        Self { raw, ..self }
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    fn front(&self, time: Timestamp, server: &str) -> String {
        let time = self.paint(TIME, &clock(time));
        let server = self.paint(SERVER_NAME, &pad(server, SERVER));
        format!("{time}  {server} ")
    }
}

impl Format for Human {
    fn ready(&mut self, ready: &Ready, out: &mut Vec<u8>) {
        let text = format!(
            "mcpinspectd {} watches every MCP server on this machine; times are UTC, Ctrl-C ends",
            ready.version
        );
        push(out, &self.paint(QUIET, &text));
    }

    fn message(&mut self, message: &MessageSeen<'_>, out: &mut Vec<u8>) {
        let (arrow, way) = match message.frame.direction {
            Direction::ClientToServer => ("→", TO_SERVER),
            Direction::ServerToClient => ("←", TO_CLIENT),
        };
        let failed = message.exchange.is_error || message.head.kind == MessageKind::Invalid;
        let (latency, slow) = match message.exchange.latency_ns {
            Some(ns) => (duration(ns), ns >= 1_000_000_000),
            None => (String::new(), false),
        };
        let what = pad(&what(message), WHAT);
        let what = match message.head.kind {
            _ if failed => self.paint(FAILED, &what),
            MessageKind::Response => what,
            MessageKind::Notification => self.paint(QUIET, &what),
            _ => self.paint(way, &what),
        };
        let latency = pad_left(&latency, LATENCY);
        let latency = if slow {
            self.paint(WARNING, &latency)
        } else {
            latency
        };
        let mut line = self.front(message.frame.time, &server(message));
        let arrow = self.paint(way, arrow);
        let id = pad(
            &escape::printable(message.head.id.as_deref().unwrap_or_default(), ID),
            ID,
        );
        let size = pad_left(&size(message.bytes.len() as u64), SIZE);
        let about = preview(message, self.preview);
        let about = if failed {
            self.paint(FAILED, &about)
        } else {
            about
        };
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "{arrow} {what} {} {latency} {size}  {about}",
            self.paint(QUIET, &id)
        );
        push(out, line.trim_end());
        if self.raw {
            let text = String::from_utf8_lossy(message.bytes);
            push(out, &format!("    {}", escape::plain(&text)));
        }
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        let worth_a_line = match &event.body {
            Body::ToolSeen(ToolSeen {
                status, detections, ..
            }) => *status != ToolStatus::Unchanged || !detections.is_empty(),
            // It was already shown as a message.
            Body::InvalidMessage(_) => false,
            _ => true,
        };
        if !worth_a_line {
            return;
        }
        let (sign, style) = match event.severity() {
            Some(Severity::Critical | Severity::High) => ("▲", ALARM),
            Some(Severity::Medium) => ("!", WARNING),
            Some(Severity::Low) | None => ("·", NOTICE),
        };
        let server = event.subject.as_ref().map(|subject| {
            let pid = subject.server_pid.map(|pid| pid.0);
            named(&subject.server_id.0, pid)
        });
        let mut line = self.front(event.time, &server.unwrap_or_default());
        line.push_str(&self.paint(style, &format!("{sign} {}", render::sentence(event))));
        push(out, &line);
    }

    fn summary(&mut self, summary: &Summary, out: &mut Vec<u8>) {
        if summary.streams.is_empty() {
            push(out, &self.paint(QUIET, "No MCP session was seen."));
            return;
        }
        let heading = format!(
            "{} {:<16} {:>12} {:>12} {:>12} {:>12} {:>8}",
            pad("server", SERVER),
            "direction",
            "written",
            "read",
            "captured",
            "lost",
            "frames"
        );
        push(out, "");
        push(out, &self.paint(QUIET, &heading));
        let mut lost = 0;
        for StreamSummary {
            ledger,
            frames,
            server,
        } in &summary.streams
        {
            let name = server
                .as_ref()
                .map_or(&*ledger.session_id.0, |server| &*server.0);
            lost += ledger.bytes_lost;
            let line = format!(
                "{} {:<16} {:>12} {:>12} {:>12} {:>12} {:>8}",
                pad(&escape::printable(name, SERVER), SERVER),
                ledger.direction.as_str(),
                ledger.bytes_written,
                ledger.bytes_read,
                ledger.bytes_captured,
                ledger.bytes_lost,
                frames
            );
            let style = if ledger.bytes_lost > 0 {
                ALARM
            } else {
                Style::new()
            };
            push(out, &self.paint(style, &line));
        }
        let end = match lost {
            0 => self.paint(QUIET, "Nothing was lost."),
            lost => self.paint(ALARM, &format!("{} were lost.", size(lost))),
        };
        push(out, &end);
    }
}

fn push(out: &mut Vec<u8>, line: &str) {
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

/// Returns method and tool; for a response, those of its request.
fn what(message: &MessageSeen<'_>) -> String {
    let method = escape::printable(message.method().unwrap_or_default(), WHAT);
    let tool = message
        .exchange
        .tool
        .as_deref()
        .map(|tool| format!(" {}", escape::printable(tool, WHAT)))
        .unwrap_or_default();
    let text = match message.head.kind {
        MessageKind::Request => format!("{method}{tool}"),
        MessageKind::Response => {
            let outcome = if message.exchange.is_error {
                "✗"
            } else {
                "✓"
            };
            let method = if method.is_empty() {
                "answer to nothing seen"
            } else {
                &method
            };
            format!("{outcome} {method}{tool}")
        }
        MessageKind::Notification => method,
        MessageKind::Batch => "batch".to_owned(),
        MessageKind::Invalid => format!(
            "invalid: {}",
            message.head.invalid_reason.unwrap_or("unknown")
        ),
    };
    if message.frame.gap_before {
        format!("[gap] {text}")
    } else {
        text
    }
}

fn server(message: &MessageSeen<'_>) -> String {
    named(
        &message.session.server_id.0,
        message.session.server_pid.map(|pid| pid.0),
    )
}

/// `name(pid)`, with the name cut if both do not fit.
fn named(name: &str, pid: Option<u32>) -> String {
    let pid = pid.map(|pid| format!("({pid})")).unwrap_or_default();
    let name = escape::printable(name, SERVER - pid.len().min(SERVER - 1));
    format!("{name}{pid}")
}

/// `text` in at least `width` characters; longer text is cut.
fn pad(text: &str, width: usize) -> String {
    let text = escape::printable(text, width);
    let blank = width.saturating_sub(text.width());
    format!("{text}{:blank$}", "")
}

fn pad_left(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

/// The time of day.
fn clock(time: Timestamp) -> String {
    let text = time.to_string();
    // `2025-10-09T08:53:20.000000Z`, except for a clock that is off by millennia.
    text.get(11..23).map_or(text.clone(), str::to_owned)
}

/// Three digits and a unit.
fn duration(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let ns_f = ns as f64;
    match ns {
        0..1_000_000 => format!("{} µs", ns / 1000),
        1_000_000..10_000_000 => format!("{:.1} ms", ns_f / 1e6),
        10_000_000..1_000_000_000 => format!("{:.0} ms", ns_f / 1e6),
        1_000_000_000..60_000_000_000 => format!("{:.1} s", ns_f / 1e9),
        _ => format!("{} min", ns / 60_000_000_000),
    }
}

fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let bytes_f = bytes as f64;
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes_f / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes_f / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes_f / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes() {
        let shown: Vec<String> = [
            0,
            999,
            820_000,
            999_999,
            1_500_000,
            9_999_999,
            10_000_000,
            999_000_000,
            2_300_000_000,
            61_000_000_000,
        ]
        .map(duration)
        .to_vec();
        assert_eq!(
            shown,
            [
                "0 µs", "0 µs", "820 µs", "999 µs", "1.5 ms", "10.0 ms", "10 ms", "999 ms",
                "2.3 s", "1 min"
            ]
        );
        let shown: Vec<String> = [0, 1023, 1024, 2150, 1 << 20, 3 << 30].map(size).to_vec();
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "2.1 KiB", "1.0 MiB", "3.0 GiB"]
        );
        assert_eq!(clock(Timestamp(1_760_000_000_123_456_789)), "08:53:20.123");
        assert!(clock(Timestamp(u64::MAX)).len() >= 12);
    }

    #[test]
    fn names_fit_their_column() {
        assert_eq!(named("filesystem", Some(4242)), "filesystem(4242)");
        assert_eq!(named("filesystem", None), "filesystem");
        let long = named(&"x".repeat(60), Some(4_194_304));
        assert_eq!(long.chars().count(), SERVER);
        assert!(long.ends_with("…(4194304)"));
    }
}
