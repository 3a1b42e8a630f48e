-- The message store, version 1. Times are nanoseconds since the Unix epoch. The manual describes the
-- tables for those who read them (docs/recording.md).

-- A client talking to a server.
CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    -- The user that the server runs as; NULL if unknown.
    uid INTEGER,
    server TEXT NOT NULL,
    fingerprint TEXT NOT NULL DEFAULT '',
    name_source TEXT NOT NULL DEFAULT '',
    transport TEXT NOT NULL DEFAULT 'stdio',
    server_pid INTEGER,
    server_exe TEXT,
    client_pid INTEGER,
    client_exe TEXT,
    protocol_version TEXT,
    server_info TEXT,
    client_info TEXT,
    joined_midstream INTEGER NOT NULL DEFAULT 0,
    -- 1 if it comes from a tape.
    imported INTEGER NOT NULL DEFAULT 0,
    started INTEGER NOT NULL,
    ended INTEGER,
    end_reason TEXT,
    -- When its last message went by.
    last INTEGER NOT NULL,
    messages INTEGER NOT NULL DEFAULT 0,
    errors INTEGER NOT NULL DEFAULT 0,
    in_flight INTEGER NOT NULL DEFAULT 0,
    -- Bytes on the wire, and bytes that its texts take here.
    bytes INTEGER NOT NULL DEFAULT 0,
    stored INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX session_last ON session (last);

-- A message, in the order of recording.
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (id),
    -- Its number in the session, from 1; of a batch's member, its batch's.
    sequence INTEGER NOT NULL,
    is_member INTEGER NOT NULL,
    time INTEGER NOT NULL,
    -- 0 from client to server, 1 from server to client.
    direction INTEGER NOT NULL,
    -- 0 request, 1 response, 2 notification, 3 batch, 4 invalid.
    kind INTEGER NOT NULL,
    -- Its method, or that of the request that it answers.
    method TEXT,
    tool TEXT,
    rpc_id TEXT,
    -- Sequences: of the request that it answers, of the one that it cancels or reports progress of, and of
    -- the first request of a call that takes several.
    answers INTEGER,
    concerns INTEGER,
    call INTEGER,
    -- How a response relates to its request: 0 answer, 1 late, 2 cancelled, 3 duplicate, 4 orphan, 5 unknown.
    correlation INTEGER,
    latency INTEGER,
    -- 1 an error, 2 bytes were lost before it, 4 its text has secrets masked.
    flags INTEGER NOT NULL,
    reason TEXT,
    -- Bytes on the wire.
    size INTEGER NOT NULL,
    -- Where its text is: in which block, from where, how long. NULL if it was not kept.
    block INTEGER,
    position INTEGER,
    length INTEGER
) STRICT;
CREATE INDEX message_session ON message (session, sequence);

-- Texts of messages of one session, one behind the other, compressed with zstd.
CREATE TABLE block (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (id),
    -- The number of the last message in it.
    last INTEGER NOT NULL,
    -- The dictionary: 0 none, 1 the first.
    dictionary INTEGER NOT NULL,
    size INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX block_session ON block (session, last);

-- The words of each message, and marks for its server, method, tool and user.
CREATE VIRTUAL TABLE word USING fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);

-- What was written together: which messages, of which times.
CREATE TABLE batch (
    id INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
    newest INTEGER NOT NULL
) STRICT;
CREATE INDEX batch_newest ON batch (newest);

-- What was reported, about a session or about no one.
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    session INTEGER REFERENCES session (id),
    time INTEGER NOT NULL,
    type TEXT NOT NULL,
    severity TEXT,
    title TEXT NOT NULL,
    json TEXT NOT NULL
) STRICT;
CREATE INDEX event_session ON event (session, time);

-- Exchanges by user (-1 if unknown), server, method, tool and day since the epoch. latency is a list of
-- buckets and counts in turn.
CREATE TABLE call (
    uid INTEGER NOT NULL,
    server TEXT NOT NULL,
    method TEXT NOT NULL,
    tool TEXT NOT NULL,
    day INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    responses INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    overdue INTEGER NOT NULL,
    late INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    duplicates INTEGER NOT NULL,
    orphans INTEGER NOT NULL,
    bytes_to_server INTEGER NOT NULL,
    bytes_to_client INTEGER NOT NULL,
    latency TEXT NOT NULL,
    PRIMARY KEY (uid, server, method, tool, day)
) STRICT, WITHOUT ROWID;

-- Requests with their answers.
CREATE VIEW exchange AS
SELECT request.session, request.sequence, request.time AS started, response.time AS ended, request.method,
    request.tool, request.rpc_id, request.direction, response.latency, response.flags & 1 AS is_error,
    request.id AS request, response.id AS response
FROM message AS response
JOIN message AS request ON request.session = response.session AND request.sequence = response.answers
    AND request.kind = 0 AND request.rpc_id IS response.rpc_id
WHERE response.kind = 1;
