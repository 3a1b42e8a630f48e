//! The registry on disk.
//!
//! Pins are what a change is measured by, so losing one is silently accepting whatever a server says
//! next. Hence every write is a transaction that is on disk when it returns (write-ahead log,
//! `synchronous=FULL`). Several processes may have the file open (the daemon and a person's command);
//! each sees what the others did by the file's data version.

use std::sync::Arc;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::item::{By, Decided, Decision, ItemKey, ItemView, Verb, Version};
use crate::model::DefinitionHash;
use crate::model::ItemKind;
use crate::model::Timestamp;

/// Definitions kept of one item besides those that count; the longest unseen goes first. Also how many
/// decisions of a policy are kept of it.
const MAX_VERSIONS: u32 = 64;

/// One thing to write.
#[derive(Clone, Debug)]
pub enum Write {
    /// A definition was seen that was not seen before, or not for a while.
    Seen {
        /// The server.
        server: Arc<str>,
        /// The item.
        key: ItemKey,
        /// The definition's hash.
        hash: DefinitionHash,
        /// The definition's text.
        definition: Arc<str>,
        /// When.
        time: Timestamp,
        /// In which session.
        session: Arc<str>,
        /// Whether it is accepted as the item's first.
        pin: bool,
    },
    /// A complete listing lacked it.
    Removed {
        /// The server.
        server: Arc<str>,
        /// The item.
        key: ItemKey,
        /// When.
        time: Timestamp,
    },
    /// A server has this name from now on.
    Named {
        /// The name.
        name: Arc<str>,
        /// The fingerprint of the server's identity.
        fingerprint: Arc<str>,
        /// When it was given.
        time: Timestamp,
    },
    /// A decision became an event.
    Told {
        /// Its number.
        decision: i64,
    },
}

/// What the daemon needs to know of an item at hand.
#[derive(Clone, Debug)]
pub struct StoredItem {
    /// The server.
    pub server: String,
    /// The item.
    pub key: ItemKey,
    /// What was accepted.
    pub pinned: Option<DefinitionHash>,
    /// What was seen last.
    pub current: DefinitionHash,
    /// Whether a complete listing lacked it.
    pub removed: bool,
    /// When `current` was seen last.
    pub last_seen: Timestamp,
}

/// The database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
}

