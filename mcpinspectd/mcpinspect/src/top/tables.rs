//! Which rows each list has. Names that servers chose are made safe here, once.

use mcpinspect_core::model::{Severity, Timestamp};
use mcpinspect_core::text::escape::printable;
use mcpinspect_core::text::human::{duration, moment, size};
use mcpinspect_engine::history::{CallStatistics, RecordedMessage, RecordedSession};

use super::model::{Finding, ServerView, SessionView, State, Tab, View, WatchedServer};
use super::table::{Cell, Column, Row, Table, Tone};
use super::traffic::{Call, ServerKey, WINDOW};
use crate::daemon::ServerState;
use crate::recordings::session_state;

/// Characters of a name to show.
const NAME: usize = 64;

/// Seconds that the chart of latencies covers.
const PICTURE: usize = 12;

const SERVERS: [Column; 10] = [
    Column::rest("SERVER", 14),
    Column::text("USER", 8, 1),
    Column::text("STATE", 7, 8),
    Column::number("SESS", 4, 3),
    Column::number("WAIT", 4, 7),
    Column::number("MSG/S", 5, 6),
    Column::number("ERR", 4, 5),
    Column::number("P99", 8, 6),
    Column::text("SLOWEST 12 S", PICTURE as u16, 2),
    Column::number("FOUND", 5, 4),
];

const CALLS: [Column; 6] = [
    Column::number("AGE", 6, 8),
    Column::text("SERVER", 20, 7),
    Column::text("", 1, 3),
    Column::rest("CALL", 24),
    Column::text("ID", 10, 2),
    Column::text("SESSION", 16, 1),
];

const FINDINGS: [Column; 4] = [
    Column::text("TIME", 19, 3),
    Column::text("SEVERITY", 8, 8),
    Column::text("SERVER", 18, 2),
    Column::rest("FINDING", 36),
];

const SESSIONS: [Column; 7] = [
    Column::text("STARTED", 19, 8),
    Column::rest("STATE", 14),
    Column::text("SESSION", 16, 3),
    Column::number("MESSAGES", 8, 7),
    Column::number("ERRORS", 6, 5),
    Column::number("WAIT", 4, 4),
    Column::number("SIZE", 9, 2),
];

const TOOLS: [Column; 6] = [
    Column::rest("CALL", 16),
    Column::number("REQUESTS", 8, 7),
    Column::number("ERRORS", 6, 5),
    Column::number("P50", 8, 4),
    Column::number("P90", 8, 3),
    Column::number("P99", 8, 6),
];

const MESSAGES: [Column; 8] = [
    Column::text("TIME", 12, 6),
    Column::number("NO", 6, 3),
    Column::text("", 1, 8),
    Column::text("KIND", 12, 2),
    Column::rest("METHOD", 24),
    Column::text("ID", 10, 1),
    Column::number("LATENCY", 9, 5),
    Column::text("REMARK", 12, 4),
];

/// The list that keys act on, as it is shown; none if a text is shown.
pub fn current(state: &State) -> Option<Table> {
    let table = match state.opened.last() {
        None => of_tab(state, state.tab),
        Some(View::Server(view)) => sessions(view),
        Some(View::Session(view)) => messages_of(view),
        Some(View::Text(_)) => return None,
    };
    Some(table.arranged(state.list()?))
}

/// The rows of a tab, before its list is applied.
pub fn of_tab(state: &State, tab: Tab) -> Table {
    match tab {
        Tab::Servers => servers(state),
        Tab::Calls => calls(state),
        Tab::Findings => findings(state),
    }
}

/// The key of a server's row.
pub fn server_row_key((name, uid): &ServerKey) -> String {
    format!("{} {name}", uid.map_or(-1, i64::from))
}

/// The key of a call's row.
pub fn call_key(call: &Call) -> String {
    format!("{} {}", call.number, call.id)
}

/// A name as shown.
pub fn name(name: &str) -> String {
    printable(name, NAME)
}

fn servers(state: &State) -> Table {
    let rows = state
        .servers()
        .iter()
        .map(|server| server_row(state, server));
    Table {
        columns: &SERVERS,
        rows: rows.collect(),
    }
}

