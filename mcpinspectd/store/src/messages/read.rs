//! Answers from the store.
//!
//! A reader opens the file for each question and writes nothing. Whose rows it may see is part of every
//! statement. A question that takes too long is abandoned.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcpinspect_core::model::Timestamp;
use mcpinspect_core::session::Correlation;
use mcpinspect_core::session::latency::Histogram;
use mcpinspect_engine::history::{
    CallStatistics, HistoryError, HistoryQuery, HistoryReader, MAX_ROWS, Raw, RecordedEvent,
    RecordedMessage, RecordedSession, Search, Viewer,
};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, Row, params_from_iter};
use serde::Serialize;
use serde_json::value::RawValue;

use super::open::{self, Unusable};
use super::tally::{self, NO_USER};
use super::texts::Texts;
use super::words::{self, SearchTag};
use super::write::{ERROR, GAP_BEFORE, MASKED};

/// Seconds that a question may take.
const DEADLINE: u64 = 5;

/// Virtual machine steps of SQLite between two checks of the clock.
const STEPS: i32 = 10_000;

/// Bytes of messages after which an answer ends.
const MAX_ANSWER: usize = 8 << 20;

/// The columns of a message except its text.
const HEAD: &str = "message.id, session.session_id, session.server, message.sequence, message.is_member,
    message.time, message.direction, message.kind, message.method, message.rpc_id, message.tool,
    message.answers, message.concerns, message.call, message.correlation, message.latency, message.flags,
    message.reason, message.size";

/// Where its text is. [`Lines::message`] reads both.
const TEXT: &str = "message.block, message.position, message.length";

/// Used in place of [`TEXT`] if no text is wanted.
const NO_TEXT: &str = "NULL, NULL, NULL";

/// The file, for callers that ask what it holds.
#[derive(Clone, Debug)]
pub struct StoreFile {
    path: PathBuf,
}

impl StoreFile {
    /// The store at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }
}

impl HistoryReader for StoreFile {
    fn query_history(
        &self,
        question: &HistoryQuery,
        viewer: Viewer,
    ) -> Result<Vec<String>, HistoryError> {
        if !self.path.exists() {
            return Err(HistoryError::Nothing);
        }
        let mut connection = open::read(&self.path).map_err(|error| match error {
            Unusable::Failed(error) => unreadable(error),
            other => HistoryError::Unreadable(other.to_string()),
        })?;
        let end = Instant::now() + Duration::from_secs(DEADLINE);
        connection
            .progress_handler(STEPS, Some(move || Instant::now() > end))
            .map_err(unreadable)?;
        Reader { connection, viewer }.answer(question)
    }
}

fn unreadable(error: rusqlite::Error) -> HistoryError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => HistoryError::Deadline(DEADLINE),
        _ => HistoryError::Unreadable(error.to_string()),
    }
}

struct Reader {
    connection: Connection,
    viewer: Viewer,
}

/// Conditions of a statement, and what is bound to them.
#[derive(Default)]
struct Conditions {
    texts: Vec<&'static str>,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, text: &'static str, value: impl Into<Value>) {
        self.texts.push(text);
        self.values.push(value.into());
    }

    /// Conditions on rows that have a user and a server of their own.
    fn of(viewer: Viewer, server: Option<&str>) -> Self {
        let mut conditions = Self::default();
        conditions.viewer(viewer, "uid = ?");
        if let Some(server) = server {
            conditions.add("server = ?", server.to_owned());
        }
        conditions
    }

    fn viewer(&mut self, viewer: Viewer, text: &'static str) {
        if let Viewer::User(uid) = viewer {
            self.add(text, i64::from(uid));
        }
    }

    fn text(&self) -> String {
        match self.texts.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", self.texts.join(" AND ")),
        }
    }
}

