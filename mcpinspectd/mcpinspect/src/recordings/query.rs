//! `mcpinspect query`: a question in SQL.

use std::io::{self, Read as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use mcpinspect_bus::client;
use mcpinspect_bus::client::ClientError;
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::answer::{Answer, Queries as _, QueryError};
use mcpinspect_engine::event::json::terminal_safe;
use mcpinspect_engine::history::Viewer;
use mcpinspect_store::query;
use mcpinspect_store::query::{ViewHelp, Worker};
use serde_json::Value;

use super::StoreLocation;

/// Most characters of a value in the table.
const CELL: usize = 80;

/// Bytes of a statement read from standard input.
const MAX_INPUT: u64 = 1 << 20;

/// Query recorded sessions, messages, calls, findings and tools with SQL
///
/// Runs one SELECT statement of SQLite over the views servers, sessions, messages, exchanges,
/// events, calls, tools, definitions and decisions; the manual lists their columns. Returns at most
/// 500 rows, within at most five seconds. Root can read everything, other users only data about
/// servers that run as themselves.
#[derive(clap::Args)]
pub struct Query {
    /// The statement; `-` reads it from standard input.
    #[arg(required_unless_present = "views")]
    sql: Option<String>,
    /// List the views and their columns.
    #[arg(long, conflicts_with_all = ["sql", "json"])]
    views: bool,
    /// Print one JSON object: rows, rowCount and truncated.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: QuerySource,
}

/// Where queries are answered.
#[derive(clap::Args)]
pub struct QuerySource {
    #[command(flatten)]
    pub store: StoreLocation,
    /// Read this tool registry. Default: the one named in the configuration; with --store, none.
    #[arg(long, value_name = "PATH")]
    pub registry: Option<PathBuf>,
}

impl QuerySource {
    /// The answer to a statement: from the files, or from the daemon if they cannot be read.
    pub fn ask(&self, sql: &str) -> Result<Answer, QueryError> {
        let failed = |error: anyhow::Error| QueryError::failed(format!("{error:#}"));
        let Some(messages) = self.store.file().map_err(failed)? else {
            return super::super::daemon::on_bus(async {
                let manager = client::connect().await?;
                let text = client::answer(manager.query(sql)).await?;
                serde_json::from_str(&text).context("invalid answer")
            })
            .map_err(|error| match error.downcast_ref() {
                Some(ClientError::Refused(text)) => QueryError::from_text(text),
                _ => failed(error),
            });
        };
        let registry = match (&self.registry, &self.store.store) {
            (Some(registry), _) => Some(registry.clone()),
            (None, Some(_)) => None,
            (None, None) => Some(self.store.settings().map_err(failed)?.registry.path),
        };
        Worker::new(&messages, registry.as_deref()).query(sql, Viewer::All)
    }
}

impl Query {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Some(sql) = self.sql else {
            terminal::print(|out| query::help().try_for_each(|view| columns(out, &view)))?;
            return Ok(ExitCode::SUCCESS);
        };
        let sql = match sql.as_str() {
            "-" => {
                let mut sql = String::new();
                io::stdin()
                    .lock()
                    .take(MAX_INPUT)
                    .read_to_string(&mut sql)
                    .context("cannot read the statement")?;
                sql
            }
            _ => sql,
        };
        let answer = self
            .source
            .ask(&sql)
            .map_err(|error| anyhow::anyhow!(printable(&error.to_string(), 1000)))?;
        if self.json {
            let text = terminal_safe(&answer.to_public())?;
            terminal::print(|out| writeln!(out, "{text}"))?;
        } else {
            terminal::print(|out| table(out, &answer))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn columns(out: &mut dyn Write, view: &ViewHelp) -> io::Result<()> {
    writeln!(out, "{}: {}", view.name, view.about)?;
    aligned(out, |out| {
        let mut columns = view.columns.iter();
        columns.try_for_each(|(name, about)| writeln!(out, "  {name}\t{about}"))
    })?;
    writeln!(out)
}

fn table(out: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    aligned(out, |out| {
        let heads: Vec<String> = answer
            .columns
            .iter()
            .map(|name| printable(name, CELL))
            .collect();
        writeln!(out, "{}", heads.join("\t"))?;
        for row in &answer.rows {
            let cells: Vec<String> = row.iter().map(cell).collect();
            writeln!(out, "{}", cells.join("\t"))?;
        }
        Ok(())
    })?;
    let rows = match answer.rows.len() {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    };
    match answer.truncated {
        false => writeln!(out, "\n{rows}"),
        true => writeln!(
            out,
            "\n{rows}, and there are more: use WHERE, GROUP BY or LIMIT"
        ),
    }
}

/// A value in a line of at most [`CELL`] characters; `-` is null.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable(text, CELL),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_in_its_cell() {
        let answer = Answer {
            columns: vec!["a\u{1b}[2J".to_owned(), "b".to_owned()],
            rows: vec![
                vec![Value::from("x\ny\t\u{202e}z\u{1b}]0;t\u{7}"), Value::Null],
                vec![Value::from("w".repeat(1000)), Value::from(7)],
            ],
            truncated: true,
        };
        let mut out = Vec::new();
        table(&mut out, &answer).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(shown.lines().count(), 5, "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{shown}");
        assert!(
            shown.lines().all(|line| line.chars().count() < 100),
            "{shown}"
        );
        assert!(shown.contains("and there are more"), "{shown}");
    }
}
