//! Batches of records, each written in one transaction.

use std::borrow::Cow;
use std::collections::HashMap;

use mcpinspect_core::mcp::json;
use mcpinspect_core::model::{Direction, SessionId, Timestamp};
use mcpinspect_core::session::Correlation;
use mcpinspect_core::text::redact;
use mcpinspect_engine::event::body::{SessionEnded, SessionIdentified, SessionStarted};
use mcpinspect_engine::event::json::event_json;
use mcpinspect_engine::event::{Body, Event, render};
use mcpinspect_engine::retention::{RetentionRules, StoredContent};
use mcpinspect_engine::{MessageKind, MessageRecord, Overdue, Record};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::block::{Compressed, Compressor, FULL};
use super::tally::Tally;
use super::words::{self, SearchTag};

/// Most bytes of an id to keep.
const MAX_ID: usize = 256;

/// Most bytes of an event's JSON.
const MAX_EVENT: usize = 48 << 10;

/// Most sessions to remember; above that, all are looked up again.
const MAX_SESSIONS: usize = 8192;

/// Bits of `message.flags`.
pub(super) const ERROR: u8 = 1;
pub(super) const GAP_BEFORE: u8 = 2;
pub(super) const MASKED: u8 = 4;

/// Writes batches of records.
pub(super) struct BatchWriter {
    rules: RetentionRules,
    compressor: Compressor,
    sessions: HashMap<SessionId, StoredSession>,
    /// Whether sessions come from a tape.
    imports: bool,
}

/// A session that was written to.
#[derive(Clone, Copy, Debug)]
struct StoredSession {
    id: i64,
    uid: Option<u32>,
    content: StoredContent,
}

/// What a batch adds to a session.
#[derive(Default)]
struct Addition {
    messages: u64,
    errors: u64,
    in_flight: i64,
    bytes: u64,
    stored: u64,
    last: i64,
    /// Texts for the next block, its number, and the last message in it.
    text: Vec<u8>,
    block: i64,
    last_message: i64,
}

/// A batch in progress.
struct Batch<'t> {
    transaction: &'t Transaction<'t>,
    next_message: i64,
    next_block: i64,
    oldest: i64,
    newest: i64,
    additions: HashMap<i64, Addition>,
    tally: Tally,
    words: String,
}

impl BatchWriter {
    /// # Errors
    /// No memory for the compression.
    pub(super) fn new(rules: RetentionRules, imports: bool) -> std::io::Result<Self> {
        Ok(Self {
            rules,
            compressor: Compressor::new()?,
            sessions: HashMap::new(),
            imports,
        })
    }

