//! SQL over what was recorded: answers, and what hostile statements get.
#![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use mcpinspectd::query::{Answer, Code, Queries as _, QueryError, Worker};
use mcpinspectd::recall::Viewer;
use rusqlite::Connection;
use serde_json::{Value, json};

#[path = "support/recorded.rs"]
mod recorded;

use recorded::{CALLS, OTHER, OTHERS, Recorded, USER};

/// The longest that a query may take, its process included, on a busy machine.
const LONGEST: Duration = Duration::from_secs(8);

struct Place {
    recorded: Recorded,
    worker: Worker,
    /// As the daemon does, it keeps the log of writes where it is.
    _writer: Connection,
}

impl Place {
    fn new() -> Self {
        let recorded = Recorded::new();
        let program = Path::new(env!("CARGO_BIN_EXE_mcpinspect"));
        let writer = Connection::open(recorded.messages()).unwrap();
        let _: i64 = writer
            .query_row("SELECT count(*) FROM session", [], |row| row.get(0))
            .unwrap();
        Self {
            worker: Worker::of(program, &recorded.messages(), Some(&recorded.registry())),
            recorded,
            _writer: writer,
        }
    }

    fn ask(&self, sql: &str) -> Result<Answer, QueryError> {
        self.worker.query(sql, Viewer::User(USER))
    }

    fn rows(&self, sql: &str) -> Vec<Vec<Value>> {
        self.ask(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
            .rows
    }

    fn one(&self, sql: &str) -> Value {
        self.rows(sql)[0][0].clone()
    }

    /// The folder of the databases.
    fn folder(&self) -> PathBuf {
        let messages = self.recorded.messages();
        messages.parent().unwrap().to_owned()
    }

    /// What is in the folder: the files' names and contents, but for the part that readers share.
    fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(self.folder()).unwrap();
        files
            .map(|file| {
                let file = file.unwrap();
                let name = file.file_name().into_string().unwrap();
                let bytes = match name.ends_with("-shm") {
                    true => Vec::new(),
                    false => fs::read(file.path()).unwrap(),
                };
                (name, bytes)
            })
            .collect()
    }
}

#[test]
fn answers_say_what_happened() {
    let place = Place::new();
    assert_eq!(place.one("SELECT count(*) FROM messages"), json!(2 * CALLS));
    let answer = place
        .ask("SELECT method, tool, count(*) AS calls FROM exchanges GROUP BY method, tool ORDER BY tool")
        .unwrap();
    assert_eq!(answer.columns, ["method", "tool", "calls"]);
    let half = CALLS / 2;
    assert_eq!(
        answer.rows,
        [
            [json!("tools/call"), json!("harmless-tool-0"), json!(half)],
            [json!("tools/call"), json!("harmless-tool-1"), json!(half)],
        ]
    );
    // By words, by name, by session, by time: each finds the same.
    let fifth = "SELECT text FROM messages WHERE kind = 'request' AND text LIKE '%invoice 5\"%'";
    let text = place.one(fifth);
    assert!(
        text.as_str().unwrap().contains("harmless invoice 5"),
        "{text}"
    );
    for same in [
        "SELECT text FROM messages('invoice 5') WHERE kind = 'request' AND text LIKE '%invoice 5\"%'",
        "SELECT text FROM messages WHERE session = 's-own' AND id = '5' AND kind = 'request'",
        "SELECT text FROM messages WHERE tool = 'harmless-tool-1' AND id = '5' AND kind = 'request'",
        "SELECT text FROM messages WHERE server = 'files' AND sequence = 9",
        "SELECT m.text FROM messages AS m JOIN exchanges AS e ON e.session = m.session AND e.request = m.sequence WHERE e.is_error",
        "SELECT text FROM (SELECT * FROM messages ORDER BY time DESC) WHERE sequence = 9",
        "SELECT text FROM messages WHERE time >= '2026-11-23' AND time < '2026-11-24T00:00:00Z' AND sequence = 9",
        "WITH m AS (SELECT * FROM messages WHERE method = 'tools/call') SELECT text FROM m WHERE sequence = 9",
        "SELECT text FROM messages WHERE server = 'FILES' COLLATE NOCASE AND sequence = '9'",
        "SELECT text FROM messages WHERE sequence IN (9, 1000)",
    ] {
        assert_eq!(place.one(same), text, "{same}");
    }
    let newest = place.rows("SELECT sequence, time FROM messages ORDER BY time DESC LIMIT 3");
    assert_eq!(newest[0][0], json!(2 * CALLS));
    assert!(newest[0][1].as_str() > newest[1][1].as_str(), "{newest:?}");
    let first = place.one("SELECT started FROM sessions");
    assert!(
        first.as_str().unwrap().starts_with("2026-11-23T00:00:00."),
        "{first}"
    );
    assert_eq!(
        place.rows(
            "SELECT status, hash = pinned_hash, json_extract(definition, '$.name') FROM tools"
        ),
        [[json!("changed"), json!(0), json!("read")]]
    );
    assert_eq!(place.one("SELECT count(*) FROM definitions"), json!(2));
    assert_eq!(place.one("SELECT sum(responses) FROM calls"), json!(CALLS));
    assert_eq!(
        place.one("SELECT count(*) FROM messages WHERE time > '2027'"),
        json!(0)
    );
    // The planner may read a view once for each row of another.
    assert_eq!(
        place.one("SELECT count(*) FROM sessions JOIN messages USING (session) JOIN servers USING (server)"),
        json!(2 * CALLS)
    );
}