impl Store {
    /// The database behind `connection`, which [`open`](super::open) made ready.
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Changes whenever another connection has written.
    pub fn data_version(&self) -> rusqlite::Result<i64> {
        self.connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))
    }

    /// All items.
    pub fn load(&self) -> rusqlite::Result<Vec<StoredItem>> {
        self.connection
            .prepare_cached(
                "SELECT server, kind, name, pinned, current, removed_at, version.last_seen
                 FROM item LEFT JOIN version ON version.item = item.id AND version.hash = item.current",
            )?
            .query_map([], |row| {
                Ok(StoredItem {
                    server: row.get(0)?,
                    key: key(row, 1)?,
                    pinned: row.get(3)?,
                    current: row.get(4)?,
                    removed: row.get::<_, Option<Timestamp>>(5)?.is_some(),
                    last_seen: row.get::<_, Option<Timestamp>>(6)?.unwrap_or_default(),
                })
            })?
            .collect()
    }

    /// Writes all of `writes`, or none.
    pub fn write<'w>(&mut self, writes: impl Iterator<Item = &'w Write>) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for write in writes {
            match write {
                Write::Seen {
                    server,
                    key,
                    hash,
                    definition,
                    time,
                    session,
                    pin,
                } => {
                    let item = upsert(&transaction, server, key, *hash, *time, *pin)?;
                    transaction
                        .prepare_cached(
                            "INSERT INTO version (item, hash, definition, first_seen, first_session, last_seen)
                             VALUES (?1, ?2, ?3, ?4, ?5, ?4)
                             ON CONFLICT (item, hash) DO UPDATE SET last_seen = excluded.last_seen",
                        )?
                        .execute(params![item, hash, definition, time, session])?;
                    if !pin {
                        prune(&transaction, item)?;
                    }
                }
                Write::Removed { server, key, time } => {
                    transaction
                        .prepare_cached("UPDATE item SET removed_at = ?4 WHERE server = ?1 AND kind = ?2 AND name = ?3")?
                        .execute(params![server, key.kind.as_str(), key.name, time])?;
                }
                Write::Named {
                    name,
                    fingerprint,
                    time,
                } => {
                    transaction
                        .prepare_cached(
                            "INSERT INTO name (name, fingerprint, first_seen) VALUES (?1, ?2, ?3)
                             ON CONFLICT (name) DO NOTHING",
                        )?
                        .execute(params![name, fingerprint, time])?;
                }
                Write::Told { decision } => {
                    transaction
                        .prepare_cached("UPDATE decision SET told = 1 WHERE id = ?1")?
                        .execute([decision])?;
                }
            }
        }
        transaction.commit()
    }

    /// The servers' names with the fingerprints that they belong to, oldest first.
    pub fn names(&self) -> rusqlite::Result<Vec<(String, String)>> {
        self.connection
            .prepare_cached("SELECT name, fingerprint FROM name ORDER BY first_seen, rowid")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    }

    /// The first `count` decisions after the one of number `after` that are no events yet, with
    /// their numbers, oldest first.
    pub fn untold(&self, after: i64, count: usize) -> rusqlite::Result<Vec<(i64, Decided)>> {
        self.connection
            .prepare_cached(
                "SELECT decision.id, server, kind, name, decision, hash, uid, time, reason
                 FROM decision JOIN item ON item.id = decision.item
                 WHERE told = 0 AND decision.id > ?1 ORDER BY decision.id LIMIT ?2",
            )?
            .query_map(
                params![after, i64::try_from(count).unwrap_or(i64::MAX)],
                |row| {
                    let decided = Decided {
                        server: row.get(1)?,
                        key: key(row, 2)?,
                        decision: decision(row, 4)?,
                    };
                    Ok((row.get(0)?, decided))
                },
            )?
            .collect()
    }

    /// Notes a decision, and moves the pin to `pin` where it says so. Says whether there is such an
    /// item, and such a definition of it.
    pub fn decide(
        &mut self,
        server: &str,
        key: &ItemKey,
        decision: &Decision,
        pin: Option<Option<DefinitionHash>>,
    ) -> rusqlite::Result<bool> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let Some(item) = item_id(&transaction, server, key)? else {
            return Ok(false);
        };
        if let Some(pin) = pin {
            let by = pin.map(|_| decision.by);
            let at = pin.map(|_| decision.time);
            transaction.execute(
                "UPDATE item SET pinned = ?2, pinned_by = ?3, pinned_at = ?4 WHERE id = ?1",
                params![item, pin, by, at],
            )?;
        }
        transaction.execute(
            "INSERT INTO decision (item, hash, decision, uid, time, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![item, decision.hash, decision.verb.as_str(), decision.by, decision.time, decision.reason],
        )?;
        if decision.by == By::Policy {
            // A person's decisions stay. Those of a policy come as often as a server likes.
            transaction.execute(
                "DELETE FROM decision WHERE item = ?1 AND uid = ?2 AND told = 1 AND id NOT IN (
                     SELECT id FROM decision WHERE item = ?1 AND uid = ?2 ORDER BY id DESC LIMIT ?3)",
                params![item, By::Policy, MAX_VERSIONS],
            )?;
        }
        transaction.commit()?;
        Ok(true)
    }

    /// The definition of this hash.
    pub fn definition(
        &self,
        server: &str,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> rusqlite::Result<Option<String>> {
        self.connection
            .prepare_cached(
                "SELECT definition FROM version JOIN item ON item.id = version.item
                 WHERE server = ?1 AND kind = ?2 AND name = ?3 AND hash = ?4",
            )?
            .query_row(params![server, key.kind.as_str(), key.name, hash], |row| {
                row.get(0)
            })
            .optional()
    }

    /// All definitions of an item, oldest first.
    pub fn versions(&self, server: &str, key: &ItemKey) -> rusqlite::Result<Vec<Version>> {
        self.connection
            .prepare_cached(
                "SELECT hash, definition, first_seen, first_session, last_seen
                 FROM version JOIN item ON item.id = version.item
                 WHERE server = ?1 AND kind = ?2 AND name = ?3 ORDER BY first_seen, version.rowid",
            )?
            .query_map(params![server, key.kind.as_str(), key.name], |row| {
                Ok(Version {
                    hash: row.get(0)?,
                    definition: row.get(1)?,
                    first_seen: row.get(2)?,
                    first_session: row.get(3)?,
                    last_seen: row.get(4)?,
                })
            })?
            .collect()
    }

    /// All decisions on an item, oldest first.
    pub fn decisions(&self, server: &str, key: &ItemKey) -> rusqlite::Result<Vec<Decision>> {
        self.connection
            .prepare_cached(
                "SELECT decision, hash, uid, time, reason FROM decision JOIN item ON item.id = decision.item
                 WHERE server = ?1 AND kind = ?2 AND name = ?3 ORDER BY decision.id",
            )?
            .query_map(params![server, key.kind.as_str(), key.name], |row| decision(row, 0))?
            .collect()
    }

    /// Lets the database grow to this many pages, as a full disk does.
    #[cfg(test)]
    pub fn limit_pages(&self, pages: Option<u32>) {
        let pages = pages.unwrap_or(u32::MAX - 1);
        let set =
            self.connection
                .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| {
                    row.get::<_, i64>(0)
                });
        assert!(set.is_ok(), "{set:?}");
    }

    /// All items, as people see them, in the order of their names.
    pub fn views(&self) -> rusqlite::Result<Vec<ItemView>> {
        self.connection
            .prepare_cached(
                "SELECT server, kind, name, pinned, pinned_at, pinned_by, current, removed_at,
                        (SELECT min(first_seen) FROM version WHERE version.item = item.id),
                        version.last_seen, decision, decision.hash, uid, time, reason
                 FROM item
                 LEFT JOIN version ON version.item = item.id AND version.hash = item.current
                 LEFT JOIN decision ON decision.id =
                     (SELECT max(id) FROM decision WHERE decision.item = item.id)
                 ORDER BY server, kind, name",
            )?
            .query_map([], |row| {
                Ok(ItemView {
                    server: row.get(0)?,
                    key: key(row, 1)?,
                    pinned: row.get(3)?,
                    pinned_at: row.get(4)?,
                    pinned_by: row.get(5)?,
                    current: row.get(6)?,
                    removed_at: row.get(7)?,
                    first_seen: row.get::<_, Option<Timestamp>>(8)?.unwrap_or_default(),
                    last_seen: row.get::<_, Option<Timestamp>>(9)?.unwrap_or_default(),
                    last_decision: match row.get_ref(10)? {
                        ValueRef::Null => None,
                        _ => Some(decision(row, 10)?),
                    },
                })
            })?
            .collect()
    }
}

