//! Each table: its columns, and which parts of the stores they are made of.

use super::view::{Kind, NO_SHORTCUTS, Shortcuts, Source, View, column, integer, text, time};
use crate::messages::{correlation_word, direction_word, kind_word};

const SERVERS: View = View {
    name: "servers",
    about: "Servers of recorded sessions, by user and identity.",
    source: Source::Messages,
    from: "session",
    always: None,
    of_user: "session.uid = ?",
    group: Some("session.uid, session.server, session.fingerprint"),
    columns: &[
        text("server", "session.server", "its name").pushed(),
        text("fingerprint", "session.fingerprint", "of its identity").pushed(),
        integer("uid", "session.uid", "the user that it runs as").pushed(),
        integer("sessions", "count(*)", "recorded sessions"),
        integer(
            "open_sessions",
            "sum(session.ended IS NULL)",
            "of these, those that go on",
        ),
        integer("messages", "sum(session.messages)", "recorded messages"),
        integer("errors", "sum(session.errors)", "errors among them"),
        integer("bytes", "sum(session.bytes)", "their bytes on the wire"),
        time(
            "first_seen",
            "min(session.started)",
            "start of the first session",
        ),
        time("last_seen", "max(session.last)", "time of the last message"),
    ],
    rows: 100.0,
    shortcuts: NO_SHORTCUTS,
};

const SESSIONS: View = View {
    name: "sessions",
    about: "Recorded sessions: a client talking to a server.",
    source: Source::Messages,
    from: "session",
    always: None,
    of_user: "session.uid = ?",
    group: None,
    columns: &[
        text("session", "session.session_id", "its id").pushed(),
        text("server", "session.server", "the server's name").pushed(),
        text(
            "fingerprint",
            "session.fingerprint",
            "of the server's identity",
        )
        .pushed(),
        integer("uid", "session.uid", "the user that the server runs as").pushed(),
        text(
            "transport",
            "session.transport",
            "how the server is reached",
        ),
        text(
            "protocol_version",
            "session.protocol_version",
            "the revision of MCP",
        ),
        integer("server_pid", "session.server_pid", "the server's process").pushed(),
        text("server_exe", "session.server_exe", "its executable"),
        integer("client_pid", "session.client_pid", "the client's process").pushed(),
        text("client_exe", "session.client_exe", "its executable"),
        text(
            "server_info",
            "session.server_info",
            "what the server says of itself, JSON",
        ),
        text(
            "client_info",
            "session.client_info",
            "what the client says of itself, JSON",
        ),
        integer(
            "joined_midstream",
            "session.joined_midstream",
            "1 if it was under way when it was joined",
        ),
        integer("imported", "session.imported", "1 if it comes from a tape"),
        time("started", "session.started", "when it started").pushed(),
        time(
            "ended",
            "session.ended",
            "when it ended; null while it goes on",
        )
        .pushed(),
        text("end_reason", "session.end_reason", "why it ended"),
        time("last", "session.last", "time of its last message").pushed(),
        integer("messages", "session.messages", "recorded messages"),
        integer("errors", "session.errors", "errors among them"),
        integer(
            "in_flight",
            "session.in_flight",
            "requests without an answer",
        ),
        integer(
            "bytes",
            "session.bytes",
            "bytes of its messages on the wire",
        ),
    ],
    rows: 10_000.0,
    shortcuts: NO_SHORTCUTS,
};