#[test]
fn five_hundred_rows_and_a_word_where_there_are_more() {
    let place = Place::new();
    let numbers = |last: u32| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {last}) SELECT i FROM n"
        )
    };
    for (last, rows, truncated) in [
        (499, 499, false),
        (500, 500, false),
        (501, 500, true),
        (100_000, 500, true),
    ] {
        let answer = place.ask(&numbers(last)).unwrap();
        assert_eq!(
            (answer.rows.len(), answer.truncated),
            (rows, truncated),
            "{last}"
        );
    }
    let large = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100)
        SELECT i, replace(printf('%01000d', 0), '0', '0123456789') || replace(printf('%0100000d', 0), '0', 'ab') FROM n";
    let answer = place.ask(large).unwrap();
    assert!(
        answer.truncated && (30..60).contains(&answer.rows.len()),
        "{}",
        answer.rows.len()
    );
}

#[test]
fn the_command_line_prints_rows() {
    let place = Place::new();
    let run = |arguments: &[&str]| -> Output {
        Command::new(env!("CARGO_BIN_EXE_mcpinspect"))
            .arg("query")
            .args(arguments)
            .arg("--store")
            .arg(place.recorded.messages())
            .arg("--registry")
            .arg(place.recorded.registry())
            .output()
            .unwrap()
    };
    let sql = "SELECT server, uid, messages FROM servers ORDER BY server";
    let json: Value = serde_json::from_slice(&run(&["--json", sql]).stdout).unwrap();
    assert_eq!(
        json,
        json!({"rows": [
            {"server": "files", "uid": USER, "messages": 2 * CALLS},
            {"server": "zebrafish-server", "uid": OTHER, "messages": 4 * CALLS},
        ], "rowCount": 2, "truncated": false})
    );
    let table = String::from_utf8(run(&[sql]).stdout).unwrap();
    assert!(
        table.starts_with("server") && table.contains("files"),
        "{table}"
    );
    assert!(table.ends_with("2 rows\n"), "{table}");
    let failed = run(&["DELETE FROM sessions"]);
    assert_eq!(failed.status.code(), Some(2));
    let told = String::from_utf8(failed.stderr).unwrap();
    assert!(told.contains("MUTATING_QUERY_FORBIDDEN: "), "{told}");
    let views = String::from_utf8(run(&["--views"]).stdout).unwrap();
    assert!(views.contains("latency_ns"), "{views}");
}

/// What a hostile statement gets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gets {
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

use Gets::{Anything, Failed, Invalid, Mutating, Own};

