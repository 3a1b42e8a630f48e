//! What a hostile user would ask, and what they get.

/// What a hostile statement gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExpectedAnswer {
    /// It is refused because it would write.
    Mutating,
    /// It is refused because it cannot be run.
    Invalid,
    /// It is run, and given up.
    Failed,
    /// An answer, which is the asker's own.
    Own,
    /// An answer or any error.
    Anything,
}

use ExpectedAnswer::{Anything, Failed, Invalid, Mutating, Own};

/// Statements that write, reach files, or look at the machine.
pub const REACHING: &[(&str, ExpectedAnswer)] = &[
    ("ATTACH '/tmp/mcpinspect-query-evil.db' AS evil", Mutating),
    ("ATTACH ':memory:' AS evil", Mutating),
    ("ATTACH 'file:{messages}?mode=rw' AS evil", Mutating),
    ("DETACH main", Mutating),
    ("VACUUM", Mutating),
    ("VACUUM INTO '{folder}/evil.db'", Mutating),
    ("/* SELECT */ VACUUM main INTO '{folder}/evil.db'", Mutating),
    ("-- SELECT\nVACUUM INTO '{folder}/evil.db'", Mutating),
    ("PRAGMA query_only = 0", Mutating),
    ("PRAGMA writable_schema = 1", Mutating),
    ("PRAGMA database_list", Mutating),
    ("PRAGMA temp_store_directory = '/tmp'", Mutating),
    ("PRAGMA hard_heap_limit = 0", Mutating),
    ("PRAGMA journal_mode = DELETE", Mutating),
    ("pragma  main . table_info ( messages )", Mutating),
    ("DELETE FROM messages", Mutating),
    ("DELETE FROM session", Invalid),
    ("UPDATE sessions SET server = 'x'", Mutating),
    ("INSERT INTO sessions (session) VALUES ('x')", Mutating),
    ("REPLACE INTO tools (server) VALUES ('x')", Mutating),
    ("WITH x AS (SELECT 1) DELETE FROM messages", Mutating),
    (
        "WITH x AS (SELECT 1) INSERT INTO events SELECT * FROM events",
        Mutating,
    ),
    (
        "WITH x AS (SELECT 1) UPDATE tools SET server = 'x'",
        Mutating,
    ),
    ("DELETE FROM messages RETURNING *", Mutating),
    (
        "INSERT INTO sessions (session) VALUES ('x') RETURNING session",
        Mutating,
    ),
    (
        "INSERT INTO sessions DEFAULT VALUES ON CONFLICT DO NOTHING",
        Mutating,
    ),
    ("CREATE TABLE evil (a)", Mutating),
    ("CREATE TABLE evil AS SELECT * FROM messages", Mutating),
    ("CREATE TEMP TABLE evil AS SELECT * FROM messages", Mutating),
    ("CREATE TEMP VIEW evil AS SELECT 1", Mutating),
    ("CREATE VIEW evil AS SELECT 1", Mutating),
    ("CREATE INDEX evil ON messages (text)", Mutating),
    (
        "CREATE TRIGGER evil BEFORE INSERT ON messages BEGIN SELECT 1; END",
        Anything,
    ),
    (
        "CREATE TEMP TRIGGER evil INSTEAD OF DELETE ON sessions BEGIN SELECT 1; END",
        Anything,
    ),
    ("CREATE VIRTUAL TABLE evil USING fts5(a)", Mutating),
    ("CREATE VIRTUAL TABLE evil USING messages", Anything),
    ("DROP TABLE messages", Mutating),
    ("DROP VIEW messages", Anything),
    ("ALTER TABLE messages RENAME TO evil", Mutating),
    ("ALTER TABLE sessions ADD COLUMN evil", Mutating),
    ("REINDEX", Mutating),
    ("ANALYZE", Mutating),
    ("BEGIN IMMEDIATE", Mutating),
    ("COMMIT", Mutating),
    ("SAVEPOINT evil", Mutating),
    ("EXPLAIN SELECT * FROM messages", Invalid),
    ("EXPLAIN QUERY PLAN SELECT * FROM messages", Invalid),
    ("EXPLAIN DELETE FROM messages", Anything),
    ("SELECT 1; DROP TABLE messages", Mutating),
    ("SELECT 1; SELECT 2", Invalid),
    ("SELECT 1 /* ; */ ; -- x\n DELETE FROM messages", Mutating),
    (";;; DELETE FROM messages", Mutating),
    ("", Invalid),
    (" ; ", Invalid),
    ("-- nothing", Invalid),
    ("/* open", Invalid),
    ("SELECT 1 \0 ; DELETE FROM messages", Invalid),
    ("SELECT load_extension('/tmp/evil.so')", Invalid),
    ("SELECT readfile('/etc/shadow')", Invalid),
    ("SELECT writefile('{folder}/evil', 'x')", Invalid),
    ("SELECT edit('x', 'sh')", Invalid),
    (
        "SELECT fts3_tokenizer('simple', x'4141414141414141')",
        Invalid,
    ),
    ("SELECT * FROM fsdir('/')", Invalid),
    ("SELECT * FROM zipfile('{folder}/evil.zip')", Invalid),
    ("SELECT * FROM csv('/etc/passwd')", Invalid),
    ("SELECT randomblob(8)", Invalid),
    ("SELECT sqlite_compileoption_get(1)", Invalid),
    ("SELECT sqlite_source_id()", Invalid),
    ("SELECT last_insert_rowid()", Invalid),
    ("SELECT ?1, :a, @b, $c", Invalid),
];

