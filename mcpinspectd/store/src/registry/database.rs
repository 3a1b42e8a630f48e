//! The registry's tables: every statement that reads or writes them.
//!
//! Pins are the measure of every change, so losing one means silently accepting whatever a server says
//! next. Hence every write is a transaction that is on disk when it returns (write-ahead log,
//! `synchronous=FULL`). Several processes may have the file open (the daemon and a person's command);
//! each learns from the file's data version that another one wrote.

/// The parameters 1 to 4 that select an item.
macro_rules! item_of {
    ($server:expr, $key:expr) => {
        params![
            Column($server.owner),
            $server.server,
            $key.kind.as_str(),
            $key.name
        ]
    };
}

mod statements;

use std::collections::HashMap;
use std::sync::Arc;

use mcpinspect_core::model::{DefinitionHash, ItemKind, Timestamp};
use mcpinspect_judge::registry::{
    Contents, DecidedBy, Decision, DecisionKind, DecisionWrite, DefinitionVersion, ItemDecision,
    ItemKey, ItemView, KeptText, ServerOf, ServerUsage, StorageError, StoredItem, Write,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use self::statements::{decide, execute};
use super::values::{Column, StoredColumns as _, failed};

/// What a connection to the database can write. Tests substitute disks that are slow or fail.
pub(super) trait Commit: Send + 'static {
    /// Writes all of `writes`, or none. They are on disk when this returns.
    fn write(&mut self, writes: &mut dyn Iterator<Item = &Write>) -> Result<(), StorageError>;

    /// Writes a decision and moves the pin. Returns whether there is such an item.
    fn decide(&mut self, write: &DecisionWrite) -> Result<bool, StorageError>;
}

/// A connection to the database.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
}

/// The condition for an item to be shown in lists; see [`Storage::items`](mcpinspect_judge::registry::Storage::items).
macro_rules! is_shown {
    () => {
        "item.forgotten_at IS NULL AND (item.owner <> -3 OR NOT EXISTS (
             SELECT 1 FROM item AS own WHERE own.server = item.server AND own.owner <> -3
                 AND own.kind = item.kind AND own.name = item.name))"
    };
}

/// Columns of a [`StoredItem`], of `item` joined with the version seen last.
macro_rules! stored_item {
    () => {
        "server, kind, item.name, pinned, current, removed_at, version.last_seen, forgotten_at, owner,
         EXISTS (SELECT 1 FROM decision AS made WHERE made.item = item.id AND made.uid <> -2)"
    };
}

/// Reads the columns of `stored_item!` from column `at` on.
fn stored_item(row: &Row<'_>, at: usize) -> rusqlite::Result<StoredItem> {
    Ok(StoredItem {
        server: row.get(at)?,
        key: key(row, at + 1)?,
        pinned: row.stored_or_null(at + 3)?,
        current: row.stored(at + 4)?,
        removed: row.stored_or_null::<Timestamp>(at + 5)?.is_some(),
        last_seen: row.stored_or_null(at + 6)?.unwrap_or_default(),
        forgotten: row.stored_or_null::<Timestamp>(at + 7)?.is_some(),
        owner: row.stored(at + 8)?,
        decided: row.get(at + 9)?,
        listed: Vec::new(),
        texts: Vec::new(),
    })
}

