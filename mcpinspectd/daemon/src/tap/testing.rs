//! A conversation for the tests of this module.

use std::sync::Arc;

use mcpinspect_core::mcp::method::MethodName;
use mcpinspect_core::model::{Direction, Pid, ServerId, SessionId, Timestamp};
use mcpinspect_core::session::{AnsweredRequest, Exchange};
use mcpinspect_engine::{FrameInfo, Head, MessageKind, MessageSeen, SessionInfo};

/// One message.
pub(super) struct Message {
    pub(super) session: SessionInfo,
    pub(super) frame: FrameInfo,
    pub(super) text: Vec<u8>,
    pub(super) head: Head<'static>,
    pub(super) exchange: Exchange,
}

impl Message {
    pub(super) fn new(direction: Direction, kind: MessageKind, text: &str) -> Self {
        Self {
            session: SessionInfo {
                id: SessionId(Arc::from("s-1")),
                server_id: ServerId(Arc::from("filesystem")),
                server_pid: Some(Pid(4242)),
                client_pid: Some(Pid(4100)),
            },
            frame: FrameInfo {
                time: Timestamp(1_760_000_000_123_456_789),
                direction,
                position: 0,
                sequence: 1,
                gap_before: false,
            },
            text: text.as_bytes().to_vec(),
            head: Head {
                kind,
                method: None,
                id: None,
                invalid_reason: None,
            },
            exchange: Exchange::default(),
        }
    }

    pub(super) fn with_method(mut self, method: &'static str) -> Self {
        self.head.method = Some(method.into());
        self
    }

    pub(super) fn with_tool(mut self, tool: &str) -> Self {
        self.exchange.tool = Some(tool.into());
        self
    }

    pub(super) fn seen(&self) -> MessageSeen<'_> {
        MessageSeen {
            session: &self.session,
            frame: self.frame,
            bytes: &self.text,
            head: &self.head,
            exchange: &self.exchange,
        }
    }
}

pub(super) fn request(method: &'static str, id: &'static str, text: &str) -> Message {
    let mut request = Message::new(Direction::ClientToServer, MessageKind::Request, text);
    request.head.id = Some(id.into());
    request.with_method(method)
}

pub(super) fn response(to: &'static str, id: &'static str, latency: u64, text: &str) -> Message {
    let mut response = Message::new(Direction::ServerToClient, MessageKind::Response, text);
    response.head.id = Some(id.into());
    response.exchange.answers = Some(AnsweredRequest {
        method: MethodName::new(to),
        sequence: 1,
    });
    response.exchange.latency_ns = Some(latency);
    response
}

pub(super) fn conversation() -> Vec<Message> {
    let mut failed = response(
        "tools/call",
        "8",
        15_000_000,
        r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"Unknown tool: rm"}}"#,
    );
    failed.exchange.is_error = true;
    let mut sampling = request(
        "sampling/createMessage",
        "12345678",
        r#"{"method":"sampling/createMessage","params":{"maxTokens":100},"jsonrpc":"2.0","id":12345678}"#,
    );
    sampling.frame.direction = Direction::ServerToClient;
    let down = Direction::ServerToClient;
    let mut batch = Message::new(down, MessageKind::Batch, r#"[{"jsonrpc":"2.0"}]"#);
    batch.frame.gap_before = true;
    let mut noise = Message::new(down, MessageKind::Invalid, "");
    noise.head.invalid_reason = Some("not_json");
    noise.text = b"Starting\xff server\x07".to_vec();
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
        Message::new(
            Direction::ClientToServer,
            MessageKind::Notification,
            r#"{"method":"notifications/initialized","jsonrpc":"2.0"}"#,
        )
        .with_method("notifications/initialized"),
        response(
            "tools/list",
            "1",
            820_000,
            r#"{"result":{"tools":[{"name":"read_file"},{"name":"write_file"}]},"jsonrpc":"2.0","id":1}"#,
        ),
        request(
                "tools/call",
                "\"a-7\"",
                r#"{"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/etc/hosts","api_key":"sk-ant-abcdefgh12345678"},"_meta":{"progressToken":1}},"jsonrpc":"2.0","id":"a-7"}"#,
        )
        .with_tool("read_file"),
        response(
                "tools/call",
                "\"a-7\"",
                2_345_000_000,
                r#"{"result":{"content":[{"type":"text","text":"127.0.0.1\tlocalhost\n\u001b[2J"}]},"jsonrpc":"2.0","id":"a-7"}"#,
        )
        .with_tool("read_file"),
        failed,
        sampling,
        batch,
        noise,
    ]
}