    /// Writes `records`, all of them or none.
    pub(super) fn write(
        &mut self,
        connection: &mut Connection,
        records: &[Record],
    ) -> rusqlite::Result<()> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let written = self.write_in(&transaction, records);
        match written {
            Ok(()) => transaction.commit(),
            Err(error) => {
                // The new sessions are no longer there.
                self.sessions.clear();
                Err(error)
            }
        }
    }

    fn write_in(
        &mut self,
        transaction: &Transaction<'_>,
        records: &[Record],
    ) -> rusqlite::Result<()> {
        // Another process may have added some.
        let next = |table: &str| {
            let sql = format!("SELECT coalesce(max(id), 0) + 1 FROM {table}");
            transaction.query_row(&sql, [], |row| row.get::<_, i64>(0))
        };
        let first = next("message")?;
        let mut batch = Batch {
            transaction,
            next_message: first,
            next_block: next("block")?,
            oldest: i64::MAX,
            newest: 0,
            additions: HashMap::new(),
            tally: Tally::default(),
            words: String::new(),
        };
        for record in records {
            match record {
                Record::Message(message) => self.message(&mut batch, message)?,
                Record::Overdue(overdue) => {
                    let session = self.of_overdue(&mut batch, overdue)?;
                    batch.tally.overdue(session.uid, overdue);
                }
                Record::Event(event) => self.event(&mut batch, event)?,
            }
        }
        self.finish(batch, first)
    }

    fn finish(&mut self, mut batch: Batch<'_>, first: i64) -> rusqlite::Result<()> {
        let additions = std::mem::take(&mut batch.additions);
        let transaction = batch.transaction;
        for (session, mut addition) in additions {
            addition.stored += self.block(transaction, session, &mut addition)?;
            transaction
                .prepare_cached(
                    "UPDATE session SET messages = messages + ?2, errors = errors + ?3,
                         in_flight = max(in_flight + ?4, 0), bytes = bytes + ?5, stored = stored + ?6,
                         last = max(last, ?7)
                     WHERE id = ?1",
                )?
                .execute(params![
                    session,
                    addition.messages,
                    addition.errors,
                    addition.in_flight,
                    addition.bytes,
                    addition.stored,
                    addition.last,
                ])?;
        }
        batch.tally.write(transaction)?;
        if batch.next_message > first {
            transaction
                .prepare_cached(
                    "INSERT INTO batch (first, last, oldest, newest) VALUES (?, ?, ?, ?)",
                )?
                .execute(params![
                    first,
                    batch.next_message - 1,
                    batch.oldest,
                    batch.newest
                ])?;
        }
        Ok(())
    }

    /// Writes a session's texts as a block, if there are any. Returns how many bytes it takes.
    fn block(
        &mut self,
        transaction: &Transaction<'_>,
        session: i64,
        addition: &mut Addition,
    ) -> rusqlite::Result<u64> {
        let text = std::mem::take(&mut addition.text);
        if text.is_empty() {
            return Ok(0);
        }
        let Compressed { dictionary, data } = self
            .compressor
            .compress(&text)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        transaction
            .prepare_cached("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?)")?
            .execute(params![
                addition.block,
                session,
                addition.last_message,
                dictionary,
                text.len(),
                data
            ])?;
        Ok(data.len() as u64)
    }

    fn message(&mut self, batch: &mut Batch<'_>, record: &MessageRecord) -> rusqlite::Result<()> {
        let MessageRecord {
            session: info,
            frame,
            head,
            exchange,
            ..
        } = record;
        let session = self.session(batch, &info.id, &info.server_id.0, frame.time)?;
        let id = batch.next_message;
        batch.next_message += 1;
        batch.oldest = batch.oldest.min(stamp(frame.time));
        batch.newest = batch.newest.max(stamp(frame.time));
        batch.tally.message(session.uid, record);
        let (text, is_masked) = match (&record.body, session.content) {
            (None, _) | (_, StoredContent::Metadata) => (None, false),
            (Some(body), StoredContent::Full) => (Some(Cow::Borrowed(&**body)), false),
            (Some(body), StoredContent::Redacted) => redacted(body),
        };
        let mut offset = None;
        if let Some(text) = &text {
            offset = Some(self.offset(batch, session.id, id, text)?);
        }
        let addition = batch.additions.entry(session.id).or_default();
        addition.messages += 1;
        addition.errors += u64::from(exchange.is_error);
        addition.bytes += record.bytes.unwrap_or(0);
        addition.last = addition.last.max(stamp(frame.time));
        addition.in_flight += i64::from(head.kind == MessageKind::Request);
        addition.in_flight -= i64::from(exchange.answers.is_some());
        let mut flags = 0;
        for (bit, is_set) in [
            (ERROR, exchange.is_error),
            (GAP_BEFORE, frame.gap_before),
            (MASKED, is_masked),
        ] {
            flags |= if is_set { bit } else { 0 };
        }
        let method = record.method();
        batch
            .transaction
            .prepare_cached(
                "INSERT INTO message VALUES
                 (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                id,
                session.id,
                frame.sequence,
                record.bytes.is_none(),
                stamp(frame.time),
                direction_number(frame.direction),
                kind_number(head.kind),
                method.map(|method| json::cut(method, mcpinspect_core::mcp::method::MAX_METHOD)),
                exchange.tool.as_deref(),
                head.id.as_deref().map(|id| json::cut(id, MAX_ID)),
                exchange.answers.as_ref().map(|request| request.sequence),
                exchange.concerns,
                exchange.call,
                exchange.correlation.map(correlation_number),
                exchange
                    .latency_ns
                    .map(|nanos| i64::try_from(nanos).unwrap_or(i64::MAX)),
                flags,
                head.invalid_reason,
                record.bytes.unwrap_or(0),
                offset.map(|offset| offset.block),
                offset.map(|offset| offset.position),
                text.as_ref().map(|text| text.len()),
            ])?;
        let tags = [
            Some(SearchTag::User(session.uid)),
            Some(SearchTag::Server(&info.server_id.0)),
            method.map(SearchTag::Method),
            exchange.tool.as_deref().map(SearchTag::Tool),
            exchange.is_error.then_some(SearchTag::Error),
        ];
        batch.words.clear();
        for tag in tags.into_iter().flatten() {
            tag.push(&mut batch.words);
        }
        if let Some(text) = &text {
            words::push_words(&String::from_utf8_lossy(text), &mut batch.words);
        }
        batch
            .transaction
            .prepare_cached("INSERT INTO word (rowid, words) VALUES (?, ?)")?
            .execute(params![id, batch.words])?;
        Ok(())
    }

    /// Finds room for a text in a block.
    fn offset(
        &mut self,
        batch: &mut Batch<'_>,
        session: i64,
        message: i64,
        text: &[u8],
    ) -> rusqlite::Result<BlockOffset> {
        let mut addition = batch.additions.remove(&session).unwrap_or_default();
        if !addition.text.is_empty() && addition.text.len() + text.len() > FULL {
            addition.stored += self.block(batch.transaction, session, &mut addition)?;
        }
        if addition.text.is_empty() {
            addition.block = batch.next_block;
            batch.next_block += 1;
        }
        let offset = BlockOffset {
            block: addition.block,
            position: addition.text.len(),
        };
        addition.text.extend_from_slice(text);
        addition.last_message = message;
        batch.additions.insert(session, addition);
        Ok(offset)
    }

    fn of_overdue(
        &mut self,
        batch: &mut Batch<'_>,
        overdue: &Overdue,
    ) -> rusqlite::Result<StoredSession> {
        self.session(
            batch,
            &overdue.session_id,
            &overdue.server_id.0,
            overdue.sent,
        )
    }

    /// The session with this id; a new one if its start was not seen.
    fn session(
        &mut self,
        batch: &Batch<'_>,
        session: &SessionId,
        server: &str,
        time: Timestamp,
    ) -> rusqlite::Result<StoredSession> {
        if let Some(known) = self.sessions.get(session) {
            return Ok(*known);
        }
        let found = batch
            .transaction
            .prepare_cached("SELECT id, uid FROM session WHERE session_id = ?")?
            .query_row([&session.0], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (id, uid) = match found {
            Some(found) => found,
            None => {
                batch
                    .transaction
                    .prepare_cached(
                        "INSERT INTO session (session_id, server, imported, started, last)
                         VALUES (?1, ?2, ?3, ?4, ?4)",
                    )?
                    .execute(params![session.0, server, self.imports, stamp(time)])?;
                (batch.transaction.last_insert_rowid(), None)
            }
        };
        Ok(self.know(session, server, id, uid))
    }

    fn know(
        &mut self,
        session: &SessionId,
        server: &str,
        id: i64,
        uid: Option<u32>,
    ) -> StoredSession {
        if self.sessions.len() >= MAX_SESSIONS {
            self.sessions.clear();
        }
        let content = self.rules.of(server, uid).content;
        let known = StoredSession { id, uid, content };
        self.sessions.insert(session.clone(), known);
        known
    }

    fn event(&mut self, batch: &mut Batch<'_>, event: &Event) -> rusqlite::Result<()> {
        let subject = event
            .subject
            .as_ref()
            .filter(|subject| subject.session_id != SessionId::none());
        let mut session = None;
        if let Some(subject) = subject {
            if let Body::SessionStarted(started) = &event.body {
                self.started(batch, event, started)?;
            }
            let server = &subject.server_id.0;
            let known = self.session(batch, &subject.session_id, server, event.time)?;
            session = Some(known.id);
            match &event.body {
                Body::SessionIdentified(identified) => {
                    identified_as(batch.transaction, known.id, identified)?;
                }
                Body::SessionEnded(ended) => {
                    self.sessions.remove(&subject.session_id);
                    ended_at(batch.transaction, known.id, event.time, ended)?;
                }
                _ => {}
            }
        }
        let text = event_json(event, "", MAX_EVENT)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?
            .text;
        batch
            .transaction
            .prepare_cached(
                "INSERT INTO event (session, time, type, severity, title, json) VALUES (?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                session,
                stamp(event.time),
                event.kind().name(),
                event.severity().map(|severity| severity.as_str()),
                render::title(event),
                text
            ])?;
        Ok(())
    }

    fn started(
        &mut self,
        batch: &Batch<'_>,
        event: &Event,
        started: &SessionStarted,
    ) -> rusqlite::Result<()> {
        let Some(subject) = &event.subject else {
            return Ok(());
        };
        // A user of another machine means nothing here.
        let uid = subject.server_uid.filter(|_| !self.imports);
        let (server, client) = (started.server.as_ref(), started.client.as_ref());
        batch
            .transaction
            .prepare_cached(
                "INSERT INTO session (session_id, uid, server, fingerprint, name_source, transport,
                     server_pid, server_exe, client_pid, client_exe, joined_midstream, imported, started, last)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13)
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                subject.session_id.0,
                uid,
                subject.server_id.0,
                started.fingerprint,
                started.name_source,
                subject.server_type.as_str(),
                server.map(|party| party.pid.0),
                server.map(|party| &party.exe),
                client.map(|party| party.pid.0),
                client.map(|party| &party.exe),
                started.joined_midstream,
                self.imports,
                stamp(event.time),
            ])?;
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct BlockOffset {
    block: i64,
    position: usize,
}

