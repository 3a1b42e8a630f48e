//! Why a request over HTTP has no answer.

use hyper::StatusCode;
use hyper::header::{HeaderMap, WWW_AUTHENTICATE};
use mcpinspect_core::text::escape::printable;
use serde_json::json;

use crate::failure::{Category, Failure};

/// Longest quotation of something that is not a message, in characters.
const QUOTED: usize = 200;

/// A failure of the transport.
pub fn transport(code: &'static str, message: impl Into<String>) -> Failure {
    Failure::new(Category::Transport, code, message)
}

/// A response that is not an answer.
pub struct Refused<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: &'a HeaderMap,
    /// Its content type, or empty.
    pub kind: &'a str,
    /// Its body, or the start of it.
    pub body: &'a [u8],
    /// Whether the request named a session.
    pub in_session: bool,
}

impl Refused<'_> {
    /// What it means.
    pub fn failure(&self) -> Failure {
        let Self { status, .. } = *self;
        let body = String::from_utf8_lossy(self.body);
        let body = printable(body.trim(), QUOTED);
        let kind = printable(self.kind, QUOTED);
        let detail = match body.is_empty() {
            true => String::new(),
            false => format!(": {body}"),
        };
        let (code, message) = match status {
            StatusCode::UNAUTHORIZED => ("unauthorized", self.unauthorized()),
            StatusCode::FORBIDDEN => (
                "forbidden",
                format!("the server forbids this, with HTTP status {status}{detail}"),
            ),
            StatusCode::NOT_FOUND if self.in_session => (
                "session_ended",
                format!("the server no longer knows the session{detail}"),
            ),
            _ if !status.is_success() => (
                "http_status",
                format!("the server answered with HTTP status {status}{detail}"),
            ),
            _ if body.is_empty() => (
                "no_answer",
                format!("the server answered with HTTP status {status} and no message"),
            ),
            _ => (
                "not_mcp",
                format!(
                    "the server's answer is not an MCP message ({}){detail}",
                    if kind.is_empty() {
                        "no content type"
                    } else {
                        &kind
                    }
                ),
            ),
        };
        transport(code, message).with(json!({
            "status": status.as_u16(),
            "contentType": kind,
            "wwwAuthenticate": self.challenges(),
            "body": body,
        }))
    }

    fn challenges(&self) -> Vec<String> {
        let challenges = self.headers.get_all(WWW_AUTHENTICATE).iter();
        challenges
            .map(|challenge| String::from_utf8_lossy(challenge.as_bytes()).into_owned())
            .collect()
    }

    fn unauthorized(&self) -> String {
        let wanted = self.challenges().join(", ");
        let wanted = printable(&wanted, QUOTED);
        match wanted.is_empty() {
            true => {
                "the server requires authentication (HTTP status 401) without saying which".into()
            }
            false => format!("the server requires authentication (HTTP status 401): {wanted}"),
        }
    }
}
