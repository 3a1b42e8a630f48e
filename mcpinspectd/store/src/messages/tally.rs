//! Exchanges of one batch of records, counted by user, server, method, tool and day.

use std::collections::HashMap;
use std::sync::Arc;

use mcpinspect_core::model::{Direction, Timestamp};
use mcpinspect_core::session::Correlation;
use mcpinspect_core::session::latency::Histogram;
use mcpinspect_engine::{MessageKind, MessageRecord, Overdue};
use rusqlite::{OptionalExtension as _, Transaction, params};

/// Nanoseconds of a day.
pub(super) const DAY: u64 = 86_400_000_000_000;

/// Stands for an unknown user.
pub(super) const NO_USER: i64 = -1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    uid: i64,
    server: Arc<str>,
    method: Box<str>,
    tool: Box<str>,
    day: i64,
}

/// The numbers of one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) responses: u64,
    pub(super) errors: u64,
    pub(super) overdue: u64,
    pub(super) late: u64,
    pub(super) cancelled: u64,
    pub(super) duplicates: u64,
    pub(super) orphans: u64,
    pub(super) bytes_to_server: u64,
    pub(super) bytes_to_client: u64,
    pub(super) latency: Histogram,
}

/// The counts of a batch.
#[derive(Debug, Default)]
pub(super) struct Tally(HashMap<Key, Counts>);

impl Tally {
    fn counts(
        &mut self,
        uid: Option<u32>,
        server: &Arc<str>,
        method: Option<&str>,
        tool: Option<&str>,
        time: Timestamp,
    ) -> &mut Counts {
        let key = Key {
            uid: uid.map_or(NO_USER, i64::from),
            server: Arc::clone(server),
            method: method.unwrap_or_default().into(),
            tool: tool.unwrap_or_default().into(),
            day: day(time),
        };
        self.0.entry(key).or_default()
    }

    pub(super) fn message(&mut self, uid: Option<u32>, record: &MessageRecord) {
        let counts = self.counts(
            uid,
            &record.session.server_id.0,
            record.method(),
            record.exchange.tool.as_deref(),
            record.frame.time,
        );
        let bytes = record.bytes.unwrap_or(0);
        match record.frame.direction {
            Direction::ClientToServer => counts.bytes_to_server += bytes,
            Direction::ServerToClient => counts.bytes_to_client += bytes,
        }
        counts.requests += u64::from(record.head.kind == MessageKind::Request);
        counts.errors +=
            u64::from(record.head.kind == MessageKind::Response && record.exchange.is_error);
        match record.exchange.correlation {
            Some(Correlation::Duplicate) => counts.duplicates += 1,
            Some(Correlation::Orphan) => counts.orphans += 1,
            Some(Correlation::Late) => counts.late += 1,
            Some(Correlation::Cancelled) => counts.cancelled += 1,
            Some(Correlation::Answer | Correlation::Unknown) | None => {}
        }
        if let Some(nanos) = record.exchange.latency_ns {
            counts.responses += 1;
            counts.latency.add(nanos);
        }
    }

    pub(super) fn overdue(&mut self, uid: Option<u32>, overdue: &Overdue) {
        let (server, tool) = (&overdue.server_id.0, overdue.tool.as_deref());
        let method = Some(&*overdue.method);
        self.counts(uid, server, method, tool, overdue.due).overdue += 1;
    }

    /// Adds the counts to those in the store.
    pub(super) fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut find = transaction.prepare_cached(
            "SELECT latency FROM call WHERE uid = ?1 AND server = ?2 AND method = ?3 AND tool = ?4 AND day = ?5",
        )?;
        let mut add = transaction.prepare_cached(
            "INSERT INTO call VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
             ON CONFLICT DO UPDATE SET requests = requests + ?6, responses = responses + ?7,
                 errors = errors + ?8, overdue = overdue + ?9, late = late + ?10, cancelled = cancelled + ?11,
                 duplicates = duplicates + ?12, orphans = orphans + ?13, bytes_to_server = bytes_to_server + ?14,
                 bytes_to_client = bytes_to_client + ?15, latency = ?16",
        )?;
        for (key, counts) in &self.0 {
            let Key {
                uid,
                server,
                method,
                tool,
                day,
            } = key;
            let known: Option<String> = find
                .query_row(params![uid, server, method, tool, day], |row| row.get(0))
                .optional()?;
            let mut latency = counts.latency.clone();
            if let Some(known) = known {
                latency.merge(&histogram(&known));
            }
            add.execute(params![
                uid,
                server,
                method,
                tool,
                day,
                counts.requests,
                counts.responses,
                counts.errors,
                counts.overdue,
                counts.late,
                counts.cancelled,
                counts.duplicates,
                counts.orphans,
                counts.bytes_to_server,
                counts.bytes_to_client,
                numbers(&latency),
            ])?;
        }
        Ok(())
    }
}

/// The day of a moment, since the epoch.
pub(super) fn day(time: Timestamp) -> i64 {
    i64::try_from(time.0 / DAY).unwrap_or(i64::MAX)
}

/// A histogram in the store's format.
fn numbers(histogram: &Histogram) -> String {
    let numbers = histogram.to_numbers();
    let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
    texts.join(" ")
}

/// The histogram that the store keeps as `text`.
pub(crate) fn histogram(text: &str) -> Histogram {
    let numbers: Vec<u64> = text
        .split(' ')
        .filter_map(|number| number.parse().ok())
        .collect();
    Histogram::from_numbers(&numbers)
}