fn identified_as(
    transaction: &Transaction<'_>,
    session: i64,
    identified: &SessionIdentified,
) -> rusqlite::Result<()> {
    let info = |info: &Option<serde_json::Value>| {
        let text = info.as_ref().map(serde_json::Value::to_string);
        text.map(|text| redact::json(&text).into_owned())
    };
    transaction
        .prepare_cached(
            "UPDATE session SET protocol_version = ?2, server_info = ?3, client_info = ?4 WHERE id = ?1",
        )?
        .execute(params![
            session,
            identified.protocol_version,
            info(&identified.server_info),
            info(&identified.client_info)
        ])?;
    Ok(())
}

fn ended_at(
    transaction: &Transaction<'_>,
    session: i64,
    time: Timestamp,
    ended: &SessionEnded,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE session SET ended = ?2, end_reason = ?3 WHERE id = ?1")?
        .execute(params![session, stamp(time), ended.reason.as_str()])?;
    Ok(())
}

/// The text to keep of `body`, and whether it differs from it.
fn redacted(body: &[u8]) -> (Option<Cow<'_, [u8]>>, bool) {
    match std::str::from_utf8(body) {
        Ok(text) => match redact::json(text) {
            Cow::Borrowed(text) => (Some(Cow::Borrowed(text.as_bytes())), false),
            Cow::Owned(text) => (Some(Cow::Owned(text.into_bytes())), true),
        },
        // It is not a message; look for what it may hide in whatever of it can be read.
        Err(_) => {
            let text = String::from_utf8_lossy(body);
            (
                Some(Cow::Owned(redact::json(&text).into_owned().into_bytes())),
                true,
            )
        }
    }
}

/// A time within the range of SQLite's numbers.
fn stamp(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

fn direction_number(direction: Direction) -> u8 {
    match direction {
        Direction::ClientToServer => 0,
        Direction::ServerToClient => 1,
    }
}

fn kind_number(kind: MessageKind) -> u8 {
    match kind {
        MessageKind::Request => 0,
        MessageKind::Response => 1,
        MessageKind::Notification => 2,
        MessageKind::Batch => 3,
        MessageKind::Invalid => 4,
    }
}

fn correlation_number(correlation: Correlation) -> u8 {
    match correlation {
        Correlation::Answer => 0,
        Correlation::Late => 1,
        Correlation::Cancelled => 2,
        Correlation::Duplicate => 3,
        Correlation::Orphan => 4,
        Correlation::Unknown => 5,
    }
}
