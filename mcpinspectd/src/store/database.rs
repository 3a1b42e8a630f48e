//! The registry's tables: every statement that reads or writes them.
//!
//! Pins are the measure of every change, so losing one means silently accepting whatever a server says
//! next. Hence every write is a transaction that is on disk when it returns (write-ahead log,
//! `synchronous=FULL`). Several processes may have the file open (the daemon and a person's command);
//! each learns from the file's data version that another one wrote.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use crate::model::{DefinitionHash, ItemKind, Timestamp};
use crate::registry::{
    Contents, DecidedBy, Decision, DecisionKind, DecisionWrite, DefinitionVersion, ItemDecision,
    ItemKey, ItemView, KeptText, MAX_VERSIONS, Owner, ServerOf, ServerUsage, StorageError,
    StoredItem, Write,
};

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

/// The parameters 1 to 4 that select an item.
macro_rules! item_of {
    ($server:expr, $key:expr) => {
        params![$server.owner, $server.server, $key.kind.as_str(), $key.name]
    };
}

/// The condition that an item is shown in lists; see [`Storage::items`](crate::registry::Storage::items).
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
        pinned: row.get(at + 3)?,
        current: row.get(at + 4)?,
        removed: row.get::<_, Option<Timestamp>>(at + 5)?.is_some(),
        last_seen: row.get::<_, Option<Timestamp>>(at + 6)?.unwrap_or_default(),
        forgotten: row.get::<_, Option<Timestamp>>(at + 7)?.is_some(),
        owner: row.get(at + 8)?,
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
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
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

    /// The items of all decisions after the one of number `decision`, as they are now.
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

    /// The first `limit` decisions after the one of number `decision` that no event has told of.
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
                        owner: row.get(9)?,
                        server: row.get(1)?,
                        key: key(row, 2)?,
                        decision: self::decision(row, 4)?,
                    };
                    Ok((row.get(0)?, decided))
                },
            )?
            .collect()
    }

    /// The definition with this hash, of the item or of that of the server's `former` name, from which it
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
                    server.owner,
                    server.server,
                    former,
                    key.kind.as_str(),
                    key.name,
                    hash
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

    /// All items, of one server if it is named, ordered by server, kind and name.
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
                    owner: row.get(15)?,
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
                    listed: row.get(16)?,
                })
            })?
            .collect()
    }

    /// What each server takes, ordered by server.
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
                    owner: row.get(7)?,
                    server: row.get(0)?,
                    items: count(row, 1)?,
                    versions: count(row, 2)?,
                    definition_bytes: count(row, 3)?,
                    first_seen: row.get::<_, Option<Timestamp>>(4)?.unwrap_or_default(),
                    last_seen: row.get::<_, Option<Timestamp>>(5)?.unwrap_or_default(),
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
        let transaction = self.begin()?;
        for write in writes {
            execute(&transaction, write)?;
        }
        Ok(transaction.commit()?)
    }

    fn decide(&mut self, write: &DecisionWrite) -> Result<bool, StorageError> {
        let transaction = self.begin()?;
        let is_known = decide(&transaction, write)?;
        transaction.commit()?;
        Ok(is_known)
    }
}

/// The definitions of each item that a list approves: those for which the last that a list said is that.
fn listed(transaction: &Transaction<'_>) -> rusqlite::Result<HashMap<i64, Vec<DefinitionHash>>> {
    let mut listed: HashMap<i64, Vec<DefinitionHash>> = HashMap::new();
    let mut statement = transaction.prepare(
        "SELECT item, hash FROM (
             SELECT item, hash, decision, max(id) FROM decision
             WHERE uid = ?1 AND hash IS NOT NULL GROUP BY item, hash)
         WHERE decision = ?2 ORDER BY item, hash",
    )?;
    let mut rows = statement.query(params![DecidedBy::List, DecisionKind::Approve.as_str()])?;
    while let Some(row) = rows.next()? {
        listed.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    Ok(listed)
}

/// The texts that are kept of each item, those not seen for longest first.
fn texts(transaction: &Transaction<'_>) -> rusqlite::Result<HashMap<i64, Vec<KeptText>>> {
    let mut texts: HashMap<i64, Vec<KeptText>> = HashMap::new();
    let mut statement = transaction
        .prepare("SELECT item, hash, octet_length(definition) FROM version ORDER BY last_seen")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (item, bytes): (i64, u32) = (row.get(0)?, row.get(2)?);
        let text = KeptText::new(row.get(1)?, bytes as usize);
        texts.entry(item).or_default().push(text);
    }
    Ok(texts)
}

