//! The answer to a query, or why there is none.

use std::fmt;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::history::Viewer;

/// Rows of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The names of the columns, each once, in the order of the statement.
    pub columns: Vec<String>,
    /// The rows, with a value for each column: null, a number, or text. Integers that JSON readers cannot
    /// hold exactly (beyond 2^53) are decimal text, and blobs are base64 text.
    pub rows: Vec<Vec<Value>>,
    /// Whether there were more rows.
    pub truncated: bool,
}

impl Answer {
    /// The answer as programs read it: `{"rows": […], "rowCount": 2, "truncated": false}`, with an object
    /// for each row.
    pub fn to_public(&self) -> PublicAnswer<'_> {
        PublicAnswer {
            rows: self
                .rows
                .iter()
                .map(|cells| Row {
                    columns: &self.columns,
                    cells,
                })
                .collect(),
            row_count: self.rows.len(),
            truncated: self.truncated,
        }
    }
}

/// See [`Answer::to_public`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublicAnswer<'a> {
    rows: Vec<Row<'a>>,
    row_count: usize,
    truncated: bool,
}

/// A row as an object, its members in the order of the columns.
#[derive(Debug)]
struct Row<'a> {
    columns: &'a [String],
    cells: &'a [Value],
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.cells.len()))?;
        for (column, cell) in self.columns.iter().zip(self.cells) {
            map.serialize_entry(column, cell)?;
        }
        map.end()
    }
}

/// Runs queries in SQL over what was recorded.
pub trait Queries: Send + Sync {
    /// The answer to one statement. May block for some seconds.
    ///
    /// # Errors
    /// See [`QueryError`].
    fn query(&self, sql: &str, viewer: Viewer) -> Result<Answer, QueryError>;
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The statement does something other than read.
    MutatingQueryForbidden,
    /// It is not a statement that can be run: a mistake, several statements, an unknown name.
    InvalidQuery,
    /// It was run and failed: it took too long or too much memory, or the store cannot be read.
    QueryExecutionFailed,
}

impl Code {
    const ALL: [Self; 3] = [
        Self::MutatingQueryForbidden,
        Self::InvalidQuery,
        Self::QueryExecutionFailed,
    ];

    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MutatingQueryForbidden => "MUTATING_QUERY_FORBIDDEN",
            Self::InvalidQuery => "INVALID_QUERY",
            Self::QueryExecutionFailed => "QUERY_EXECUTION_FAILED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{code}: {message}")]
pub struct QueryError {
    /// The kind.
    pub code: Code,
    /// What is wrong, for the caller.
    pub message: String,
}

impl QueryError {
    /// It cannot be run.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidQuery, message)
    }

    /// It would do something other than read.
    pub fn mutating() -> Self {
        let message = "only SELECT statements are permitted";
        Self::new(Code::MutatingQueryForbidden, message)
    }

    /// It failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Code::QueryExecutionFailed, message)
    }

    fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The error whose text is in `text`, as the bus carries it; any other text is a failure.
    pub fn from_text(text: &str) -> Self {
        let found = Code::ALL.into_iter().find_map(|code| {
            let (_, message) = text.split_once(&format!("{code}: "))?;
            Some(Self::new(code, message))
        });
        found.unwrap_or_else(|| Self::failed(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_objects_in_the_order_of_their_columns() {
        let answer = Answer {
            columns: vec!["z".to_owned(), "a".to_owned()],
            rows: vec![vec![Value::from(1), Value::Null]],
            truncated: true,
        };
        assert_eq!(
            serde_json::to_string(&answer.to_public()).unwrap(),
            r#"{"rows":[{"z":1,"a":null}],"rowCount":1,"truncated":true}"#
        );
    }

    #[test]
    fn errors_cross_the_bus_as_text() {
        for error in [
            QueryError::mutating(),
            QueryError::invalid("near \"x\": syntax error"),
            QueryError::failed("took too long"),
        ] {
            assert_eq!(QueryError::from_text(&error.to_string()), error);
            let quoted = format!("org.freedesktop.DBus.Error.InvalidArgs: {error}");
            assert_eq!(QueryError::from_text(&quoted), error);
        }
        let other = QueryError::from_text("busy");
        assert_eq!(other, QueryError::failed("busy"));
    }
}
