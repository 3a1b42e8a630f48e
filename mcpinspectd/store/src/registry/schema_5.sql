-- Version 5: pins and names have owners: a user id, or -1 for all who share, -2 for servers whose user is
-- not known, -3 for what was recorded before there were owners. Of the last, each user takes over what
-- they show themselves; see `registry::owner`.
CREATE TABLE owned_item (
    id INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL,
    server TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    pinned BLOB,
    pinned_at INTEGER,
    pinned_by INTEGER,
    current BLOB NOT NULL,
    removed_at INTEGER,
    forgotten_at INTEGER,
    UNIQUE (server, owner, kind, name)
) STRICT;
INSERT INTO owned_item
    SELECT id, -3, server, kind, name, pinned, pinned_at, pinned_by, current, removed_at, forgotten_at FROM item;
-- Foreign keys are not enforced here: the rows that refer to these stay.
DROP TABLE item;
ALTER TABLE owned_item RENAME TO item;

CREATE TABLE owned_name (
    owner INTEGER NOT NULL,
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT;
INSERT INTO owned_name SELECT -3, name, fingerprint, first_seen FROM name;
DROP TABLE name;
ALTER TABLE owned_name RENAME TO name;