fn execute(transaction: &Transaction<'_>, write: &Write) -> rusqlite::Result<()> {
    match write {
        Write::Seen {
            owner,
            server,
            key,
            hash,
            definition,
            time,
            session,
            pin,
        } => {
            let server = ServerOf::new(*owner, server);
            let item = upsert(transaction, server, key, *hash, *time, *pin)?;
            transaction
                .prepare_cached(
                    "INSERT INTO version (item, hash, definition, first_seen, first_session, last_seen)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?4)
                     ON CONFLICT (item, hash) DO UPDATE SET last_seen = excluded.last_seen",
                )?
                .execute(params![item, hash, definition, time, session])?;
            if !pin {
                prune(transaction, item)?;
            }
        }
        Write::Removed {
            owner,
            server,
            key,
            time,
        } => {
            transaction
                .prepare_cached(
                    "UPDATE item SET removed_at = ?5
                     WHERE owner = ?1 AND server = ?2 AND kind = ?3 AND name = ?4",
                )?
                .execute(params![owner, server, key.kind.as_str(), key.name, time])?;
        }
        Write::Adopted {
            owner,
            from,
            server,
            key,
            hash,
        } => adopt(
            transaction,
            *owner,
            ServerOf::new(*from, server),
            key,
            *hash,
        )?,
        Write::Named {
            owner,
            name,
            fingerprint,
            former,
            time,
        } => {
            if let Some(former) = former {
                inherit(transaction, ServerOf::new(*owner, former), name)?;
            }
            transaction
                .prepare_cached(
                    "INSERT INTO name (owner, name, fingerprint, first_seen) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (owner, name) DO NOTHING",
                )?
                .execute(params![owner, name, fingerprint, time])?;
        }
        Write::Decided(write) => {
            decide(transaction, write)?;
        }
        Write::Evicted { owner, server, key } => {
            transaction
                .prepare_cached(
                    "DELETE FROM item WHERE owner = ?1 AND server = ?2 AND kind = ?3 AND name = ?4
                     AND (?1 = ?5 OR NOT EXISTS (
                         SELECT 1 FROM decision WHERE decision.item = item.id AND decision.uid <> ?6))",
                )?
                .execute(params![
                    owner,
                    server,
                    key.kind.as_str(),
                    key.name,
                    Owner::Earlier,
                    DecidedBy::List
                ])?;
        }
        Write::Told { decision } => {
            transaction
                .prepare_cached("UPDATE decision SET told = 1 WHERE id = ?1")?
                .execute([decision])?;
        }
    }
    Ok(())
}

/// Copies an item to an owner who has none: the pin, the decisions, and the definition with this hash.
fn adopt(
    transaction: &Transaction<'_>,
    owner: Owner,
    from: ServerOf<'_>,
    key: &ItemKey,
    hash: DefinitionHash,
) -> rusqlite::Result<()> {
    let Some(old) = item_id(transaction, from, key)? else {
        return Ok(());
    };
    let copied = transaction
        .prepare_cached(
            "INSERT INTO item (owner, server, kind, name, pinned, pinned_at, pinned_by, current)
             SELECT ?2, server, kind, name, pinned, pinned_at, pinned_by, ?3 FROM item WHERE id = ?1
             ON CONFLICT (server, owner, kind, name) DO NOTHING",
        )?
        .execute(params![old, owner, hash])?;
    if copied == 0 {
        return Ok(());
    }
    let new = transaction.last_insert_rowid();
    transaction
        .prepare_cached(
            "INSERT INTO version (item, hash, definition, first_seen, first_session, last_seen)
             SELECT ?2, hash, definition, first_seen, first_session, last_seen
             FROM version WHERE item = ?1 AND hash = ?3",
        )?
        .execute(params![old, new, hash])?;
    transaction
        .prepare_cached(
            "INSERT INTO decision (item, hash, decision, uid, time, reason, told)
             SELECT ?2, hash, decision, uid, time, reason, 1 FROM decision WHERE item = ?1 ORDER BY id",
        )?
        .execute(params![old, new])?;
    Ok(())
}