fn server_row(state: &State, server: &WatchedServer) -> Row {
    let server_key = server.server_key();
    let meter = state.traffic.meter(&server_key);
    let of_server = |call: &&Call| call.server_key == server_key;
    let in_flight = state.traffic.calls().filter(of_server).count() as u64;
    let found: Vec<_> = state
        .findings
        .iter()
        .filter(|finding| finding.server_key == server_key)
        .collect();
    let worst = found.iter().map(|finding| finding.severity).max();
    let state_now = server.row.state();
    let per_second = meter.messages();
    let p99 = meter.quantile(0.99);
    let slowest = meter.slowest(state.now);
    Row {
        key: server_row_key(&server_key),
        cells: vec![
            Cell::text(name(&server.row.server_id)),
            Cell::text(name(&server.user)),
            Cell::text(state_now.as_str()).toned(match state_now {
                ServerState::Running => Tone::Good,
                ServerState::Frozen => Tone::Frozen,
                ServerState::Paused => Tone::Warning,
                ServerState::Idle => Tone::Dim,
            }),
            Cell::count(server.row.sessions.into()),
            Cell::count(in_flight),
            Cell::number(rate(per_second), per_second),
            Cell::count(meter.errors()).toned(Tone::Bad),
            latency(p99),
            Cell::number(
                picture(&slowest[WINDOW - PICTURE..]),
                slowest.iter().flatten().max().copied().unwrap_or(0),
            ),
            Cell::count(found.len() as u64).toned(worst.map_or(Tone::Plain, severity_tone)),
        ],
    }
}

/// Messages per minute as messages per second.
fn rate(messages: u64) -> String {
    let tenths = (messages * 10).div_ceil(WINDOW as u64);
    match messages {
        0 => String::new(),
        _ => format!("{}.{}", tenths / 10, tenths % 10),
    }
}

fn latency(nanos: Option<u64>) -> Cell {
    Cell::number(nanos.map_or(String::new(), duration), nanos.unwrap_or(0))
}

/// Bars, one for each second; their height is relative to the highest one.
fn picture(seconds: &[Option<u64>]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = seconds.iter().flatten().max().copied().unwrap_or(0).max(1);
    let bar = |nanos: u64| {
        let height = u128::from(nanos) * BARS.len() as u128 / u128::from(highest);
        BARS[usize::try_from(height).unwrap_or(0).clamp(1, BARS.len()) - 1]
    };
    let seconds = seconds.iter();
    seconds.map(|second| second.map_or(' ', bar)).collect()
}

fn calls(state: &State) -> Table {
    let mut all: Vec<&Call> = state.traffic.calls().collect();
    all.sort_by_key(|call| call.since);
    let rows = all.into_iter().map(|call| call_row(call, state.now));
    Table {
        columns: &CALLS,
        rows: rows.collect(),
    }
}

fn call_row(call: &Call, now: Timestamp) -> Row {
    const LONG: u64 = 10_000_000_000;
    let age = now.nanos_since(call.since);
    let tone = if age > LONG {
        Tone::Warning
    } else {
        Tone::Plain
    };
    Row {
        key: call_key(call),
        cells: vec![
            Cell::number(whole_seconds(age), age).toned(tone),
            Cell::text(name(&call.server_key.0)),
            Cell::text(if call.from_server { "←" } else { "→" }),
            Cell::text(what(Some(&call.method), call.tool.as_deref())),
            Cell::text(printable(&call.id, NAME)),
            Cell::text(name(&call.session)).toned(Tone::Dim),
        ],
    }
}

