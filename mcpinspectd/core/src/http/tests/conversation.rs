//! Samples: whole conversations, as the SDKs have them.

use super::*;

pub(in crate::http) const INITIALIZE: &str = r#"{"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}},"jsonrpc":"2.0","id":0}"#;
pub(in crate::http) const INITIALIZED: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
pub(in crate::http) const HELLO: &str = r#"{"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}},"jsonrpc":"2.0","id":0}"#;
pub(in crate::http) const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
pub(in crate::http) const TOOLS: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#;
pub(in crate::http) const PROGRESS: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;

/// A session of Streamable HTTP on one connection: JSON and events, chunked and not.
pub(in crate::http) fn session() -> Conversation {
    let events = format!(
        "event: message\nid: 1\ndata: {PROGRESS}\n\n:ping\n\nevent: message\nid: 2\ndata: {TOOLS}\n\n"
    );
    let (one, other) = events.split_at(70);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x};x=y\r\n{other}\r\n0\r\nTrailer: x\r\n\r\n",
        one.len(),
        other.len()
    );
    vec![
        post(
            "Authorization: Bearer se-cret\r\nAccept: application/json, text/event-stream\r\n",
            INITIALIZE,
        ),
        json("Mcp-Session-Id: abc\r\nSet-Cookie: se-cret\r\n", HELLO),
        post(
            "Mcp-Session-Id: abc\r\nMCP-Protocol-Version: 2025-06-18\r\n",
            INITIALIZED,
        ),
        down("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"),
        post("Mcp-Session-Id: abc\r\nExpect: 100-continue\r\n", LIST),
        down("HTTP/1.1 100 Continue\r\n\r\n"),
        down(chunked),
        up("DELETE /mcp HTTP/1.1\r\nHost: h\r\nMcp-Session-Id: abc\r\n\r\n"),
        down("HTTP/1.1 204 No Content\r\n\r\n"),
    ]
}

/// Ordinary traffic, some of which looks a little like MCP.
pub(in crate::http) fn web() -> Conversation {
    vec![
        up("GET / HTTP/1.1\r\nHost: h\r\nAccept: text/html\r\n\r\n"),
        down(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>",
        ),
        post(
            "",
            r#"{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[]}"#,
        ),
        json("", r#"{"jsonrpc":"2.0","id":1,"result":"0x"}"#),
        post(
            "",
            r#"{"model":"m","messages":[{"role":"user","content":"tools/list"}]}"#,
        ),
        down(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        down("f\r\ndata: {\"a\":1}\n\n\r\n0\r\n\r\n"),
        up("HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n"),
        down("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"),
        up("GET /events HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n"),
        down(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: tick\ndata: {\"time\":1}\n\n",
        ),
    ]
}