impl Reader {
    fn answer(&self, question: &HistoryQuery) -> Result<Vec<String>, HistoryError> {
        match question {
            HistoryQuery::Sessions {
                server,
                since,
                session,
                limit,
            } => self.sessions(server.as_deref(), *since, session.as_deref(), *limit),
            HistoryQuery::Messages {
                session,
                after,
                limit,
            } => self.messages(session, *after, *limit),
            HistoryQuery::Latest {
                session,
                after,
                before,
                limit,
            } => match session {
                Some(session) => self.latest_of(session, *before, *limit),
                None => self.latest(*after, *limit),
            },
            HistoryQuery::Message { number } => self.message(*number),
            HistoryQuery::Events { session, limit } => self.events(session, *limit),
            HistoryQuery::Search(search) => self.search(search),
            HistoryQuery::Statistics { server, days } => self.statistics(server.as_deref(), *days),
        }
    }

    fn sessions(
        &self,
        server: Option<&str>,
        since: Option<u64>,
        session: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, HistoryError> {
        let mut conditions = Conditions::of(self.viewer, server);
        if let Some(since) = since {
            conditions.add("(ended IS NULL OR last >= ?)", number(since));
        }
        if let Some(session) = session {
            conditions.add("substr(session_id, 1, length(?)) = ?", session.to_owned());
            conditions.values.push(session.to_owned().into());
        }
        // Of all that begin with it, the one with exactly this id comes first.
        let first = session.map_or("", |_| "length(session_id), ");
        let sql = format!(
            "SELECT session_id, server, fingerprint, name_source, transport, uid, server_pid, server_exe,
                 client_pid, client_exe, protocol_version, server_info, client_info, joined_midstream, imported,
                 started, ended, end_reason, last, messages, errors, in_flight, bytes
             FROM session {} ORDER BY {first}started DESC, id DESC LIMIT {}",
            conditions.text(),
            limit.min(MAX_ROWS)
        );
        self.rows(&sql, conditions.values, |row| {
            line(&RecordedSession {
                session_id: row.get(0)?,
                server_id: row.get(1)?,
                fingerprint: row.get(2)?,
                name_source: row.get(3)?,
                transport: row.get(4)?,
                uid: row.get(5)?,
                server_pid: row.get(6)?,
                server_exe: row.get(7)?,
                client_pid: row.get(8)?,
                client_exe: row.get(9)?,
                protocol_version: row.get(10)?,
                server_info: row.get::<_, Option<String>>(11)?.and_then(raw),
                client_info: row.get::<_, Option<String>>(12)?.and_then(raw),
                joined_midstream: row.get(13)?,
                imported: row.get(14)?,
                started: time(row.get(15)?),
                ended: row.get::<_, Option<u64>>(16)?.map(time),
                end_reason: row.get(17)?,
                last: time(row.get(18)?),
                messages: row.get(19)?,
                errors: row.get(20)?,
                in_flight: row.get(21)?,
                bytes: row.get(22)?,
            })
        })
    }

    fn messages(
        &self,
        session: &str,
        after: i64,
        limit: usize,
    ) -> Result<Vec<String>, HistoryError> {
        let mut conditions = Conditions::default();
        conditions.add("session.session_id = ?", session.to_owned());
        conditions.add("message.id > ?", after);
        conditions.viewer(self.viewer, "session.uid = ?");
        let sql = format!(
            "SELECT {HEAD}, {TEXT} FROM session CROSS JOIN message ON message.session = session.id {}
             ORDER BY message.sequence, message.id LIMIT {}",
            conditions.text(),
            limit.min(MAX_ROWS)
        );
        self.message_rows(&sql, conditions)
    }

    /// The latest messages of a session, without their texts.
    fn latest_of(
        &self,
        session: &str,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<String>, HistoryError> {
        let mut conditions = Conditions::default();
        conditions.add("session.session_id = ?", session.to_owned());
        if let Some(before) = before {
            // In the order of the index, so that no message after it is read.
            let earlier = "(message.sequence, message.id) <
                (SELECT last.sequence, last.id FROM message AS last WHERE last.id = ? AND last.session = session.id)";
            conditions.add(earlier, before);
        }
        conditions.viewer(self.viewer, "session.uid = ?");
        let sql = format!(
            "SELECT {HEAD}, {NO_TEXT} FROM session CROSS JOIN message ON message.session = session.id {}
             ORDER BY message.sequence DESC, message.id DESC LIMIT {}",
            conditions.text(),
            limit.min(MAX_ROWS)
        );
        self.message_rows(&sql, conditions)
    }

    /// The latest messages of all sessions, without their texts.
    fn latest(&self, after: Option<i64>, limit: usize) -> Result<Vec<String>, HistoryError> {
        let mut conditions = Conditions::default();
        // One user's messages are found by their tags: most may be another's.
        let (from, id, later) = match self.viewer {
            Viewer::All => ("message", "message.id", "message.id > ?"),
            Viewer::User(uid) => {
                let tag = words::match_expression("", [SearchTag::User(Some(uid))].into_iter())
                    .map_err(HistoryError::Invalid)?;
                conditions.add("word MATCH ?", tag);
                let joined = "word CROSS JOIN message ON message.id = word.rowid";
                (joined, "word.rowid", "word.rowid > ?")
            }
        };
        if let Some(after) = after {
            conditions.add(later, after);
        }
        conditions.viewer(self.viewer, "session.uid = ?");
        let sql = format!(
            "SELECT {HEAD}, {NO_TEXT} FROM {from} CROSS JOIN session ON session.id = message.session {}
             ORDER BY {id} DESC LIMIT {}",
            conditions.text(),
            limit.min(MAX_ROWS)
        );
        self.message_rows(&sql, conditions)
    }

    fn message(&self, number: i64) -> Result<Vec<String>, HistoryError> {
        let mut conditions = Conditions::default();
        conditions.add("message.id = ?", number);
        conditions.viewer(self.viewer, "session.uid = ?");
        let sql = format!(
            "SELECT {HEAD}, {TEXT} FROM message CROSS JOIN session ON session.id = message.session {}",
            conditions.text()
        );
        self.message_rows(&sql, conditions)
    }

    /// The messages that a statement finds, as lines.
    fn message_rows(&self, sql: &str, conditions: Conditions) -> Result<Vec<String>, HistoryError> {
        let mut lines = Lines(Texts::new(&self.connection));
        self.rows(sql, conditions.values, |row| lines.message(row))
    }

    fn events(&self, session: &str, limit: usize) -> Result<Vec<String>, HistoryError> {
        let mut conditions = Conditions::default();
        conditions.add("session.session_id = ?", session.to_owned());
        conditions.viewer(self.viewer, "session.uid = ?");
        let sql = format!(
            "SELECT event.time, type, severity, title, json
             FROM session CROSS JOIN event ON event.session = session.id {}
             ORDER BY event.time, event.id LIMIT {}",
            conditions.text(),
            limit.min(MAX_ROWS)
        );
        self.rows(&sql, conditions.values, |row| {
            let Some(event) = raw(row.get(4)?) else {
                return Ok(None);
            };
            line(&RecordedEvent {
                time: time(row.get(0)?),
                kind: row.get(1)?,
                severity: row.get(2)?,
                title: row.get(3)?,
                event,
            })
        })
    }

    fn search(&self, search: &Search) -> Result<Vec<String>, HistoryError> {
        let Search {
            text,
            method,
            server,
            tool,
            since,
            error,
            limit,
        } = search;
        let user = match self.viewer {
            Viewer::User(uid) => Some(SearchTag::User(Some(uid))),
            Viewer::All => None,
        };
        let tags = [
            user,
            server.as_deref().map(SearchTag::Server),
            method.as_deref().map(SearchTag::Method),
            tool.as_deref().map(SearchTag::Tool),
            error.then_some(SearchTag::Error),
        ];
        let all = words::match_expression(text, tags.into_iter().flatten())
            .map_err(HistoryError::Invalid)?;
        let mut conditions = Conditions::default();
        let (from, id, floor) = if all.is_empty() {
            ("message", "message.id", "message.id >= ?")
        } else {
            conditions.add("word MATCH ?", all);
            let joined = "word CROSS JOIN message ON message.id = word.rowid";
            (joined, "word.rowid", "word.rowid >= ?")
        };
        if let Some(since) = since {
            let first: Option<i64> = self
                .connection
                .query_row(
                    "SELECT min(first) FROM batch WHERE newest >= ?",
                    [number(*since)],
                    |row| row.get(0),
                )
                .map_err(unreadable)?;
            conditions.add(floor, first.unwrap_or(i64::MAX));
            conditions.add("message.time >= ?", number(*since));
        }
        // What the tags say, checked again by the rows themselves.
        conditions.viewer(self.viewer, "session.uid = ?");
        for (text, value) in [
            ("session.server = ?", server),
            ("message.method = ?", method),
            ("message.tool = ?", tool),
        ] {
            if let Some(value) = value {
                conditions.add(text, value.clone());
            }
        }
        let sql = format!(
            "SELECT {HEAD}, {TEXT} FROM {from} CROSS JOIN session ON session.id = message.session {}
             ORDER BY {id} DESC LIMIT {}",
            conditions.text(),
            (*limit).min(MAX_ROWS)
        );
        self.message_rows(&sql, conditions)
    }

    fn statistics(
        &self,
        server: Option<&str>,
        days: Option<u32>,
    ) -> Result<Vec<String>, HistoryError> {
        let mut conditions = Conditions::of(self.viewer, server);
        if let Some(days) = days {
            let first = tally::day(Timestamp::now()) - i64::from(days) + 1;
            conditions.add("day >= ?", first);
        }
        let sql = format!(
            "SELECT uid, server, method, tool, requests, responses, errors, overdue, late, cancelled, duplicates,
                 orphans, bytes_to_server, bytes_to_client, latency
             FROM call {} ORDER BY server, uid, method, tool",
            conditions.text()
        );
        let mut all: Vec<(CallStatistics, Histogram)> = Vec::new();
        let mut statement = self.connection.prepare(&sql).map_err(unreadable)?;
        let mut rows = statement
            .query(params_from_iter(conditions.values))
            .map_err(unreadable)?;
        while let Some(row) = rows.next().map_err(unreadable)? {
            let (day, latency) = counts(row).map_err(unreadable)?;
            match all.last_mut() {
                Some((sum, latencies)) if is_same(sum, &day) => {
                    add(sum, &day);
                    latencies.merge(&latency);
                }
                _ => all.push((day, latency)),
            }
        }
        all.into_iter()
            .map(|(mut sum, latency)| {
                sum.p50_ns = latency.quantile(0.5);
                sum.p90_ns = latency.quantile(0.9);
                sum.p99_ns = latency.quantile(0.99);
                serde_json::to_string(&sum)
                    .map_err(|error| HistoryError::Unreadable(error.to_string()))
            })
            .collect()
    }

    /// The rows of a statement as lines, until they exceed a number of bytes.
    fn rows(
        &self,
        sql: &str,
        values: Vec<Value>,
        mut line: impl FnMut(&Row<'_>) -> rusqlite::Result<Option<String>>,
    ) -> Result<Vec<String>, HistoryError> {
        let read = || {
            let mut lines = Vec::new();
            let mut bytes = 0;
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query(params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                if let Some(text) = line(row)? {
                    bytes += text.len();
                    lines.push(text);
                }
                if bytes > MAX_ANSWER {
                    break;
                }
            }
            Ok(lines)
        };
        read().map_err(unreadable)
    }
}

/// Messages as lines, with their texts.
struct Lines<'c>(Texts<'c>);

impl Lines<'_> {
    /// A message of the columns [`HEAD`] and [`TEXT`], as a line.
    fn message(&mut self, row: &Row<'_>) -> rusqlite::Result<Option<String>> {
        let flags: u8 = row.get(16)?;
        let text = self.0.read(row.get(19)?, row.get(20)?, row.get(21)?)?;
        let (message, text) = match text.map(String::from_utf8) {
            None => (None, None),
            Some(Ok(text)) => match RawValue::from_string(text.clone()) {
                Ok(message) => (Some(Box::new(Raw(message))), None),
                Err(_) => (None, Some(text)),
            },
            // Only if everything was kept unchanged.
            Some(Err(bytes)) => (None, Some(STANDARD.encode(bytes.as_bytes()))),
        };
        line(&RecordedMessage {
            number: row.get(0)?,
            session_id: row.get(1)?,
            server_id: row.get(2)?,
            sequence: row.get(3)?,
            is_member: row.get(4)?,
            time: time(row.get(5)?),
            direction: direction_word(row.get(6)?),
            kind: kind_word(row.get(7)?),
            method: row.get(8)?,
            id: row.get(9)?,
            tool: row.get(10)?,
            answers: row.get(11)?,
            concerns: row.get(12)?,
            call: row.get(13)?,
            correlation: row.get::<_, Option<usize>>(14)?.map(correlation_word),
            latency_ns: row.get(15)?,
            is_error: flags & ERROR != 0,
            gap_before: flags & GAP_BEFORE != 0,
            invalid_reason: row.get(17)?,
            bytes: row.get(18)?,
            is_masked: flags & MASKED != 0,
            message,
            text,
        })
    }
}

/// The word for a message's direction, from the number in the store.
pub(crate) fn direction_word(number: usize) -> String {
    word(&["client_to_server", "server_to_client"], number)
}

/// The word for a message's kind.
pub(crate) fn kind_word(number: usize) -> String {
    let words = ["request", "response", "notification", "batch", "invalid"];
    word(&words, number)
}

/// The word for how a response relates to its request.
pub(crate) fn correlation_word(number: usize) -> String {
    word(&Correlation::ALL.map(Correlation::as_str), number)
}

fn word(words: &[&str], number: usize) -> String {
    words.get(number).copied().unwrap_or("unknown").to_owned()
}

fn line(row: &impl Serialize) -> rusqlite::Result<Option<String>> {
    serde_json::to_string(row)
        .map(Some)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn raw(text: String) -> Option<Box<Raw>> {
    RawValue::from_string(text)
        .ok()
        .map(|raw| Box::new(Raw(raw)))
}

/// A time as readers see it: exact, since tapes are made of it.
fn time(nanos: u64) -> String {
    Timestamp(nanos).exact()
}

/// A number in SQLite's range.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn counts(row: &Row<'_>) -> rusqlite::Result<(CallStatistics, Histogram)> {
    let uid: i64 = row.get(0)?;
    let sum = CallStatistics {
        uid: (uid != NO_USER).then(|| u32::try_from(uid).unwrap_or_default()),
        server_id: row.get(1)?,
        method: row.get(2)?,
        tool: row.get(3)?,
        requests: row.get(4)?,
        responses: row.get(5)?,
        errors: row.get(6)?,
        overdue: row.get(7)?,
        late: row.get(8)?,
        cancelled: row.get(9)?,
        duplicates: row.get(10)?,
        orphans: row.get(11)?,
        bytes_to_server: row.get(12)?,
        bytes_to_client: row.get(13)?,
        p50_ns: None,
        p90_ns: None,
        p99_ns: None,
    };
    let latency: String = row.get(14)?;
    Ok((sum, tally::histogram(&latency)))
}

fn is_same(one: &CallStatistics, other: &CallStatistics) -> bool {
    (one.uid, &one.server_id, &one.method, &one.tool)
        == (other.uid, &other.server_id, &other.method, &other.tool)
}

fn add(sum: &mut CallStatistics, day: &CallStatistics) {
    for (sum, day) in [
        (&mut sum.requests, day.requests),
        (&mut sum.responses, day.responses),
        (&mut sum.errors, day.errors),
        (&mut sum.overdue, day.overdue),
        (&mut sum.late, day.late),
        (&mut sum.cancelled, day.cancelled),
        (&mut sum.duplicates, day.duplicates),
        (&mut sum.orphans, day.orphans),
        (&mut sum.bytes_to_server, day.bytes_to_server),
        (&mut sum.bytes_to_client, day.bytes_to_client),
    ] {
        *sum = sum.saturating_add(day);
    }
}
