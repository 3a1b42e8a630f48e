//! SQL over what was recorded: answers, and what hostile statements get.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use mcpinspect_engine::answer::{Answer, Code, Queries as _, QueryError};
use mcpinspect_engine::history::Viewer;
use mcpinspect_store::query::Worker;
use rusqlite::Connection;
use serde_json::{Value, json};

mod statements;

use crate::support::built;
use crate::support::recorded::{CALLS, OTHER, OTHERS, Recorded, USER};
use statements::ExpectedAnswer::{self, Anything, Failed, Invalid, Mutating, Own};
use statements::{BOMBS, PRYING, REACHING, oversized};

/// The longest that a query may take, its process included, on a busy machine.
const LONGEST: Duration = Duration::from_secs(8);

struct QueryFixture {
    recorded: Recorded,
    worker: Worker,
    /// As the daemon does, it keeps the log of writes where it is.
    _writer: Connection,
}

impl QueryFixture {
    fn new() -> Self {
        let recorded = Recorded::new();
        let program = built("mcpinspect");
        let writer = Connection::open(recorded.messages()).unwrap();
        let _: i64 = writer
            .query_row("SELECT count(*) FROM session", [], |row| row.get(0))
            .unwrap();
        Self {
            worker: Worker::of(
                program.as_ref(),
                &recorded.messages(),
                Some(&recorded.registry()),
            ),
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
    let fixture = QueryFixture::new();
    assert_eq!(
        fixture.one("SELECT count(*) FROM messages"),
        json!(2 * CALLS)
    );
    let answer = fixture
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
    let text = fixture.one(fifth);
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
        assert_eq!(fixture.one(same), text, "{same}");
    }
    let newest = fixture.rows("SELECT sequence, time FROM messages ORDER BY time DESC LIMIT 3");
    assert_eq!(newest[0][0], json!(2 * CALLS));
    assert!(newest[0][1].as_str() > newest[1][1].as_str(), "{newest:?}");
    let first = fixture.one("SELECT started FROM sessions");
    assert!(
        first.as_str().unwrap().starts_with("2026-11-23T00:00:00."),
        "{first}"
    );
    assert_eq!(
        fixture.rows(
            "SELECT status, hash = pinned_hash, json_extract(definition, '$.name') FROM tools"
        ),
        [[json!("changed"), json!(0), json!("read")]]
    );
    assert_eq!(fixture.one("SELECT count(*) FROM definitions"), json!(2));
    assert_eq!(
        fixture.one("SELECT sum(responses) FROM calls"),
        json!(CALLS)
    );
    assert_eq!(
        fixture.one("SELECT count(*) FROM messages WHERE time > '2027'"),
        json!(0)
    );
    // The planner may read a view once for each row of another.
    assert_eq!(
        fixture.one("SELECT count(*) FROM sessions JOIN messages USING (session) JOIN servers USING (server)"),
        json!(2 * CALLS)
    );
}

#[test]
fn five_hundred_rows_and_a_word_where_there_are_more() {
    let fixture = QueryFixture::new();
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
        let answer = fixture.ask(&numbers(last)).unwrap();
        assert_eq!(
            (answer.rows.len(), answer.truncated),
            (rows, truncated),
            "{last}"
        );
    }
    let large = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100)
        SELECT i, replace(printf('%01000d', 0), '0', '0123456789') || replace(printf('%0100000d', 0), '0', 'ab') FROM n";
    let answer = fixture.ask(large).unwrap();
    assert!(
        answer.truncated && (30..60).contains(&answer.rows.len()),
        "{}",
        answer.rows.len()
    );
}

#[test]
fn the_command_line_prints_rows() {
    let fixture = QueryFixture::new();
    let run = |arguments: &[&str]| -> Output {
        Command::new(built("mcpinspect"))
            .arg("query")
            .args(arguments)
            .arg("--store")
            .arg(fixture.recorded.messages())
            .arg("--registry")
            .arg(fixture.recorded.registry())
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
    let message = String::from_utf8(failed.stderr).unwrap();
    assert!(message.contains("MUTATING_QUERY_FORBIDDEN: "), "{message}");
    let views = String::from_utf8(run(&["--views"]).stdout).unwrap();
    assert!(views.contains("latency_ns"), "{views}");
}

fn gets(answer: &Result<Answer, QueryError>) -> ExpectedAnswer {
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
fn attempt(attempts: &[(String, ExpectedAnswer)]) {
    let fixture = QueryFixture::new();
    fixture.rows("SELECT * FROM sessions");
    let before = fixture.contents();
    let mut wrong = Vec::new();
    for (sql, expected) in attempts {
        let sql = sql
            .replace("{folder}", fixture.folder().to_str().unwrap())
            .replace("{messages}", fixture.recorded.messages().to_str().unwrap());
        let shown: String = sql.chars().take(120).collect();
        let begun = Instant::now();
        let answer = fixture.ask(&sql);
        let took = begun.elapsed();
        if took > LONGEST {
            wrong.push(format!("{shown}: took {took:?}"));
        }
        let got = gets(&answer);
        if *expected != Anything && got != *expected {
            let message: String = format!("{answer:?}").chars().take(300).collect();
            wrong.push(format!(
                "{shown}: {got:?} instead of {expected:?}: {message}"
            ));
        }
        // An error repeats names of the statement; an answer must not have what the statement lacks.
        let message = match &answer {
            Ok(answer) => serde_json::to_string(&answer.to_public()).unwrap(),
            Err(error) => error.to_string(),
        };
        if message.contains(OTHERS) && !sql.contains(OTHERS) {
            wrong.push(format!("{shown}: tells of another user"));
        }
        if fixture.contents() != before {
            wrong.push(format!("{shown}: the folder is not what it was"));
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!Path::new("/tmp/mcpinspect-query-evil.db").exists());
}

fn owned(attempts: &[(&str, ExpectedAnswer)]) -> Vec<(String, ExpectedAnswer)> {
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
    let fixture = QueryFixture::new();
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
        assert_eq!(fixture.one(sql), count, "{sql}");
    }
    let all = fixture
        .worker
        .query("SELECT count(*) FROM messages", Viewer::All)
        .unwrap();
    assert_eq!(all.rows, [[json!(6 * CALLS)]]);
    let stranger = fixture
        .worker
        .query("SELECT count(*) FROM messages", Viewer::User(4242))
        .unwrap();
    assert_eq!(stranger.rows, [[json!(0)]]);
}

#[test]
fn what_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let program = built("mcpinspect");
    let worker = Worker::of(program.as_ref(), &folder.path().join("messages.db"), None);
    for (sql, message) in [
        ("SELECT * FROM messages", "nothing was recorded"),
        ("SELECT * FROM tools", "no tool registry found"),
    ] {
        let error = worker.query(sql, Viewer::All).unwrap_err();
        assert_eq!(error.code, Code::QueryExecutionFailed);
        assert!(error.message.contains(message), "{error}");
    }
    assert_eq!(
        worker.query("SELECT 1", Viewer::All).unwrap().rows,
        [[json!(1)]]
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