/// Statements that look for what is not the asker's.
pub const PRYING: &[(&str, ExpectedAnswer)] = &[
    ("SELECT * FROM sqlite_master", Invalid),
    ("SELECT * FROM sqlite_schema", Invalid),
    ("SELECT sql FROM main.sqlite_schema", Invalid),
    ("SELECT * FROM sqlite_temp_master", Invalid),
    ("SELECT * FROM pragma_database_list", Invalid),
    ("SELECT * FROM pragma_table_list()", Invalid),
    ("SELECT * FROM pragma_function_list", Invalid),
    ("SELECT * FROM pragma_module_list", Invalid),
    ("SELECT * FROM dbstat", Invalid),
    ("SELECT * FROM sqlite_dbpage", Invalid),
    ("SELECT * FROM sqlite_stmt", Invalid),
    ("SELECT * FROM bytecode('SELECT 1')", Invalid),
    ("SELECT * FROM session", Invalid),
    ("SELECT * FROM message", Invalid),
    ("SELECT * FROM main.message", Invalid),
    ("SELECT count(*) FROM message", Invalid),
    ("SELECT data FROM block", Invalid),
    ("SELECT * FROM word WHERE word MATCH 'zebrafish'", Invalid),
    ("SELECT * FROM word_data", Invalid),
    ("SELECT * FROM word_docsize", Invalid),
    ("SELECT * FROM batch", Invalid),
    ("SELECT * FROM call", Invalid),
    ("SELECT * FROM item", Invalid),
    ("SELECT * FROM registry.item", Invalid),
    ("SELECT * FROM temp.messages", Own),
    (
        "WITH messages AS (SELECT * FROM message) SELECT * FROM messages",
        Invalid,
    ),
    (
        "WITH sessions AS (SELECT * FROM session) SELECT * FROM sessions",
        Invalid,
    ),
    (
        "WITH message AS (SELECT * FROM messages) SELECT * FROM message",
        Own,
    ),
    ("SELECT * FROM servers", Own),
    ("SELECT * FROM sessions", Own),
    ("SELECT * FROM messages", Own),
    ("SELECT * FROM exchanges", Own),
    ("SELECT * FROM events", Own),
    ("SELECT * FROM calls", Own),
    ("SELECT * FROM tools", Own),
    ("SELECT * FROM definitions", Own),
    ("SELECT * FROM decisions", Own),
    ("SELECT * FROM sessions AS message", Own),
    (
        "SELECT rowid, oid, _rowid_, * FROM messages ORDER BY rowid DESC",
        Own,
    ),
    ("SELECT * FROM messages WHERE uid = 1002", Own),
    ("SELECT * FROM messages WHERE uid = 1002 OR 1 = 1", Own),
    (
        "SELECT * FROM messages WHERE uid IS NOT 1001 OR uid IN (0, 1002)",
        Own,
    ),
    ("SELECT * FROM messages WHERE session LIKE 's-zebra%'", Own),
    (
        "SELECT * FROM messages WHERE session = 's-zebra' || 'fish-1'",
        Own,
    ),
    ("SELECT * FROM messages('zebra' || 'fish')", Own),
    ("SELECT * FROM messages('\" OR zebrafish* OR \"')", Own),
    ("SELECT * FROM messages('\u{e000}u1002')", Anything),
    ("SELECT * FROM messages('\u{e000}u1002 tools')", Own),
    ("SELECT * FROM messages(1002)", Failed),
    (
        "SELECT * FROM messages WHERE words = 'invoice' OR uid = 1002",
        Anything,
    ),
    (
        "SELECT * FROM messages WHERE server = 'zebra' || 'fish-server'",
        Own,
    ),
    ("SELECT * FROM messages WHERE server = '\" OR 1=1 --'", Own),
    (
        "SELECT * FROM messages WHERE time > '2026-11-23' ORDER BY time DESC",
        Own,
    ),
    (
        "SELECT * FROM sessions LEFT JOIN messages USING (session) LEFT JOIN events USING (session)",
        Own,
    ),
    ("SELECT * FROM sessions FULL JOIN messages ON 1 = 1", Own),
    (
        "SELECT * FROM tools WHERE uid = 1002 UNION ALL SELECT * FROM tools",
        Own,
    ),
    (
        "SELECT (SELECT group_concat(text) FROM messages AS b WHERE b.session <> a.session) FROM messages AS a",
        Own,
    ),
    ("SELECT json_group_array(text) FROM messages", Own),
    (
        "SELECT name FROM json_each('{\"a\":1}'), pragma_table_info('messages')",
        Invalid,
    ),
];