/// Statements that write, reach files, or look at the machine.
const REACHING: &[(&str, Gets)] = &[
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
const PRYING: &[(&str, Gets)] = &[
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
const BOMBS: &[(&str, Gets)] = &[
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
fn oversized() -> Vec<(String, Gets)> {
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

fn gets(answer: &Result<Answer, QueryError>) -> Gets {
    match answer {
        Ok(_) => Own,
        Err(error) => match error.code {
            Code::MutatingQueryForbidden => Mutating,
            Code::InvalidQuery => Invalid,
            Code::QueryExecutionFailed => Failed,
        },
    }
}

/// Runs each of them as one user, and looks at what came of it.
fn attempt(attempts: &[(String, Gets)]) {
    let place = Place::new();
    place.rows("SELECT * FROM sessions");
    let before = place.contents();
    let mut wrong = Vec::new();
    for (sql, expected) in attempts {
        let sql = sql
            .replace("{folder}", place.folder().to_str().unwrap())
            .replace("{messages}", place.recorded.messages().to_str().unwrap());
        let shown: String = sql.chars().take(120).collect();
        let begun = Instant::now();
        let answer = place.ask(&sql);
        let took = begun.elapsed();
        if took > LONGEST {
            wrong.push(format!("{shown}: took {took:?}"));
        }
        let got = gets(&answer);
        if *expected != Anything && got != *expected {
            let told: String = format!("{answer:?}").chars().take(300).collect();
            wrong.push(format!("{shown}: {got:?} instead of {expected:?}: {told}"));
        }
        // An error repeats names of the statement; an answer must not have what the statement lacks.
        let told = match &answer {
            Ok(answer) => serde_json::to_string(&answer.to_public()).unwrap(),
            Err(error) => error.to_string(),
        };
        if told.contains(OTHERS) && !sql.contains(OTHERS) {
            wrong.push(format!("{shown}: tells of another user"));
        }
        if place.contents() != before {
            wrong.push(format!("{shown}: the folder is not what it was"));
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!Path::new("/tmp/mcpinspect-query-evil.db").exists());
}

fn owned(attempts: &[(&str, Gets)]) -> Vec<(String, Gets)> {
    let pairs = attempts.iter();
    pairs
        .map(|(sql, gets)| ((*sql).to_owned(), *gets))
        .collect()
}

/// Whatever is taken out or written anew, there are many, and none is there twice.
#[test]
fn the_attempts_are_many_and_different() {
    let mut attempts = [owned(REACHING), owned(PRYING), owned(BOMBS), oversized()].concat();
    let all = attempts.len();
    attempts.sort_by(|(one, _), (other, _)| one.cmp(other));
    attempts.dedup_by(|(one, _), (other, _)| one == other);
    assert_eq!(attempts.len(), all);
    assert!(all >= 140, "{all}");
}

#[test]
fn no_statement_writes_or_reaches_a_file() {
    attempt(&owned(REACHING));
}

#[test]
fn no_statement_reads_what_is_anothers() {
    attempt(&owned(PRYING));
}

#[test]
fn no_statement_outlives_its_deadline() {
    attempt(&owned(BOMBS));
    attempt(&oversized());
}

/// What cannot be read cannot be counted either.
#[test]
fn nothing_of_another_user_is_countable() {
    let place = Place::new();
    for (sql, count) in [
        ("SELECT count(*) FROM servers", json!(1)),
        ("SELECT count(*) FROM sessions", json!(1)),
        ("SELECT count(*) FROM messages", json!(2 * CALLS)),
        ("SELECT count(*) FROM messages('invoice')", json!(CALLS)),
        ("SELECT count(*) FROM messages('zebrafish')", json!(0)),
        (
            "SELECT count(*) FROM messages WHERE method = 'tools/call'",
            json!(2 * CALLS),
        ),
        ("SELECT max(rowid) FROM messages", json!(2 * CALLS)),
        ("SELECT count(*) FROM exchanges", json!(CALLS)),
        (
            "SELECT count(*) FROM events WHERE uid IS NOT 1001",
            json!(0),
        ),
        ("SELECT sum(requests) FROM calls", json!(CALLS)),
        ("SELECT count(*) FROM tools", json!(1)),
        ("SELECT count(*) FROM definitions", json!(2)),
        (
            "SELECT count(*) FROM decisions WHERE uid IS NOT 1001",
            json!(0),
        ),
    ] {
        assert_eq!(place.one(sql), count, "{sql}");
    }
    let all = place
        .worker
        .query("SELECT count(*) FROM messages", Viewer::All)
        .unwrap();
    assert_eq!(all.rows, [[json!(6 * CALLS)]]);
    let stranger = place
        .worker
        .query("SELECT count(*) FROM messages", Viewer::User(4242))
        .unwrap();
    assert_eq!(stranger.rows, [[json!(0)]]);
}

#[test]
fn what_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_mcpinspect"));
    let worker = Worker::of(program, &folder.path().join("messages.db"), None);
    for (sql, told) in [
        ("SELECT * FROM messages", "nothing was recorded"),
        ("SELECT * FROM tools", "there is no tool registry"),
    ] {
        let error = worker.query(sql, Viewer::All).unwrap_err();
        assert_eq!(error.code, Code::QueryExecutionFailed);
        assert!(error.message.contains(told), "{error}");
    }
    assert_eq!(
        worker.query("SELECT 1", Viewer::All).unwrap().rows,
        [[json!(1)]]
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
