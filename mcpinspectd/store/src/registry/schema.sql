-- Version 1. Times are nanoseconds since the Unix epoch; hashes are SHA-256, 32 bytes.

-- What a server offers and what it is held to.
CREATE TABLE item (
    id INTEGER PRIMARY KEY,
    server TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    -- What was accepted: on first use, or by a person. NULL after `unpin`.
    pinned BLOB,
    pinned_at INTEGER,
    -- Who accepted it; NULL for first use.
    pinned_by INTEGER,
    -- What was seen last.
    current BLOB NOT NULL,
    -- When a complete listing lacked it; NULL while it is there.
    removed_at INTEGER,
    UNIQUE (server, kind, name)
) STRICT;

-- Every definition that was ever seen.
CREATE TABLE version (
    item INTEGER NOT NULL REFERENCES item (id) ON DELETE CASCADE,
    hash BLOB NOT NULL,
    definition TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    first_session TEXT NOT NULL,
    last_seen INTEGER NOT NULL,
    PRIMARY KEY (item, hash)
) STRICT;

-- What people decided.
CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    item INTEGER NOT NULL REFERENCES item (id) ON DELETE CASCADE,
    hash BLOB,
    decision TEXT NOT NULL,
    uid INTEGER NOT NULL,
    time INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT;
