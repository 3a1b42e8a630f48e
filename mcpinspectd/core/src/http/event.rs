//! What comes out of a [`Connection`](super::Connection).

use super::anomaly::Anomaly;
use super::body::Loss;
use super::head::{Content, McpFields, Method, Target};
use super::part::Left;
use crate::model::Direction;

/// Numbers the exchanges of a connection whose request was seen, from 1, in the order of the
/// requests. Those that are not MCP count too.
pub type Exchange = u64;

/// Something that a connection shows. Positions are bytes from the start of their direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An exchange is MCP. Its other events follow.
    Opened(Opened<'a>),
    /// Its response begins.
    Answered(ResponseHead<'a>),
    /// A message.
    Message(Message<'a>),
    /// The server names the address for the client's messages (2024-11-05).
    Endpoint {
        /// The exchange whose stream says so.
        exchange: Option<Exchange>,
        /// Its position.
        position: u64,
        /// The address; its key is that of the requests that go there.
        target: &'a Target,
    },
    /// A field of a request's head contradicts the message (2026-07-28), which deceives a reader of
    /// heads alone.
    Disagreement {
        /// The exchange.
        exchange: Option<Exchange>,
        /// The message's position.
        position: u64,
        /// Which field.
        field: Mirrored,
        /// What the field says, decoded; the first 256 bytes.
        head: &'a str,
        /// What the message says, if it says anything; the first 256 bytes.
        message: Option<&'a str>,
    },
    /// A message, or a part of the connection, was lost.
    Lost {
        /// The exchange that it belongs to, if that is known.
        exchange: Option<Exchange>,
        /// Which way it went.
        direction: Direction,
        /// Its position.
        position: u64,
        /// Bytes that were seen but now belong to nothing.
        seen: u64,
        /// Bytes that were not seen; `None` if their number is unknown.
        missing: Option<u64>,
        /// Why.
        loss: Loss,
    },
    /// Something is wrong.
    Anomaly {
        /// The exchange that it belongs to, if that is known.
        exchange: Option<Exchange>,
        /// In which direction.
        direction: Direction,
        /// Its position.
        position: u64,
        /// What.
        anomaly: Anomaly,
    },
    /// An exchange is over.
    Closed {
        /// The exchange.
        exchange: Exchange,
        /// Whether request and response were complete.
        is_whole: bool,
    },
    /// Nothing more will come of a direction.
    Left {
        /// Which.
        direction: Direction,
        /// The position from which on.
        position: u64,
        /// Why.
        reason: Left,
    },
}

/// The request of an MCP exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// The exchange.
    pub exchange: Exchange,
    /// Where the request starts.
    pub position: u64,
    /// `POST` brings a message, `GET` opens a stream, `DELETE` ends the session.
    pub method: Method,
    /// Where it is sent.
    pub target: &'a Target,
    /// MCP's fields of its head.
    pub fields: &'a McpFields,
}

/// The head of the response of an MCP exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead<'a> {
    /// The exchange; `None` if it is unknown which request this answers.
    pub exchange: Option<Exchange>,
    /// Where it starts.
    pub position: u64,
    /// Its status; 0 if unknown.
    pub status: u16,
    /// What its body is.
    pub content: Content,
    /// MCP's fields of its head: a server names a new session here.
    pub fields: &'a McpFields,
}

/// A message, or text in place of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The exchange; `None` if it is unknown which request a response answers.
    pub exchange: Option<Exchange>,
    /// Which way it went.
    pub direction: Direction,
    /// Where its body or event starts; in a compressed body, where the body does.
    pub position: u64,
    /// How it was carried.
    pub carrier: Carrier<'a>,
    /// Its bytes, without any framing.
    pub bytes: &'a [u8],
}

/// How a message was carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier<'a> {
    /// As the body of a request.
    Request,
    /// As the body of a response.
    Response,
    /// As an event of a stream.
    Event {
        /// The event's id, from which the stream can be resumed.
        id: Option<&'a [u8]>,
    },
}

/// A field that repeats what its message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mirrored {
    /// `Mcp-Method`: the message's method.
    Method,
    /// `Mcp-Name`: the tool, prompt or resource.
    Name,
    /// `MCP-Protocol-Version`: the version in the message's `_meta`.
    Version,
}

impl Mirrored {
    /// The field's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Method => "Mcp-Method",
            Self::Name => "Mcp-Name",
            Self::Version => "MCP-Protocol-Version",
        }
    }
}
