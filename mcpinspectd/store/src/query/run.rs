//! One statement, from its text to the rows of its answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcpinspect_engine::answer::{Answer, Code, QueryError};
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode, Row};
use serde_json::Value;

use super::stores::STEPS;
use super::views::VIEWS;
use super::{DEADLINE, MAX_ROWS, table};

/// Most bytes of a statement.
const MAX_STATEMENT: usize = 64 << 10;

/// Most bytes of an answer: less than a bus carries.
const MAX_ANSWER: usize = 8 << 20;

/// Most bytes of a value: a recorded message has at most 16 MiB.
const MAX_VALUE: i32 = 17 << 20;

/// Bytes that SQLite may take.
const MAX_HEAP: i64 = 80 << 20;

/// The largest integer up to which JSON readers hold every integer exactly.
const MAX_EXACT: u64 = 1 << 53;

/// Functions that a statement may call: none can access files, the machine or chance.
const FUNCTIONS: &[&str] = &[
    "->",
    "->>",
    "abs",
    "avg",
    "ceil",
    "ceiling",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "count",
    "cume_dist",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "dense_rank",
    "exp",
    "first_value",
    "floor",
    "format",
    "glob",
    "group_concat",
    "hex",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_object",
    "json_quote",
    "json_type",
    "json_valid",
    "julianday",
    "lag",
    "last_value",
    "lead",
    "length",
    "like",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "max",
    "min",
    "mod",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "pow",
    "power",
    "printf",
    "quote",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "sqrt",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "sum",
    "time",
    "timediff",
    "total",
    "trim",
    "trunc",
    "typeof",
    "unhex",
    "unicode",
    "unixepoch",
    "upper",
];

/// Table-valued functions that a statement may read besides the views.
const TABLES: [&str; 2] = ["json_each", "json_tree"];

/// The first part of a statement that was refused.
#[derive(Clone, Debug, Default)]
struct Refused(Arc<Mutex<Option<QueryError>>>);

impl Refused {
    fn note(&self, error: QueryError) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
    }

    fn first(&self) -> Option<QueryError> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Runs a statement over the stores of this thread.
///
/// # Errors
/// See [`QueryError`].
pub(super) fn run(sql: &str, end: Instant) -> Result<Answer, QueryError> {
    if sql.len() > MAX_STATEMENT {
        return Err(QueryError::invalid(format!(
            "the statement is larger than {} KiB",
            MAX_STATEMENT >> 10
        )));
    }
    if sql.contains('\0') {
        return Err(QueryError::invalid(
            "the statement contains a NUL character",
        ));
    }
    let refused = Refused::default();
    let connection = bounded(end, refused.clone())
        .map_err(|error| QueryError::failed(format!("cannot open a connection: {error}")))?;
    let failed = |error: Error| match refused.first() {
        Some(refused) => refused,
        None => explained(&error, end),
    };
    let mut statement = connection
        .prepare(sql)
        .map_err(|error| match failed(error) {
            // Nothing was run yet.
            error if error.code == Code::QueryExecutionFailed && Instant::now() <= end => {
                QueryError::invalid(error.message)
            }
            error => error,
        })?;
    if statement.is_explain() != 0 {
        return Err(QueryError::invalid("EXPLAIN is not supported"));
    }
    if statement.column_count() == 0 {
        let is_nothing = statement.readonly() && refused.first().is_none() && is_blank(sql);
        return Err(match is_nothing {
            true => QueryError::invalid("the statement is empty"),
            false => QueryError::mutating(),
        });
    }
    if !statement.readonly() {
        return Err(QueryError::mutating());
    }
    let columns = distinct(statement.column_names());
    let width = columns.len();
    let mut answer = Answer {
        columns,
        ..Answer::default()
    };
    let mut bytes = 0;
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let is_last = answer.rows.len() == MAX_ROWS;
        let cells = cells(row, width).map_err(failed)?;
        bytes += cells.iter().map(size).sum::<usize>();
        if !is_last && bytes > MAX_ANSWER && answer.rows.is_empty() {
            return Err(QueryError::failed(format!(
                "a single row is larger than {} MiB; select fewer columns, or `substr(text, 1, 1000)`",
                MAX_ANSWER >> 20
            )));
        }
        if is_last || bytes > MAX_ANSWER {
            answer.truncated = true;
            break;
        }
        answer.rows.push(cells);
    }
    Ok(answer)
}

/// A connection without a file that reads only the views.
fn bounded(end: Instant, refused: Refused) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    connection.pragma_update(None, "hard_heap_limit", MAX_HEAP)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    table::register(&connection)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    // Text in double quotes is a name, and a misspelt name an error.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE),
        (Limit::SQLITE_LIMIT_COLUMN, 200),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
        (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 64),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    connection.pragma_update(None, "query_only", true)?;
    connection.progress_handler(STEPS, Some(move || Instant::now() > end))?;
    connection.authorizer(Some(move |asked: AuthContext<'_>| match judge(&asked) {
        Ok(()) => Authorization::Allow,
        Err(error) => {
            refused.note(error);
            Authorization::Deny
        }
    }))?;
    Ok(connection)
}