impl Database {
    /// The database behind `connection`, which [`open`](mod@super::open) prepared.
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// A number that changes whenever another connection has written.
    pub(super) fn data_version(&self) -> rusqlite::Result<i64> {
        self.connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))
    }

    /// Everything that the registry keeps in memory.
    pub(super) fn load(&mut self) -> rusqlite::Result<Contents> {
        // One snapshot for all three.
        let transaction = self.connection.transaction()?;
        let mut texts = texts(&transaction)?;
        let mut listed = listed(&transaction)?;
        let items = transaction
            .prepare(concat!(
                "SELECT item.id, ",
                stored_item!(),
                " FROM item LEFT JOIN version ON version.item = item.id AND version.hash = item.current
                  WHERE forgotten_at IS NULL"
            ))?
            .query_map([], |row| {
                let id: i64 = row.get(0)?;
                Ok(StoredItem {
                    texts: texts.remove(&id).unwrap_or_default(),
                    listed: listed.remove(&id).unwrap_or_default(),
                    ..stored_item(row, 1)?
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        let names = transaction
            .prepare("SELECT owner, name, fingerprint FROM name ORDER BY first_seen, rowid")?
            .query_map([], |row| Ok((row.stored(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let last_decision =
            transaction.query_row("SELECT coalesce(max(id), 0) FROM decision", [], |row| {
                row.get(0)
            })?;
        Ok(Contents {
            items,
            names,
            last_decision,
        })
    }

    /// The items of all decisions after the one numbered `decision`, as they are now.
    pub(super) fn decided_after(&self, decision: i64) -> rusqlite::Result<Vec<(i64, StoredItem)>> {
        self.connection
            .prepare_cached(concat!(
                "SELECT decision.id, ",
                stored_item!(),
                " FROM decision JOIN item ON item.id = decision.item
                  LEFT JOIN version ON version.item = item.id AND version.hash = item.current
                  WHERE decision.id > ?1 ORDER BY decision.id"
            ))?
            .query_map([decision], |row| Ok((row.get(0)?, stored_item(row, 1)?)))?
            .collect()
    }

    /// The first `limit` decisions after the one numbered `decision` that no event has reported.
    pub(super) fn untold(
        &self,
        decision: i64,
        limit: usize,
    ) -> rusqlite::Result<Vec<(i64, ItemDecision)>> {
        self.connection
            .prepare_cached(
                "SELECT decision.id, server, kind, name, decision, hash, uid, time, reason, owner
                 FROM decision JOIN item ON item.id = decision.item
                 WHERE told = 0 AND decision.id > ?1 ORDER BY decision.id LIMIT ?2",
            )?
            .query_map(
                params![decision, i64::try_from(limit).unwrap_or(i64::MAX)],
                |row| {
                    let decided = ItemDecision {
                        owner: row.stored(9)?,
                        server: row.get(1)?,
                        key: key(row, 2)?,
                        decision: self::decision(row, 4)?,
                    };
                    Ok((row.get(0)?, decided))
                },
            )?
            .collect()
    }

    /// The definition with this hash, of the item or of the one under the server's `former` name, from which it
    /// is about to be copied.
    pub(super) fn definition(
        &self,
        server: ServerOf<'_>,
        former: Option<&str>,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> rusqlite::Result<Option<Arc<str>>> {
        self.connection
            .prepare_cached(
                "SELECT definition FROM version JOIN item ON item.id = version.item
                 WHERE owner = ?1 AND server IN (?2, ?3) AND kind = ?4 AND name = ?5 AND hash = ?6",
            )?
            .query_row(
                params![
                    Column(server.owner),
                    server.server,
                    former,
                    key.kind.as_str(),
                    key.name,
                    Column(hash)
                ],
                |row| row.get(0),
            )
            .optional()
    }

    /// All definitions of an item, oldest first.
    pub(super) fn versions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> rusqlite::Result<Vec<DefinitionVersion>> {
        self.connection
            .prepare_cached(
                "SELECT hash, definition, first_seen, first_session, last_seen
                 FROM version JOIN item ON item.id = version.item
                 WHERE owner = ?1 AND server = ?2 AND kind = ?3 AND name = ?4
                 ORDER BY first_seen, version.rowid",
            )?
            .query_map(item_of!(server, key), |row| {
                Ok(DefinitionVersion {
                    hash: row.stored(0)?,
                    definition: row.get(1)?,
                    first_seen: row.stored(2)?,
                    first_session: row.get(3)?,
                    last_seen: row.stored(4)?,
                })
            })?
            .collect()
    }

    /// All decisions on an item, oldest first.
    pub(super) fn decisions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> rusqlite::Result<Vec<Decision>> {
        self.connection
            .prepare_cached(
                "SELECT decision, hash, uid, time, reason FROM decision JOIN item ON item.id = decision.item
                 WHERE owner = ?1 AND server = ?2 AND kind = ?3 AND name = ?4 ORDER BY decision.id",
            )?
            .query_map(item_of!(server, key), |row| decision(row, 0))?
            .collect()
    }

    /// All items, of one server if given, ordered by server, kind and name.
    pub(super) fn items(&self, server: Option<&str>) -> rusqlite::Result<Vec<ItemView>> {
        let condition = match server {
            Some(_) => "AND server = ?1",
            None => "AND ?1 IS NULL",
        };
        self.connection
            .prepare_cached(&format!(
                "SELECT server, kind, name, pinned, pinned_at, pinned_by, current, removed_at,
                        (SELECT min(first_seen) FROM version WHERE version.item = item.id),
                        version.last_seen, decision, decision.hash, uid, time, reason, owner,
                        (SELECT iif(said.decision = 'approve', said.reason, NULL) FROM decision AS said
                         WHERE said.item = item.id AND said.uid = -2 AND said.hash = item.current
                         ORDER BY said.id DESC LIMIT 1)
                 FROM item
                 LEFT JOIN version ON version.item = item.id AND version.hash = item.current
                 LEFT JOIN decision ON decision.id =
                     (SELECT max(id) FROM decision WHERE decision.item = item.id)
                 WHERE {} {condition} ORDER BY server, owner < 0, abs(owner), kind, name",
                is_shown!()
            ))?
            .query_map([server], |row| {
                Ok(ItemView {
                    owner: row.stored(15)?,
                    server: row.get(0)?,
                    key: key(row, 1)?,
                    pinned: row.stored_or_null(3)?,
                    pinned_at: row.stored_or_null(4)?,
                    pinned_by: row.stored_or_null(5)?,
                    current: row.stored(6)?,
                    removed_at: row.stored_or_null(7)?,
                    first_seen: row.stored_or_null(8)?.unwrap_or_default(),
                    last_seen: row.stored_or_null(9)?.unwrap_or_default(),
                    last_decision: match row.get_ref(10)? {
                        ValueRef::Null => None,
                        _ => Some(decision(row, 10)?),
                    },
                    listed: row.get(16)?,
                })
            })?
            .collect()
    }

    /// What each server occupies, ordered by server.
    pub(super) fn usage(&self) -> rusqlite::Result<Vec<ServerUsage>> {
        self.connection
            .prepare_cached(concat!(
                "SELECT server, count(DISTINCT item.id), count(version.hash),
                        coalesce(sum(length(CAST(definition AS BLOB))), 0),
                        min(first_seen), max(last_seen),
                        count(DISTINCT iif(EXISTS (
                            SELECT 1 FROM decision WHERE decision.item = item.id AND uid <> -2), item.id, NULL)),
                        owner
                 FROM item LEFT JOIN version ON version.item = item.id
                 WHERE ",
                is_shown!(),
                " GROUP BY server, owner ORDER BY server, owner < 0, abs(owner)"
            ))?
            .query_map([], |row| {
                Ok(ServerUsage {
                    owner: row.stored(7)?,
                    server: row.get(0)?,
                    items: count(row, 1)?,
                    versions: count(row, 2)?,
                    definition_bytes: count(row, 3)?,
                    first_seen: row.stored_or_null(4)?.unwrap_or_default(),
                    last_seen: row.stored_or_null(5)?.unwrap_or_default(),
                    decided: count(row, 6)?,
                })
            })?
            .collect()
    }

    /// Lets the database grow to this many pages, as a full disk does.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, pages: Option<u32>) {
        let pages = pages.unwrap_or(u32::MAX - 1);
        let set =
            self.connection
                .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| {
                    row.get::<_, i64>(0)
                });
        assert!(set.is_ok(), "{set:?}");
    }

    fn begin(&mut self) -> rusqlite::Result<Transaction<'_>> {
        self.connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
    }
}

impl Commit for Database {
    fn write(&mut self, writes: &mut dyn Iterator<Item = &Write>) -> Result<(), StorageError> {
        let transaction = self.begin().map_err(failed)?;
        for write in writes {
            execute(&transaction, write).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn decide(&mut self, write: &DecisionWrite) -> Result<bool, StorageError> {
        let transaction = self.begin().map_err(failed)?;
        let is_known = decide(&transaction, write).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(is_known)
    }
}

/// The definitions of each item that a list approves: those for which approval was the last thing a list said.
fn listed(transaction: &Transaction<'_>) -> rusqlite::Result<HashMap<i64, Vec<DefinitionHash>>> {
    let mut listed: HashMap<i64, Vec<DefinitionHash>> = HashMap::new();
    let mut statement = transaction.prepare(
        "SELECT item, hash FROM (
             SELECT item, hash, decision, max(id) FROM decision
             WHERE uid = ?1 AND hash IS NOT NULL GROUP BY item, hash)
         WHERE decision = ?2 ORDER BY item, hash",
    )?;
    let mut rows = statement.query(params![
        Column(DecidedBy::List),
        DecisionKind::Approve.as_str()
    ])?;
    while let Some(row) = rows.next()? {
        listed.entry(row.get(0)?).or_default().push(row.stored(1)?);
    }
    Ok(listed)
}

/// The kept texts of each item, least recently seen first.
fn texts(transaction: &Transaction<'_>) -> rusqlite::Result<HashMap<i64, Vec<KeptText>>> {
    let mut texts: HashMap<i64, Vec<KeptText>> = HashMap::new();
    let mut statement = transaction
        .prepare("SELECT item, hash, octet_length(definition) FROM version ORDER BY last_seen")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (item, bytes): (i64, u32) = (row.get(0)?, row.get(2)?);
        let text = KeptText::new(row.stored(1)?, bytes as usize);
        texts.entry(item).or_default().push(text);
    }
    Ok(texts)
}

fn count(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(at)?.unsigned_abs())
}

fn key(row: &Row<'_>, at: usize) -> rusqlite::Result<ItemKey> {
    let word: String = row.get(at)?;
    let kind = ItemKind::from_word(&word).ok_or_else(|| unknown_word(at, &word))?;
    Ok(ItemKey {
        kind,
        name: row.get::<_, String>(at + 1)?.into(),
    })
}

fn decision(row: &Row<'_>, at: usize) -> rusqlite::Result<Decision> {
    let word: String = row.get(at)?;
    Ok(Decision {
        kind: DecisionKind::from_word(&word).ok_or_else(|| unknown_word(at, &word))?,
        hash: row.stored_or_null(at + 1)?,
        by: row.stored(at + 2)?,
        time: row.stored(at + 3)?,
        reason: row.get(at + 4)?,
    })
}

fn unknown_word(column: usize, word: &str) -> rusqlite::Error {
    let error = format!("unknown word {word:?}").into();
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error)
}
