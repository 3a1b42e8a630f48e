//! What each write does to the tables, within the given transaction.

use mcpinspect_core::model::{DefinitionHash, Timestamp};
use mcpinspect_judge::registry::{
    DecidedBy, DecisionKind, DecisionWrite, ItemKey, MAX_VERSIONS, Owner, ServerOf, Write,
};
use rusqlite::{OptionalExtension, Transaction, params};

use super::super::values::Column;

pub(super) fn execute(transaction: &Transaction<'_>, write: &Write) -> rusqlite::Result<()> {
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
                .execute(params![item, Column(*hash), definition, Column(*time), session])?;
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
                .execute(params![
                    Column(*owner),
                    server,
                    key.kind.as_str(),
                    key.name,
                    Column(*time)
                ])?;
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
                .execute(params![Column(*owner), name, fingerprint, Column(*time)])?;
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
                    Column(*owner),
                    server,
                    key.kind.as_str(),
                    key.name,
                    Column(Owner::Earlier),
                    Column(DecidedBy::List)
                ])?;
        }
        Write::Reported { decision } => {
            transaction
                .prepare_cached("UPDATE decision SET told = 1 WHERE id = ?1")?
                .execute([decision])?;
        }
    }
    Ok(())
}

/// Copies an item to an owner without one: the pin, the decisions, and the definition with this hash.
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
        .execute(params![old, Column(owner), Column(hash)])?;
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
        .execute(params![old, new, Column(hash)])?;
    transaction
        .prepare_cached(
            "INSERT INTO decision (item, hash, decision, uid, time, reason, told)
             SELECT ?2, hash, decision, uid, time, reason, 1 FROM decision WHERE item = ?1 ORDER BY id",
        )?
        .execute(params![old, new])?;
    Ok(())
}

/// Copies the items of a server to another of the same owner, with the pinned and
/// current definitions, except those that it already has.
fn inherit(transaction: &Transaction<'_>, from: ServerOf<'_>, to: &str) -> rusqlite::Result<()> {
    let owner = Column(from.owner);
    let servers = params![owner, from.server, to];
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
pub(super) fn decide(
    transaction: &Transaction<'_>,
    write: &DecisionWrite,
) -> rusqlite::Result<bool> {
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
            params![
                Column(Owner::Earlier),
                server.server,
                key.kind.as_str(),
                key.name
            ],
        )?;
    }
    let Some(item) = item_id(transaction, server, key)? else {
        return Ok(false);
    };
    if decision.kind == DecisionKind::Forget {
        transaction.execute(
            "UPDATE item SET forgotten_at = ?2 WHERE id = ?1",
            params![item, Column(decision.time)],
        )?;
        transaction.execute("DELETE FROM version WHERE item = ?1", [item])?;
    }
    if let Some(pin) = pin {
        let by = pin.map(|_| Column(decision.by));
        let at = pin.map(|_| Column(decision.time));
        transaction.execute(
            "UPDATE item SET pinned = ?2, pinned_by = ?3, pinned_at = ?4 WHERE id = ?1",
            params![item, pin.map(Column), by, at],
        )?;
    }
    transaction.execute(
        "INSERT INTO decision (item, hash, decision, uid, time, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            item,
            decision.hash.map(Column),
            decision.kind.as_str(),
            Column(decision.by),
            Column(decision.time),
            decision.reason
        ],
    )?;
    if decision.by == DecidedBy::Policy {
        // A person's decisions stay. A policy's come as often as a server likes.
        transaction.execute(
            "DELETE FROM decision WHERE item = ?1 AND uid = ?2 AND told = 1 AND id NOT IN (
                 SELECT id FROM decision WHERE item = ?1 AND uid = ?2 ORDER BY id DESC LIMIT ?3)",
            params![item, Column(DecidedBy::Policy), MAX_VERSIONS as i64],
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
        (Some(Column(hash)), Some(Column(time)))
    } else {
        (None, None)
    };
    let ServerOf { owner, server } = server;
    let kind = key.kind.as_str();
    let (owner, hash) = (Column(owner), Column(hash));
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

/// Drops the least recently seen definitions above [`MAX_VERSIONS`]: a server that changes
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