/// Whether a part of a statement is permitted: anything not known to be harmless is not.
fn judge(asked: &AuthContext<'_>) -> Result<(), QueryError> {
    match asked.action {
        AuthAction::Select | AuthAction::Recursive => Ok(()),
        AuthAction::Read { table_name, .. } => {
            let is_known = VIEWS.iter().any(|view| view.name == table_name)
                || TABLES.contains(&table_name)
                // A subquery or common table expression none of whose columns is read.
                || asked.database_name.is_none();
            match is_known {
                true => Ok(()),
                false => Err(QueryError::invalid(format!("no such table: {table_name}"))),
            }
        }
        AuthAction::Function { function_name } => {
            let name = function_name.to_ascii_lowercase();
            match FUNCTIONS.binary_search(&name.as_str()) {
                Ok(_) => Ok(()),
                Err(_) => Err(QueryError::invalid(format!(
                    "the function {name} is not available"
                ))),
            }
        }
        _ => Err(QueryError::mutating()),
    }
}

/// Whether text is nothing but blanks, semicolons and comments.
fn is_blank(sql: &str) -> bool {
    let mut rest = sql;
    loop {
        rest = rest
            .trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ';' || c == '\u{feff}');
        let end = if rest.starts_with("--") {
            rest.find('\n')
        } else if rest.starts_with("/*") {
            rest.get(2..)
                .and_then(|text| text.find("*/"))
                .map(|end| end + 3)
        } else {
            return rest.is_empty();
        };
        match end.and_then(|end| rest.get(end + 1..)) {
            Some(after) => rest = after,
            None => return true,
        }
    }
}

/// An SQLite error, explained to the caller.
fn explained(error: &Error, end: Instant) -> QueryError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => return late(),
        Some(ErrorCode::OutOfMemory) => {
            return QueryError::failed("the query needs too much memory; select less");
        }
        _ if Instant::now() > end => return late(),
        _ => {}
    }
    match error {
        Error::SqlInputError { msg, .. } | Error::SqliteFailure(_, Some(msg))
            if msg.contains(" may not be ") =>
        {
            QueryError::mutating()
        }
        Error::MultipleStatement => {
            QueryError::invalid("more than one statement; run one at a time")
        }
        Error::SqlInputError { msg, offset, .. } => match usize::try_from(*offset) {
            Ok(offset) => QueryError::invalid(format!("{msg} (at byte {offset})")),
            Err(_) => QueryError::invalid(msg),
        },
        Error::SqliteFailure(_, Some(msg)) => QueryError::failed(msg),
        other => QueryError::failed(other.to_string()),
    }
}

/// It took too long.
pub(super) fn late() -> QueryError {
    QueryError::failed(format!(
        "the query took longer than {DEADLINE} seconds; select less"
    ))
}

/// Names of columns, each once: a second `name` becomes `name:1`.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        let mut own = name.to_owned();
        let mut number = 0;
        while all.contains(&own) {
            number += 1;
            own = format!("{name}:{number}");
        }
        all.push(own);
    }
    all
}

fn cells(row: &Row<'_>, width: usize) -> rusqlite::Result<Vec<Value>> {
    (0..width)
        .map(|number| row.get_ref(number).map(cell))
        .collect()
}

/// A value in JSON.
fn cell(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) if number.unsigned_abs() > MAX_EXACT => {
            Value::from(number.to_string())
        }
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Real(number) => match serde_json::Number::from_f64(number) {
            Some(number) => Value::Number(number),
            // JSON has no number for this: it is infinity, the only such value in SQLite.
            None => Value::from(if number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            }),
        },
        ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Value::from(STANDARD.encode(bytes)),
    }
}

/// Roughly how many bytes a value takes in an answer.
fn size(cell: &Value) -> usize {
    match cell {
        Value::String(text) => text.len() + 4,
        _ => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_sorted() {
        assert!(FUNCTIONS.is_sorted());
    }

    #[test]
    fn values_lose_nothing_on_the_way_to_json() {
        let exact = 1_i64 << 53;
        for (value, json) in [
            (ValueRef::Integer(exact), Value::from(exact)),
            (ValueRef::Integer(-exact), Value::from(-exact)),
            (
                ValueRef::Integer(exact + 1),
                Value::from("9007199254740993"),
            ),
            (
                ValueRef::Integer(-exact - 1),
                Value::from("-9007199254740993"),
            ),
            (
                ValueRef::Integer(i64::MIN),
                Value::from("-9223372036854775808"),
            ),
            (ValueRef::Real(0.5), Value::from(0.5)),
            (ValueRef::Real(f64::INFINITY), Value::from("Infinity")),
            (ValueRef::Real(f64::NEG_INFINITY), Value::from("-Infinity")),
            (ValueRef::Text(b"caf\xc3\xa9"), Value::from("café")),
            (ValueRef::Text(b"\xff"), Value::from("\u{fffd}")),
            (ValueRef::Blob(&[0, 255]), Value::from("AP8=")),
            (ValueRef::Null, Value::Null),
        ] {
            assert_eq!(cell(value), json, "{value:?}");
        }
    }

    #[test]
    fn every_column_keeps_a_name() {
        assert_eq!(
            distinct(["a", "b", "a", "a:1", "a"].into_iter()),
            ["a", "b", "a:1", "a:1:1", "a:2"]
        );
    }

    #[test]
    fn blank_statements_are_recognised() {
        for blank in [
            "",
            " ;\n",
            "-- nothing",
            "/* no */ ; -- x\n",
            "/*/ */",
            "/* open",
        ] {
            assert!(is_blank(blank), "{blank}");
        }
        for other in ["VACUUM", "-- x\nVACUUM", "/* */ VACUUM", "/**/x"] {
            assert!(!is_blank(other), "{other}");
        }
    }
}