/// An age that changes once a second at most.
fn whole_seconds(nanos: u64) -> String {
    let seconds = nanos / 1_000_000_000;
    match seconds {
        0..600 => format!("{seconds} s"),
        600..36_000 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

fn findings(state: &State) -> Table {
    let newest_first = state.findings.iter().rev();
    Table {
        columns: &FINDINGS,
        rows: newest_first.map(finding_row).collect(),
    }
}

fn finding_row(finding: &Finding) -> Row {
    let time = moment(&finding.time);
    Row {
        key: finding.event_id.clone(),
        cells: vec![
            Cell::text(time.get(..19).unwrap_or(&time)).toned(Tone::Dim),
            Cell {
                text: finding.severity.as_str().to_owned(),
                rank: super::table::Rank::Number(finding.severity as u64),
                tone: severity_tone(finding.severity),
            },
            Cell::text(name(&finding.server_key.0)),
            Cell::text(printable(&finding.title, 300)),
        ],
    }
}

fn severity_tone(severity: Severity) -> Tone {
    match severity {
        Severity::Critical | Severity::High => Tone::Bad,
        Severity::Medium => Tone::Warning,
        Severity::Low => Tone::Plain,
    }
}

fn sessions(view: &ServerView) -> Table {
    let sessions = view
        .content
        .ready()
        .map_or(&[][..], |(sessions, _)| sessions);
    let row = |session: &RecordedSession| {
        let started = moment(&session.started);
        let state = session_state(session);
        let tone = if state == "open" {
            Tone::Good
        } else {
            Tone::Dim
        };
        Row {
            key: session.session_id.clone(),
            cells: vec![
                Cell::text(started.get(..19).unwrap_or(&started)),
                Cell::text(state).toned(tone),
                Cell::text(name(&session.session_id)),
                Cell::count(session.messages),
                Cell::count(session.errors).toned(Tone::Bad),
                Cell::count(session.in_flight),
                Cell::number(size(session.bytes), session.bytes),
            ],
        }
    };
    Table {
        columns: &SESSIONS,
        rows: sessions.iter().map(row).collect(),
    }
}

/// The calls of a server by tool, the most frequent first.
pub fn tools(view: &ServerView) -> Table {
    let calls = view.content.ready().map_or(&[][..], |(_, calls)| calls);
    let row = |calls: &CallStatistics| Row {
        key: format!("{} {}", calls.method, calls.tool),
        cells: vec![
            Cell::text(what(Some(&calls.method), Some(&calls.tool))),
            Cell::count(calls.requests),
            Cell::count(calls.errors).toned(Tone::Bad),
            latency(calls.p50_ns),
            latency(calls.p90_ns),
            latency(calls.p99_ns),
        ],
    };
    let mut exchanges: Vec<_> = calls.iter().filter(|calls| calls.requests > 0).collect();
    exchanges.sort_by_key(|calls| std::cmp::Reverse(calls.requests));
    Table {
        columns: &TOOLS,
        rows: exchanges.into_iter().map(row).collect(),
    }
}

/// The messages of a session, before its list is applied.
pub fn messages_of(view: &SessionView) -> Table {
    Table {
        columns: &MESSAGES,
        rows: view.messages.iter().map(message_row).collect(),
    }
}

fn message_row(message: &RecordedMessage) -> Row {
    let time = moment(&message.time);
    let tone = if message.is_error {
        Tone::Bad
    } else {
        Tone::Plain
    };
    let member = if message.is_member { "·" } else { "" };
    Row {
        key: message.number.to_string(),
        cells: vec![
            Cell::text(time.get(11..).unwrap_or(&time)).toned(Tone::Dim),
            Cell::number(format!("{member}{}", message.sequence), message.sequence),
            Cell::text(match message.direction.as_str() {
                "client_to_server" => "→",
                _ => "←",
            }),
            Cell::text(name(&message.kind)).toned(tone),
            Cell::text(what(message.method.as_deref(), message.tool.as_deref())).toned(tone),
            Cell::text(printable(message.id.as_deref().unwrap_or_default(), NAME)),
            latency(message.latency_ns),
            Cell::text(remark(message)).toned(tone),
        ],
    }
}

/// What is unusual about a message.
fn remark(message: &RecordedMessage) -> String {
    let correlation = message.correlation.as_deref();
    let remarks: Vec<String> = [
        message.is_error.then_some("error"),
        correlation.filter(|word| *word != "answer"),
        message.gap_before.then_some("bytes lost"),
        message.invalid_reason.as_deref(),
    ]
    .into_iter()
    .flatten()
    .map(name)
    .collect();
    remarks.join(", ")
}

/// A method and its tool.
fn what(method: Option<&str>, tool: Option<&str>) -> String {
    let words = [method, tool].into_iter().flatten().map(name);
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_share() {
        assert_eq!(
            picture(&[None, Some(8), Some(1), Some(4), Some(0)]),
            " █▁▄▁"
        );
        assert_eq!(picture(&[None; 3]), "   ");
        assert_eq!(picture(&[Some(u64::MAX), Some(0)]), "█▁");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (rate(0), rate(1), rate(90)),
            (String::new(), "0.1".to_owned(), "1.5".to_owned())
        );
        assert_eq!(whole_seconds(9_900_000_000), "9 s");
        assert_eq!(whole_seconds(3_600_000_000_000), "60 min");
        assert_eq!(whole_seconds(36_000_000_000_000), "10 h");
    }
}