const MESSAGES: View = View {
    name: "messages",
    about: "Recorded messages. `messages('words')` are those that contain all of these words.",
    source: Source::Messages,
    from: "message JOIN session ON session.id = message.session",
    always: None,
    of_user: "session.uid = ?",
    group: None,
    columns: &[
        text("session", "session.session_id", "its session").pushed(),
        text("server", "session.server", "the server's name").pushed(),
        integer("uid", "session.uid", "the user that the server runs as").pushed(),
        integer(
            "sequence",
            "message.sequence",
            "its number in the session, from 1; of a batch's member, its batch's",
        )
        .pushed(),
        integer(
            "is_member",
            "message.is_member",
            "1 for a member of a batch",
        ),
        time("time", "message.time", "when it went by").pushed(),
        column(
            "direction",
            Kind::Word(direction_word),
            "message.direction",
            "`client_to_server` or `server_to_client`",
        ),
        column(
            "kind",
            Kind::Word(kind_word),
            "message.kind",
            "`request`, `response`, `notification`, `batch` or `invalid`",
        ),
        text(
            "method",
            "message.method",
            "its method, or that of the request that it answers",
        )
        .pushed(),
        text(
            "tool",
            "message.tool",
            "the tool that is called, or whose call is answered",
        )
        .pushed(),
        text("id", "message.rpc_id", "its id, as JSON"),
        integer(
            "answers",
            "message.answers",
            "the sequence of the request that it answers",
        ),
        integer(
            "concerns",
            "message.concerns",
            "the sequence of the request that it cancels or reports progress of",
        ),
        integer(
            "call",
            "message.call",
            "the sequence of the first request of a call that takes several",
        ),
        column(
            "correlation",
            Kind::Word(correlation_word),
            "message.correlation",
            "how a response relates to its request: `answer`, `late`, `cancelled`, `duplicate`, `orphan` or `unknown`",
        ),
        integer(
            "latency_ns",
            "message.latency",
            "nanoseconds from the request to this response",
        ),
        integer(
            "is_error",
            "message.flags & 1",
            "1 for an error, the protocol's or a tool's",
        ),
        integer(
            "gap_before",
            "(message.flags >> 1) & 1",
            "1 if bytes were lost before it",
        ),
        integer(
            "is_masked",
            "(message.flags >> 2) & 1",
            "1 if secrets in it are masked",
        ),
        text("invalid_reason", "message.reason", "what is wrong with it"),
        integer("bytes", "message.size", "its bytes on the wire"),
        column(
            "text",
            Kind::Body,
            "message.block",
            "the message; null where it was not kept",
        ),
        column("words", Kind::Words, "NULL", ""),
    ],
    rows: 1_000_000.0,
    shortcuts: Shortcuts {
        key: Some("session"),
        by_words: Some(
            "word CROSS JOIN message ON message.id = word.rowid CROSS JOIN session ON session.id = message.session",
        ),
        by_time: Some([
            "(SELECT id AS sorted FROM message ORDER BY time",
            "LIMIT -1) CROSS JOIN message ON message.id = sorted CROSS JOIN session ON session.id = message.session",
        ]),
        since: Some(
            "message.id >= (SELECT coalesce(min(first), 9223372036854775807) FROM batch WHERE newest >= ?)",
        ),
    },
};

const EXCHANGES: View = View {
    name: "exchanges",
    about: "Requests with their responses. Requests without one are in `messages` only.",
    source: Source::Messages,
    from: "message AS response JOIN session ON session.id = response.session
           JOIN message AS request ON request.session = response.session AND request.sequence = response.answers
           AND request.kind = 0 AND request.rpc_id IS response.rpc_id",
    always: Some("response.kind = 1"),
    of_user: "session.uid = ?",
    group: None,
    columns: &[
        text("session", "session.session_id", "their session").pushed(),
        text("server", "session.server", "the server's name").pushed(),
        integer("uid", "session.uid", "the user that the server runs as").pushed(),
        text("method", "response.method", "the method").pushed(),
        text("tool", "response.tool", "the tool that is called").pushed(),
        text("id", "request.rpc_id", "the request's id, as JSON"),
        integer("request", "request.sequence", "the request's number in the session"),
        integer("response", "response.sequence", "the response's"),
        column("direction", Kind::Word(direction_word), "request.direction", "the request's way: `client_to_server` or `server_to_client`"),
        time("started", "request.time", "when the request went by"),
        time("ended", "response.time", "when the response did").pushed(),
        integer("latency_ns", "response.latency", "nanoseconds between them"),
        integer("is_error", "response.flags & 1", "1 for an error, the protocol's or a tool's"),
        column("correlation", Kind::Word(correlation_word), "response.correlation", "`answer`, `late`, `cancelled` or `duplicate`"),
        integer("request_bytes", "request.size", "bytes of the request on the wire"),
        integer("response_bytes", "response.size", "bytes of the response"),
    ],
    rows: 500_000.0,
    shortcuts: Shortcuts {
        key: Some("session"),
        by_words: None,
        by_time: None,
        since: None,
    },
};

