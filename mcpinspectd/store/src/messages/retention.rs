//! What is removed, and when.
//!
//! Messages go when they are older than their server and user allow, and when the file exceeds its
//! limit: then the oldest of the user who takes up the most go first, so that no one pays for another's
//! noise. Only a little is removed at a time, so that recording goes on meanwhile.

use mcpinspect_core::model::Timestamp;
use mcpinspect_engine::retention::RetentionRules;
use rusqlite::{Connection, TransactionBehavior, params};

use super::tally::DAY;

/// Messages to remove per step: more than one batch of records adds.
const STEP: usize = 8192;

/// A file that is too large is cut to this part of the limit: removing again and again at the limit
/// would cost more than it gains.
const KEPT_PERCENT: u64 = 90;

/// Pages to return to the file system in one step.
const PAGES: usize = 16_384;

/// Most rows of `call` to keep.
const MAX_CALLS: i64 = 200_000;

/// Most events without a session, such as the daemon's own, to keep.
const MAX_LOOSE_EVENTS: i64 = 10_000;

/// A round of removing, step by step.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Whether what is too old is gone.
    old_is_gone: bool,
    /// Whether the file was too large when checked.
    is_too_large: bool,
}

impl Round {
    /// Removes some of what is too old or too much. Returns whether the round is over.
    pub(super) fn step(
        &mut self,
        connection: &mut Connection,
        rules: &RetentionRules,
        max_size: u64,
        now: Timestamp,
    ) -> rusqlite::Result<bool> {
        if !self.old_is_gone {
            let removed = remove_old(connection, rules, now)?;
            self.old_is_gone = removed < STEP;
            give_back(connection)?;
            if !self.old_is_gone {
                return Ok(false);
            }
            remove_counts(connection, rules, now)?;
            self.is_too_large = size(connection)? > max_size;
        }
        if self.is_too_large && remove_from_largest(connection)? > 0 {
            give_back(connection)?;
            self.is_too_large = size(connection)? > max_size / 100 * KEPT_PERCENT;
            return Ok(!self.is_too_large);
        }
        Ok(true)
    }
}

/// Returns free pages to the file system.
fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut rows = statement.query([])?;
    // Each row frees a page.
    while rows.next()?.is_some() {}
    Ok(())
}

/// Bytes of the file in use.
pub(super) fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, u64>(0));
    let used = number("PRAGMA page_count")? - number("PRAGMA freelist_count")?;
    Ok(used * number("PRAGMA page_size")?)
}

/// Removes messages that are too old, at most [`STEP`].
fn remove_old(
    connection: &mut Connection,
    rules: &RetentionRules,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let shortest = rules
        .rules
        .iter()
        .filter_map(|rule| rule.days)
        .chain([rules.default.days])
        .min()
        .unwrap_or(rules.default.days);
    let newest_old = cutoff(now, shortest);
    // Sessions that have a message that may be too old: their first one is.
    let mut statement = connection.prepare_cached(
        "SELECT id, server, uid FROM session WHERE started < ?1 AND (last < ?1 OR ?1 >
             (SELECT time FROM message WHERE session = session.id ORDER BY sequence LIMIT 1))",
    )?;
    let sessions: Vec<(i64, String, Option<u32>)> = statement
        .query_map([newest_old], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    drop(statement);
    let mut removed = 0;
    for (session, server, uid) in sessions {
        let before = cutoff(now, rules.of(&server, uid).days);
        removed += remove_messages(connection, session, before, STEP - removed)?;
        if removed >= STEP {
            break;
        }
    }
    Ok(removed)
}

fn cutoff(now: Timestamp, days: u32) -> u64 {
    now.0.saturating_sub(u64::from(days).saturating_mul(DAY))
}

/// Removes some of the oldest messages of the user whose messages take up the most. Returns how many.
fn remove_from_largest(connection: &mut Connection) -> rusqlite::Result<usize> {
    let largest: Option<i64> = {
        let mut statement = connection.prepare_cached(
            "SELECT (SELECT id FROM session AS oldest WHERE oldest.uid IS session.uid AND messages > 0
                     ORDER BY started, id LIMIT 1)
             FROM session WHERE messages > 0 GROUP BY uid ORDER BY sum(stored + 64 * messages) DESC LIMIT 1",
        )?;
        let mut rows = statement.query([])?;
        match rows.next()? {
            Some(row) => row.get(0)?,
            None => None,
        }
    };
    let Some(session) = largest else {
        return Ok(0);
    };
    remove_messages(connection, session, u64::MAX, STEP)
}

/// Removes the oldest messages of a session up to the time `before`, at most `limit`; the session goes
/// with its last message if it has ended. Returns how many messages.
fn remove_messages(
    connection: &mut Connection,
    session: i64,
    before: u64,
    limit: usize,
) -> rusqlite::Result<usize> {
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let ids: Vec<i64> = transaction
        .prepare_cached(
            "SELECT id FROM message WHERE session = ?1 AND time < ?2 ORDER BY sequence, id LIMIT ?3",
        )?
        .query_map(params![session, before, limit], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    {
        let mut word = transaction.prepare_cached("DELETE FROM word WHERE rowid = ?")?;
        let mut message = transaction.prepare_cached("DELETE FROM message WHERE id = ?")?;
        for id in &ids {
            word.execute([id])?;
            message.execute([id])?;
        }
    }
    transaction.execute(
        "DELETE FROM block WHERE session = ?1 AND last <
             (SELECT coalesce(min(id), 9223372036854775807) FROM message WHERE session = ?1)",
        [session],
    )?;
    transaction.execute(
        "UPDATE session SET messages = max(messages - ?2, 0),
             stored = (SELECT coalesce(sum(length(data)), 0) FROM block WHERE session = ?1)
         WHERE id = ?1",
        params![session, ids.len()],
    )?;
    let left: bool = transaction.query_row(
        "SELECT EXISTS (SELECT 1 FROM message WHERE session = ?)",
        [session],
        |row| row.get(0),
    )?;
    if !left {
        let gone = "ended IS NOT NULL AND last < ?2 AND id = ?1";
        transaction.execute(
            &format!("DELETE FROM event WHERE session IN (SELECT id FROM session WHERE {gone})"),
            params![session, before],
        )?;
        transaction.execute(
            &format!("DELETE FROM session WHERE {gone}"),
            params![session, before],
        )?;
    }
    transaction.commit()?;
    Ok(ids.len())
}

/// Removes counts, batches and loose events that are older than any message may be, or too many.
fn remove_counts(
    connection: &Connection,
    rules: &RetentionRules,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let longest = rules
        .rules
        .iter()
        .filter_map(|rule| rule.days)
        .chain([rules.default.days])
        .max()
        .unwrap_or(rules.default.days);
    let before = cutoff(now, longest);
    connection.execute("DELETE FROM call WHERE day < ?", [before / DAY])?;
    connection.execute(
        "DELETE FROM event WHERE session IS NULL AND time < ?",
        [before],
    )?;
    connection.execute(
        "DELETE FROM event WHERE session IS NULL AND id NOT IN
             (SELECT id FROM event WHERE session IS NULL ORDER BY id DESC LIMIT ?)",
        [MAX_LOOSE_EVENTS],
    )?;
    connection.execute(
        "DELETE FROM batch WHERE last < (SELECT coalesce(min(id), 9223372036854775807) FROM message)",
        [],
    )?;
    connection.execute(
        "DELETE FROM call WHERE day < (SELECT day FROM call ORDER BY day DESC LIMIT 1 OFFSET ?)",
        [MAX_CALLS],
    )?;
    Ok(())
}
