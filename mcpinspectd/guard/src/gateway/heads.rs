//! Fields of heads: which pass, which do not, and which must not appear twice.

use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use mcpinspect_core::http::McpFields;

pub const SESSION: &str = "mcp-session-id";
pub const METHOD: &str = "mcp-method";
pub const NAME: &str = "mcp-name";
pub const VERSION: &str = "mcp-protocol-version";
pub const LAST_EVENT: &str = "last-event-id";

/// Fields that concern one connection, and those that this side sets itself.
const OF_THE_HOP: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// Fields for which readers may use the first or the last.
const SINGLE: [HeaderName; 9] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    AUTHORIZATION,
    LOCATION,
    HeaderName::from_static(SESSION),
    HeaderName::from_static(METHOD),
    HeaderName::from_static(NAME),
    HeaderName::from_static(VERSION),
    HeaderName::from_static(LAST_EVENT),
];

/// The field that appears twice and must not.
pub fn repeated(headers: &HeaderMap) -> Option<&'static HeaderName> {
    // A constant has no address of its own.
    static NAMES: [HeaderName; 9] = SINGLE;
    NAMES
        .iter()
        .find(|name| headers.get_all(*name).iter().nth(1).is_some())
}

/// The request fields that go to the server.
pub fn upward(headers: &HeaderMap) -> HeaderMap {
    let mut kept = end_to_end(headers);
    for name in [HOST, CONTENT_LENGTH, EXPECT] {
        kept.remove(name);
    }
    // What is compressed cannot be judged as it comes.
    kept.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    kept
}

/// The response fields that go to the client.
pub fn downward(headers: &HeaderMap) -> HeaderMap {
    let mut kept = end_to_end(headers);
    // It would lead the client past the policy.
    kept.remove(ALT_SVC);
    kept
}

fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for named in headers.get_all(CONNECTION) {
        for name in String::from_utf8_lossy(named.as_bytes()).split(',') {
            kept.remove(name.trim().to_ascii_lowercase());
        }
    }
    for name in &OF_THE_HOP {
        kept.remove(name);
    }
    kept
}

/// The fields of a message with which the guard answers a server, in the client's place.
pub fn in_the_clients_place(request: &HeaderMap, session: Option<&HeaderValue>) -> HeaderMap {
    let mut headers = request.clone();
    for name in [METHOD, NAME, LAST_EVENT] {
        headers.remove(name);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    if let Some(session) = session {
        headers.insert(SESSION, session.clone());
    }
    headers
}

/// MCP's own fields.
pub fn mcp(headers: &HeaderMap) -> McpFields {
    let text = |name: &str| {
        let value = headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into())
    };
    McpFields {
        session: text(SESSION),
        version: text(VERSION),
        method: text(METHOD),
        name: text(NAME),
        last_event: text(LAST_EVENT),
    }
}

/// Whether a body is declared to be in a character set other than JSON's. Some servers decode as they are told.
pub fn has_foreign_alphabet(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else {
        return false;
    };
    let kind = String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase();
    kind.split("charset").skip(1).any(|rest| {
        let value = rest.trim_start().strip_prefix('=').unwrap_or(rest);
        let value = value.trim_start().trim_start_matches('"');
        let end = value.find(|c: char| c != '-' && c != '_' && !c.is_ascii_alphanumeric());
        !matches!(&value[..end.unwrap_or(value.len())], "utf-8" | "utf8")
    })
}

/// What a response's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stream of events.
    Events,
    /// JSON.
    Json,
    /// Something else.
    Other,
    /// Both of the first two: readers take one or the other.
    Both,
}

/// What a response's body is to the most careless reader.
pub fn kind(headers: &HeaderMap) -> Kind {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let kind = String::from_utf8_lossy(kind.unwrap_or_default()).to_ascii_lowercase();
    match (kind.contains("text/event-stream"), kind.contains("json")) {
        (true, true) => Kind::Both,
        (true, false) => Kind::Events,
        (false, true) => Kind::Json,
        (false, false) => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn what_concerns_the_hop_stays_there() {
        let all = headers(&[
            ("host", "h"),
            ("connection", "keep-alive, X-Hop"),
            ("keep-alive", "timeout=5"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("accept-encoding", "gzip"),
            ("authorization", "Bearer x"),
            ("mcp-session-id", "s"),
            ("last-event-id", "7"),
            ("x-mine", "2"),
        ]);
        let up = upward(&all);
        let mut names: Vec<&str> = up.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expected = [
            "accept-encoding",
            "authorization",
            "last-event-id",
            "mcp-session-id",
            "x-mine",
        ];
        assert_eq!(names, expected);
        assert_eq!(up["accept-encoding"], "identity");
    }

    #[test]
    fn some_fields_stand_there_once() {
        let twice = headers(&[("mcp-name", "a"), ("mcp-name", "a")]);
        assert_eq!(repeated(&twice).unwrap(), "mcp-name");
        assert!(repeated(&headers(&[("accept", "a"), ("accept", "b")])).is_none());
    }

    #[test]
    fn json_has_one_alphabet() {
        for (kind, is_foreign) in [
            ("application/json", false),
            ("application/json; charset=utf-8", false),
            ("application/json; charset=\"UTF-8\"", false),
            ("application/json;charset=utf-7", true),
            ("application/json; charset=utf-16le", true),
            ("application/json; charset=utf-8; charset=utf-7", true),
            ("application/json; charset = utf-7", true),
            ("text/plain; charset=", true),
        ] {
            assert_eq!(
                has_foreign_alphabet(&headers(&[("content-type", kind)])),
                is_foreign,
                "{kind}"
            );
        }
    }
}