fn item_id(
    transaction: &Transaction<'_>,
    server: &str,
    key: &ItemKey,
) -> rusqlite::Result<Option<i64>> {
    transaction
        .prepare_cached("SELECT id FROM item WHERE server = ?1 AND kind = ?2 AND name = ?3")?
        .query_row(params![server, key.kind.as_str(), key.name], |row| {
            row.get(0)
        })
        .optional()
}

fn upsert(
    transaction: &Transaction<'_>,
    server: &str,
    key: &ItemKey,
    hash: DefinitionHash,
    time: Timestamp,
    pin: bool,
) -> rusqlite::Result<i64> {
    let (pinned, pinned_at) = if pin {
        (Some(hash), Some(time))
    } else {
        (None, None)
    };
    let row = params![server, key.kind.as_str(), key.name, pinned, pinned_at, hash];
    let inserted = transaction
        .prepare_cached(
            "INSERT INTO item (server, kind, name, pinned, pinned_at, current) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (server, kind, name) DO NOTHING",
        )?
        .execute(row)?;
    if inserted > 0 {
        return Ok(transaction.last_insert_rowid());
    }
    transaction
        .prepare_cached(
            // A pin that is there stays: another process may have set it since.
            "UPDATE item SET
                 current = ?6,
                 removed_at = NULL,
                 pinned_at = iif(pinned IS NULL, ?5, pinned_at),
                 pinned = coalesce(pinned, ?4)
             WHERE server = ?1 AND kind = ?2 AND name = ?3
             RETURNING id",
        )?
        .query_row(row, |row| row.get(0))
}

/// Forgets the longest unseen of too many definitions: a server that changes with every listing must
/// not fill the disk. What is pinned, current or decided on stays.
fn prune(transaction: &Transaction<'_>, item: i64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "DELETE FROM version WHERE item = ?1 AND hash IN (
                 SELECT version.hash FROM version JOIN item ON item.id = version.item
                 WHERE version.item = ?1
                     AND version.hash IS NOT item.pinned AND version.hash IS NOT item.current
                     AND version.hash NOT IN (SELECT hash FROM decision WHERE item = ?1 AND hash IS NOT NULL)
                 ORDER BY version.last_seen DESC LIMIT -1 OFFSET ?2)",
        )?
        .execute(params![item, MAX_VERSIONS])?;
    Ok(())
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
        verb: Verb::from_word(&word).ok_or_else(|| unknown_word(at, &word))?,
        hash: row.get(at + 1)?,
        by: row.get(at + 2)?,
        time: row.get(at + 3)?,
        reason: row.get(at + 4)?,
    })
}

fn unknown_word(column: usize, word: &str) -> rusqlite::Error {
    let error = format!("unknown word {word:?}").into();
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error)
}

impl ToSql for DefinitionHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

impl FromSql for DefinitionHash {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_blob()?;
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| FromSqlError::InvalidBlobSize {
                expected_size: 32,
                blob_size: bytes.len(),
            })
    }
}

/// What stands in the place of a user id where a policy decided.
const POLICY: i64 = -1;

impl ToSql for By {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.uid().map_or(POLICY, i64::from).into())
    }
}

impl FromSql for By {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            POLICY => Ok(Self::Policy),
            uid => u32::try_from(uid)
                .map(Self::Person)
                .map_err(|_| FromSqlError::OutOfRange(uid)),
        }
    }
}

impl ToSql for Timestamp {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        // Good until the year 2262.
        Ok(i64::try_from(self.0).unwrap_or(i64::MAX).into())
    }
}

impl FromSql for Timestamp {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value
            .as_i64()
            .map(|nanoseconds| Self(u64::try_from(nanoseconds).unwrap_or(0)))
    }
}