const EVENTS: View = View {
    name: "events",
    about: "What was reported about sessions, findings included: those have a severity. Events about no session are root's and the group's.",
    source: Source::Messages,
    from: "event LEFT JOIN session ON session.id = event.session",
    always: None,
    of_user: "session.uid = ?",
    group: None,
    columns: &[
        time("time", "event.time", "when it happened").pushed(),
        text("type", "event.type", "its type, such as `mcp_detection`").pushed(),
        text(
            "severity",
            "event.severity",
            "`low`, `medium`, `high` or `critical`",
        )
        .pushed(),
        text("session", "session.session_id", "the session").pushed(),
        text("server", "session.server", "the server's name").pushed(),
        integer("uid", "session.uid", "the user that the server runs as").pushed(),
        text("title", "event.title", "what happened, in a line of names"),
        text("event", "event.json", "the event, JSON"),
    ],
    rows: 100_000.0,
    shortcuts: Shortcuts {
        key: Some("session"),
        by_words: None,
        by_time: Some([
            "(SELECT id AS sorted FROM event ORDER BY time",
            "LIMIT -1) CROSS JOIN event ON event.id = sorted LEFT JOIN session ON session.id = event.session",
        ]),
        since: None,
    },
};

const CALLS: View = View {
    name: "calls",
    about: "Exchanges counted by user, server, method, tool and day.",
    source: Source::Messages,
    from: "call",
    always: None,
    of_user: "call.uid = ?",
    group: None,
    columns: &[
        text("server", "call.server", "the server's name").pushed(),
        integer("uid", "nullif(call.uid, -1)", "the user that it runs as"),
        text(
            "method",
            "call.method",
            "the method; empty for messages without one",
        )
        .pushed(),
        text("tool", "call.tool", "the tool; empty for other requests").pushed(),
        text("day", "date(call.day * 86400, 'unixepoch')", "the day, UTC"),
        integer("requests", "call.requests", "requests"),
        integer(
            "responses",
            "call.responses",
            "responses that found their request",
        ),
        integer("errors", "call.errors", "errors among them"),
        integer(
            "overdue",
            "call.overdue",
            "requests that waited longer than `call_timeout`",
        ),
        integer("late", "call.late", "answers to those"),
        integer(
            "cancelled",
            "call.cancelled",
            "answers to cancelled requests",
        ),
        integer("duplicates", "call.duplicates", "second answers"),
        integer("orphans", "call.orphans", "answers to no request"),
        integer(
            "bytes_to_server",
            "call.bytes_to_server",
            "bytes from the client",
        ),
        integer(
            "bytes_to_client",
            "call.bytes_to_client",
            "bytes from the server",
        ),
        column(
            "p50_ns",
            Kind::Quantile(0.5),
            "call.latency",
            "nanoseconds within which half of the responses came",
        ),
        column("p90_ns", Kind::Quantile(0.9), "call.latency", "nine of ten"),
        column("p99_ns", Kind::Quantile(0.99), "call.latency", "99 of 100"),
    ],
    rows: 10_000.0,
    shortcuts: NO_SHORTCUTS,
};

