-- Version 2.

-- Which fingerprint a server's name belongs to on this machine: whoever had it first.
CREATE TABLE name (
    name TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    first_seen INTEGER NOT NULL
) STRICT;

-- Whether the daemon has made an event of it. Nobody waits for those of the past.
ALTER TABLE decision ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
UPDATE decision SET told = 1;
CREATE INDEX decision_untold ON decision (id) WHERE told = 0;
