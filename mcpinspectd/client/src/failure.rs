//! Why there is no result, in exactly one of five categories.
//!
//! A program that reads a failure first wants to know whose it is: the wire's, the server's or its own.

use serde::Serialize;
use serde_json::{Value, json};

/// The code of an error that has none.
const REFUSED: &str = "error";

/// Whose failure it is. Each failure has one category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// No answer arrived: not found, crashed, refused, too late.
    Transport,
    /// One side does not offer what the request needs.
    Capability,
    /// The server answered with a JSON-RPC error, or against the protocol.
    Protocol,
    /// The request was carried out, but its result says that it failed (`isError`).
    Application,
    /// The arguments are wrong; nothing was sent.
    Validation,
}

impl Category {
    /// The word used in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Capability => "capability",
            Self::Protocol => "protocol",
            Self::Application => "application",
            Self::Validation => "validation",
        }
    }
}

/// Which failure it is: a name, or the number of a JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Code {
    /// One of this program's names.
    Name(&'static str),
    /// The server's own.
    Number(i64),
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Whose it is.
    pub category: Category,
    /// Which one.
    pub code: Code,
    /// One line for people. May quote the server: escape it before it reaches a terminal.
    pub message: String,
    /// For programs; `null` if there is nothing to add.
    pub details: Value,
}

impl Failure {
    /// A failure without details.
    pub fn new(category: Category, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            category,
            code: Code::Name(code),
            message: message.into(),
            details: Value::Null,
        }
    }

    /// The same with details.
    pub fn with(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// The server answered `method` with an error.
    pub fn refused(method: &str, error: Value) -> Self {
        let message = error.get("message").and_then(Value::as_str);
        let message = match message {
            Some(message) => format!("the server refused `{method}`: {message}"),
            None => format!("the server refused `{method}`: {error}"),
        };
        let code = match error.get("code").and_then(Value::as_i64) {
            Some(code) => Code::Number(code),
            None => Code::Name(REFUSED),
        };
        Self {
            category: Category::Protocol,
            code,
            message,
            details: json!({ "method": method, "error": error }),
        }
    }

    /// Whether the server answered with an error.
    pub fn is_refusal(&self) -> bool {
        self.category == Category::Protocol
            && matches!(self.code, Code::Number(_) | Code::Name(REFUSED))
    }
}