/// Statements that want more time or memory than there is.
pub const BOMBS: &[(&str, ExpectedAnswer)] = &[
    (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        Failed,
    ),
    (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n) SELECT max(i) FROM n",
        Failed,
    ),
    (
        "WITH RECURSIVE n(i) AS (SELECT 'x' UNION ALL SELECT i || i FROM n) SELECT length(i) FROM n",
        Failed,
    ),
    (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n ORDER BY i DESC",
        Failed,
    ),
    (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n), m AS MATERIALIZED (SELECT i, hex(i) AS h FROM n) SELECT count(DISTINCT h) FROM m",
        Failed,
    ),
    (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000) SELECT group_concat(printf('%0100d', i)) FROM n",
        Failed,
    ),
    (
        "SELECT count(*) FROM messages a, messages b, messages c, messages d, messages e, messages f",
        Failed,
    ),
    ("SELECT zeroblob(1000000000)", Invalid),
    ("SELECT hex(zeroblob(16000000))", Invalid),
    ("SELECT printf('%.*c', 1000000000, 'x')", Failed),
    ("SELECT printf('%1000000000d', 1)", Failed),
    (
        "SELECT length(replace(printf('%01000000d', 0), '0', printf('%01000000d', 0)))",
        Failed,
    ),
    (
        "SELECT replace(replace(replace(hex(printf('%08000000d', 0)), '3', 'xx'), 'x', 'yy'), 'y', 'zzzz')",
        Failed,
    ),
    (
        "SELECT printf('%08000000d', 0) LIKE '%' || replace(printf('%0300d', 0), '0', '0_%') || '1'",
        Anything,
    ),
    (
        "SELECT printf('%015000000d', 0) GLOB '*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*1'",
        Anything,
    ),
    (
        "SELECT instr(printf('%016000000d', 0), printf('%08000000d', 0) || '1')",
        Failed,
    ),
    (
        "SELECT count(*) FROM json_each('[' || printf('%01000000d', 0) || ']') a, json_each('[1,2,3,4,5,6,7,8,9,0]') b, json_each('[1,2,3,4,5,6,7,8,9,0]') c",
        Anything,
    ),
    (
        "SELECT count(*) FROM json_tree(replace(printf('%0100000d', 0), '0', '['))",
        Failed,
    ),
    (
        "SELECT json_group_array(a.text) OVER (ORDER BY a.time ROWS UNBOUNDED PRECEDING) FROM messages AS a, messages AS b",
        Anything,
    ),
    ("SELECT abs(-9223372036854775808)", Failed),
];

/// Statements that are too large by themselves.
pub fn oversized() -> Vec<(String, ExpectedAnswer)> {
    vec![
        (format!("SELECT '{}'", "x".repeat(100_000)), Invalid),
        (format!("SELECT '{}'", "x".repeat(2_000_000)), Invalid),
        (format!("SELECT x'{}'", "00".repeat(50_000)), Invalid),
        (
            format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
            Invalid,
        ),
        (format!("SELECT {}1", "-".repeat(2)), Anything),
        (format!("SELECT {}1", "+ ".repeat(20_000)), Invalid),
        (
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(2_000)),
            Invalid,
        ),
        (format!("SELECT {}1", "1,".repeat(5_000)), Invalid),
        (format!("SELECT coalesce({}1)", "1,".repeat(2_000)), Invalid),
        (
            format!("SELECT 1 WHERE 1{}", " OR 1".repeat(10_000)),
            Invalid,
        ),
        (
            format!(
                "SELECT * FROM messages{}",
                " NATURAL JOIN messages".repeat(70)
            ),
            Invalid,
        ),
        (
            format!(
                "WITH a0 AS (SELECT 1 AS x){} SELECT count(*) FROM a30",
                (1..=30)
                    .map(|n| format!(", a{n} AS (SELECT p.x FROM a{0} p, a{0} q)", n - 1))
                    .collect::<String>()
            ),
            Anything,
        ),
    ]
}