const TOOLS: View = View {
    name: "tools",
    about: "What servers offer, and how it compares with its pin: tools, instructions, server information, programs.",
    source: Source::Registry,
    from: "item LEFT JOIN version ON version.item = item.id AND version.hash = item.current",
    always: Some("item.forgotten_at IS NULL"),
    of_user: "item.owner = ?",
    group: None,
    columns: &[
        text("server", "item.server", "the server's name").pushed(),
        integer("uid", "CASE WHEN item.owner >= 0 THEN item.owner END", "whose pin it is; null where users share it, or their user is not known"),
        text("kind", "item.kind", "`tool`, `instructions`, `server_info` or `program`").pushed(),
        text("tool", "item.name", "the tool's name; empty for other kinds").pushed(),
        text("status", "CASE WHEN item.removed_at IS NOT NULL THEN 'removed' WHEN item.pinned IS NULL THEN 'unpinned'
              WHEN item.pinned <> item.current AND 'approve' IS NOT (SELECT said.decision FROM decision AS said
                  WHERE said.item = item.id AND said.uid = -2 AND said.hash = item.current
                  ORDER BY said.id DESC LIMIT 1) THEN 'changed'
              ELSE 'unchanged' END", "`unchanged` (as pinned, or as a signed list approves), `changed`, `removed` or `unpinned`"),
        text("hash", "lower(hex(item.current))", "of the definition that was seen last"),
        text("pinned_hash", "nullif(lower(hex(item.pinned)), '')", "of the pinned definition"),
        time("pinned_at", "item.pinned_at", "when it was pinned"),
        integer("pinned_by", "item.pinned_by", "the user who pinned it; null for first use, -1 for a rule of the configuration"),
        time("first_seen", "(SELECT min(first_seen) FROM version AS v WHERE v.item = item.id)", "when it was first seen"),
        time("last_seen", "(SELECT max(last_seen) FROM version AS v WHERE v.item = item.id)", "when it was last seen"),
        time("removed_at", "item.removed_at", "when a complete listing lacked it"),
        text("definition", "version.definition", "the definition that was seen last, JSON"),
    ],
    rows: 5_000.0,
    shortcuts: NO_SHORTCUTS,
};

const DEFINITIONS: View = View {
    name: "definitions",
    about: "Every definition that was ever seen of what is in `tools`.",
    source: Source::Registry,
    from: "item JOIN version ON version.item = item.id",
    always: Some("item.forgotten_at IS NULL"),
    of_user: "item.owner = ?",
    group: None,
    columns: &[
        text("server", "item.server", "the server's name").pushed(),
        integer(
            "uid",
            "CASE WHEN item.owner >= 0 THEN item.owner END",
            "whose it is, as in `tools`",
        ),
        text("kind", "item.kind", "as in `tools`").pushed(),
        text("tool", "item.name", "the tool's name").pushed(),
        text("hash", "lower(hex(version.hash))", "its hash"),
        integer(
            "is_current",
            "version.hash = item.current",
            "1 for the one that was seen last",
        ),
        integer(
            "is_pinned",
            "ifnull(version.hash = item.pinned, 0)",
            "1 for the pinned one",
        ),
        time("first_seen", "version.first_seen", "when it was first seen"),
        text("first_session", "version.first_session", "in which session"),
        time("last_seen", "version.last_seen", "when it was last seen"),
        text("definition", "version.definition", "the definition, JSON"),
    ],
    rows: 20_000.0,
    shortcuts: NO_SHORTCUTS,
};

const DECISIONS: View = View {
    name: "decisions",
    about: "What people decided about definitions.",
    source: Source::Registry,
    from: "decision JOIN item ON item.id = decision.item",
    always: None,
    of_user: "item.owner = ?",
    group: None,
    columns: &[
        time("time", "decision.time", "when").pushed(),
        text(
            "decision",
            "decision.decision",
            "what, such as `approve`, `reject` or `revoke`",
        ),
        integer(
            "decided_by",
            "decision.uid",
            "the user who decided; -1 for a rule of the configuration, -2 for a signed list",
        ),
        text("server", "item.server", "the server's name").pushed(),
        integer(
            "uid",
            "CASE WHEN item.owner >= 0 THEN item.owner END",
            "whose pin it is, as in `tools`",
        ),
        text("kind", "item.kind", "as in `tools`").pushed(),
        text("tool", "item.name", "the tool's name").pushed(),
        text(
            "hash",
            "nullif(lower(hex(decision.hash)), '')",
            "of the definition",
        ),
        text("reason", "decision.reason", "why"),
    ],
    rows: 1_000.0,
    shortcuts: NO_SHORTCUTS,
};

/// All of them.
pub(in crate::query) const VIEWS: [&View; 9] = [
    &SERVERS,
    &SESSIONS,
    &MESSAGES,
    &EXCHANGES,
    &EVENTS,
    &CALLS,
    &TOOLS,
    &DEFINITIONS,
    &DECISIONS,
];