/// Copies the items of a server to another of the same owner, with the definitions that are pinned and
/// current, except those that it has.
fn inherit(transaction: &Transaction<'_>, from: ServerOf<'_>, to: &str) -> rusqlite::Result<()> {
    let servers = params![from.owner, from.server, to];
    transaction.execute(
        "INSERT INTO item (owner, server, kind, name, pinned, pinned_at, pinned_by, current, removed_at)
         SELECT owner, ?3, kind, name, pinned, pinned_at, pinned_by, current, removed_at
         FROM item WHERE owner = ?1 AND server = ?2 AND forgotten_at IS NULL
         ON CONFLICT (server, owner, kind, name) DO NOTHING",
        servers,
    )?;
    transaction.execute(
        "INSERT INTO version (item, hash, definition, first_seen, first_session, last_seen)
         SELECT own.id, hash, definition, first_seen, first_session, last_seen
         FROM item AS own
         JOIN item AS old ON old.owner = ?1 AND old.server = ?2
             AND old.kind = own.kind AND old.name = own.name
         JOIN version ON version.item = old.id AND hash IN (own.pinned, own.current)
         WHERE own.owner = ?1 AND own.server = ?3
         ON CONFLICT (item, hash) DO NOTHING",
        servers,
    )?;
    Ok(())
}

/// Stores a decision and moves the pin. Returns whether there is such an item.
fn decide(transaction: &Transaction<'_>, write: &DecisionWrite) -> rusqlite::Result<bool> {
    let DecisionWrite {
        owner,
        server,
        key,
        decision,
        pin,
    } = write;
    let server = ServerOf::new(*owner, server);
    if decision.kind == DecisionKind::Forget && *owner != Owner::Earlier {
        // Or it would be taken over again.
        transaction.execute(
            "DELETE FROM item WHERE owner = ?1 AND server = ?2 AND kind = ?3 AND name = ?4",
            params![Owner::Earlier, server.server, key.kind.as_str(), key.name],
        )?;
    }
    let Some(item) = item_id(transaction, server, key)? else {
        return Ok(false);
    };
    if decision.kind == DecisionKind::Forget {
        transaction.execute(
            "UPDATE item SET forgotten_at = ?2 WHERE id = ?1",
            params![item, decision.time],
        )?;
        transaction.execute("DELETE FROM version WHERE item = ?1", [item])?;
    }
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
        params![
            item,
            decision.hash,
            decision.kind.as_str(),
            decision.by,
            decision.time,
            decision.reason
        ],
    )?;
    if decision.by == DecidedBy::Policy {
        // A person's decisions stay. Those of a policy come as often as a server likes.
        transaction.execute(
            "DELETE FROM decision WHERE item = ?1 AND uid = ?2 AND told = 1 AND id NOT IN (
                 SELECT id FROM decision WHERE item = ?1 AND uid = ?2 ORDER BY id DESC LIMIT ?3)",
            params![item, DecidedBy::Policy, MAX_VERSIONS as i64],
        )?;
    }
    Ok(true)
}

fn item_id(
    transaction: &Transaction<'_>,
    server: ServerOf<'_>,
    key: &ItemKey,
) -> rusqlite::Result<Option<i64>> {
    transaction
        .prepare_cached(
            "SELECT id FROM item WHERE owner = ?1 AND server = ?2 AND kind = ?3 AND name = ?4",
        )?
        .query_row(item_of!(server, key), |row| row.get(0))
        .optional()
}

fn upsert(
    transaction: &Transaction<'_>,
    server: ServerOf<'_>,
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
    let ServerOf { owner, server } = server;
    let kind = key.kind.as_str();
    let row = params![owner, server, kind, key.name, pinned, pinned_at, hash];
    let inserted = transaction
        .prepare_cached(
            "INSERT INTO item (owner, server, kind, name, pinned, pinned_at, current)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (server, owner, kind, name) DO NOTHING",
        )?
        .execute(row)?;
    if inserted > 0 {
        return Ok(transaction.last_insert_rowid());
    }
    transaction
        .prepare_cached(
            // An existing pin stays: another process may have set it since.
            "UPDATE item SET
                 current = ?7,
                 removed_at = NULL,
                 forgotten_at = NULL,
                 pinned_at = iif(pinned IS NULL, ?6, pinned_at),
                 pinned = coalesce(pinned, ?5)
             WHERE owner = ?1 AND server = ?2 AND kind = ?3 AND name = ?4
             RETURNING id",
        )?
        .query_row(row, |row| row.get(0))
}

/// Drops the definitions above [`MAX_VERSIONS`] that were not seen for longest: a server that changes
/// with every listing must not fill the disk. Definitions that are pinned, current or decided on stay.
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
        .execute(params![item, MAX_VERSIONS as i64])?;
    Ok(())
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
