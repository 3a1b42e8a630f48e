//! The gateway's own answers.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::body::Flow;

/// JSON-RPC's "invalid request".
pub const INVALID: i64 = -32600;
/// JSON-RPC's "internal error".
pub const INTERNAL: i64 = -32603;
/// A field of the head contradicts the message (2026-07-28).
pub const MISMATCH: i64 = -32020;

/// An error as a message. `id` is JSON text.
pub fn error(id: Option<&str>, code: i64, text: &str) -> String {
    let error = json!({ "code": code, "message": text });
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}",
        id.unwrap_or("null")
    )
}

/// A response with messages.
pub fn messages(status: StatusCode, messages: &[String], is_batch: bool) -> Response<Flow> {
    let text = match messages {
        [one] if !is_batch => one.clone(),
        many => format!("[{}]", many.join(",")),
    };
    let mut response = Response::new(Flow::of(text));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// A response that says why there is no other.
pub fn refusal(status: StatusCode, id: Option<&str>, code: i64, text: &str) -> Response<Flow> {
    messages(status, &[error(id, code, text)], false)
}

/// A response to a message that expects no answer.
pub fn accepted() -> Response<Flow> {
    let mut response = Response::new(Flow::of(""));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        let expected = r#"{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"\"x\"\n"}}"#;
        assert_eq!(error(Some("\"a\""), -1, "\"x\"\n"), expected);
        assert!(error(None, -1, "").contains("\"id\":null"));
    }
}
