//! One look at what is happening, as text or as JSON, for those who do not watch.

use std::io::IsTerminal as _;

use mcpinspect_core::model::{Severity, Timestamp};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::terminal;
use serde::Serialize;

use super::draw::{Palette, draw};
use super::model::{Daemon, State, TopSnapshot};
use super::table::Tone;
use super::update::{Input, update};
use crate::daemon::Server;

/// Columns and rows without a terminal.
const SIZE: (u16, u16) = (100, 30);

/// The screen as text, as large as the terminal or as `COLUMNS` and `LINES` say.
pub fn picture(snapshot: TopSnapshot) -> anyhow::Result<String> {
    let (width, height) = size();
    let mut state = State::default();
    update(&mut state, Input::Size(width, height));
    update(&mut state, Input::Snapshot(Box::new(snapshot)));
    // The line about keys is for those who can press them.
    state.say(String::new(), Tone::Plain);
    let mut screen = Terminal::new(TestBackend::new(width, height))?;
    screen.draw(|frame| draw(frame, &state, Palette::new(false)))?;
    Ok(text(screen.backend().buffer()))
}

fn size() -> (u16, u16) {
    const MOST: u16 = 1000;
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u16>().ok();
    let is_terminal = std::io::stdout().is_terminal();
    let (width, height) = match is_terminal.then(terminal::size) {
        Some(Ok(size)) => size,
        _ => SIZE,
    };
    let (width, height) = (
        variable("COLUMNS").unwrap_or(width),
        variable("LINES").unwrap_or(height),
    );
    (width.clamp(1, MOST), height.clamp(1, MOST))
}

/// The lines of a screen, without the empty ones at its end.
fn text(buffer: &Buffer) -> String {
    let area = buffer.area();
    let line = |y: u16| -> String {
        let mut line = String::new();
        let mut covered = 0;
        for x in 0..area.width {
            // A wide character covers the cell after it.
            if covered > 0 {
                covered -= 1;
                continue;
            }
            let symbol = buffer.cell((x, y)).map_or(" ", |cell| cell.symbol());
            covered = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        line.truncate(line.trim_end().len());
        line
    };
    let lines: Vec<String> = (0..area.height).map(line).collect();
    let mut text = lines.join("\n");
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// What is known.
#[derive(Serialize)]
pub struct PrintedState<'a> {
    time: String,
    version: &'a str,
    state: &'a str,
    bytes_written: u64,
    bytes_captured: u64,
    bytes_lost: u64,
    /// Why there is less than there could be.
    problems: Vec<&'a str>,
    servers: Vec<PrintedServer<'a>>,
    calls_in_flight: Vec<PrintedCall<'a>>,
    findings: Vec<PrintedFinding<'a>>,
}

#[derive(Serialize)]
struct PrintedServer<'a> {
    #[serde(flatten)]
    server: &'a Server,
    state: &'static str,
    in_flight: usize,
    last_minute: Minute,
    findings: usize,
}

#[derive(Serialize)]
struct Minute {
    messages: u64,
    errors: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    /// Of each second, the newest last.
    slowest_ns: Vec<Option<u64>>,
}

#[derive(Serialize)]
struct PrintedCall<'a> {
    server_id: &'a str,
    uid: Option<u32>,
    session_id: &'a str,
    sequence: u64,
    id: &'a str,
    method: &'a str,
    tool: Option<&'a str>,
    direction: &'static str,
    since: String,
    age_ns: u64,
}

#[derive(Serialize)]
struct PrintedFinding<'a> {
    event_id: &'a str,
    time: &'a str,
    severity: Severity,
    server_id: &'a str,
    uid: Option<u32>,
    title: &'a str,
}

/// What is known; nothing if the daemon does not answer.
pub fn printed(state: &State) -> Option<PrintedState<'_>> {
    let Daemon {
        version,
        state: word,
        bytes_written,
        bytes_captured,
        bytes_lost,
        servers,
        ..
    } = state.running()?;
    let servers = servers.iter().map(|server| {
        let server_key = server.server_key();
        let meter = state.traffic.meter(&server_key);
        PrintedServer {
            server: &server.row,
            state: server.row.state().as_str(),
            in_flight: state
                .traffic
                .calls()
                .filter(|call| call.server_key == server_key)
                .count(),
            last_minute: Minute {
                messages: meter.messages(),
                errors: meter.errors(),
                p50_ns: meter.quantile(0.5),
                p99_ns: meter.quantile(0.99),
                slowest_ns: meter.slowest(state.now),
            },
            findings: state
                .findings
                .iter()
                .filter(|finding| finding.server_key == server_key)
                .count(),
        }
    });
    let calls = state.traffic.calls().map(|call| PrintedCall {
        server_id: &call.server_key.0,
        uid: call.server_key.1,
        session_id: &call.session,
        sequence: call.sequence,
        id: &call.id,
        method: &call.method,
        tool: call.tool.as_deref(),
        direction: match call.from_server {
            true => "server_to_client",
            false => "client_to_server",
        },
        since: call.since.exact(),
        age_ns: state.now.nanos_since(call.since),
    });
    let findings = state.findings.iter().map(|finding| PrintedFinding {
        event_id: &finding.event_id,
        time: &finding.time,
        severity: finding.severity,
        server_id: &finding.server_key.0,
        uid: finding.server_key.1,
        title: &finding.title,
    });
    Some(PrintedState {
        time: Timestamp::to_string(&state.now),
        version,
        state: word,
        bytes_written: *bytes_written,
        bytes_captured: *bytes_captured,
        bytes_lost: *bytes_lost,
        problems: state.problems(),
        servers: servers.collect(),
        calls_in_flight: calls.collect(),
        findings: findings.collect(),
    })
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::text::escape::is_hidden;
    use mcpinspect_engine::event::json::terminal_safe;
    use serde_json::Value;

    use super::super::testing::{HOSTILE, example, hostile_reading, state_of};
    use super::*;

    #[test]
    fn json_says_what_the_screen_shows() {
        let state = example();
        let text = terminal_safe(&printed(&state).unwrap()).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        let servers = json["servers"].as_array().unwrap();
        assert_eq!(servers.len(), 4);
        assert_eq!(servers[0]["server_id"], "everything");
        assert_eq!(servers[0]["last_minute"]["messages"], 60);
        assert_eq!(servers[0]["last_minute"]["errors"], 1);
        assert_eq!(servers[0]["findings"], 1);
        assert_eq!(servers[1]["state"], "frozen");
        assert_eq!(servers[1]["in_flight"], 1);
        assert_eq!(json["calls_in_flight"][0]["age_ns"], 45_000_000_000_u64);
        assert_eq!(json["findings"][0]["severity"], "high");
    }

    #[test]
    fn hostile_names_are_data_in_json_and_nothing_on_a_terminal() {
        let state = state_of(hostile_reading());
        let text = terminal_safe(&printed(&state).unwrap()).unwrap();
        assert!(!text.chars().any(is_hidden), "{text}");
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["servers"][0]["server_id"], HOSTILE);
        let picture = picture(hostile_reading()).unwrap();
        assert!(
            !picture.chars().any(|c| c != '\n' && is_hidden(c)),
            "{picture:?}"
        );
        assert!(picture.contains("\\u{1b}[2J"), "{picture}");
    }
}
