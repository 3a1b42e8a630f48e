//! A conversation for the tests of this module.

use std::sync::Arc;

use mcpinspect_core::model::{Direction, Pid, ServerId, SessionId, Timestamp};
use mcpinspect_engine::{MessageKind, MessageSeen};

/// One message with the borrowed parts owned.
pub(super) struct Message {
    pub(super) session: SessionId,
    pub(super) server: ServerId,
    pub(super) direction: Direction,
    pub(super) kind: MessageKind,
    pub(super) text: Vec<u8>,
    pub(super) method: Option<&'static str>,
    pub(super) id: Option<&'static str>,
    pub(super) reply_to: Option<&'static str>,
    pub(super) tool: Option<&'static str>,
    pub(super) latency_ns: Option<u64>,
    pub(super) is_error: bool,
    pub(super) gap_before: bool,
    pub(super) invalid_reason: Option<&'static str>,
}

impl Message {
    pub(super) fn new(direction: Direction, kind: MessageKind, text: &str) -> Self {
        Self {
            session: SessionId(Arc::from("s-1")),
            server: ServerId(Arc::from("filesystem")),
            direction,
            kind,
            text: text.as_bytes().to_vec(),
            method: None,
            id: None,
            reply_to: None,
            tool: None,
            latency_ns: None,
            is_error: false,
            gap_before: false,
            invalid_reason: None,
        }
    }

    pub(super) fn seen(&self) -> MessageSeen<'_> {
        MessageSeen {
            time: Timestamp(1_760_000_000_123_456_789),
            session_id: &self.session,
            server_id: &self.server,
            direction: self.direction,
            position: 0,
            sequence: 1,
            answers: None,
            correlation: None,
            concerns: None,
            call: None,
            server_pid: Some(Pid(4242)),
            client_pid: Some(Pid(4100)),
            kind: self.kind,
            method: self.method,
            id: self.id,
            bytes: &self.text,
            gap_before: self.gap_before,
            reply_to: self.reply_to,
            tool: self.tool,
            latency_ns: self.latency_ns,
            is_error: self.is_error,
            invalid_reason: self.invalid_reason,
        }
    }
}

pub(super) fn request(method: &'static str, id: &'static str, text: &str) -> Message {
    Message {
        method: Some(method),
        id: Some(id),
        ..Message::new(Direction::ClientToServer, MessageKind::Request, text)
    }
}

pub(super) fn response(to: &'static str, id: &'static str, latency: u64, text: &str) -> Message {
    Message {
        reply_to: Some(to),
        id: Some(id),
        latency_ns: Some(latency),
        ..Message::new(Direction::ServerToClient, MessageKind::Response, text)
    }
}

pub(super) fn conversation() -> Vec<Message> {
    vec![
        request(
            "initialize",
            "0",
            r#"{"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"claude","version":"2.0"}},"jsonrpc":"2.0","id":0}"#,
        ),
        response(
            "initialize",
            "0",
            1_400_000,
            r#"{"result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"secure-filesystem-server","version":"0.2"}},"jsonrpc":"2.0","id":0}"#,
        ),
        Message {
            method: Some("notifications/initialized"),
            ..Message::new(
                Direction::ClientToServer,
                MessageKind::Notification,
                r#"{"method":"notifications/initialized","jsonrpc":"2.0"}"#,
            )
        },
        response(
            "tools/list",
            "1",
            820_000,
            r#"{"result":{"tools":[{"name":"read_file"},{"name":"write_file"}]},"jsonrpc":"2.0","id":1}"#,
        ),
        Message {
            tool: Some("read_file"),
            ..request(
                "tools/call",
                "\"a-7\"",
                r#"{"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/etc/hosts","api_key":"sk-ant-abcdefgh12345678"},"_meta":{"progressToken":1}},"jsonrpc":"2.0","id":"a-7"}"#,
            )
        },
        Message {
            tool: Some("read_file"),
            ..response(
                "tools/call",
                "\"a-7\"",
                2_345_000_000,
                r#"{"result":{"content":[{"type":"text","text":"127.0.0.1\tlocalhost\n\u001b[2J"}]},"jsonrpc":"2.0","id":"a-7"}"#,
            )
        },
        Message {
            is_error: true,
            ..response(
                "tools/call",
                "8",
                15_000_000,
                r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"Unknown tool: rm"}}"#,
            )
        },
        Message {
            direction: Direction::ServerToClient,
            ..request(
                "sampling/createMessage",
                "12345678",
                r#"{"method":"sampling/createMessage","params":{"maxTokens":100},"jsonrpc":"2.0","id":12345678}"#,
            )
        },
        Message {
            gap_before: true,
            ..Message::new(
                Direction::ServerToClient,
                MessageKind::Batch,
                r#"[{"jsonrpc":"2.0"}]"#,
            )
        },
        Message {
            invalid_reason: Some("not_json"),
            text: b"Starting\xff server\x07".to_vec(),
            ..Message::new(Direction::ServerToClient, MessageKind::Invalid, "")
        },
    ]
}
