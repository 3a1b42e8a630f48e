//! What the parsers of both versions of HTTP make of one direction's bytes.

use super::anomaly::Anomaly;
use super::head::Head;

/// Names an exchange within its connection: HTTP/2's stream, or the number of a request in HTTP/1, from 1.
/// 0 stands for a response of HTTP/1 whose request is unknown.
pub(super) type Stream = u32;

/// How HTTP/2 begins.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How much of that looks like a head of HTTP/1.
pub(super) const PREFACE_HEAD: usize = 18;

/// Which of the two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Requests,
    Responses,
}

/// A piece of one direction.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// The start of a request or response. Interim responses are left out.
    Head {
        stream: Stream,
        /// Where it starts, in bytes from the start of the direction.
        position: u64,
        head: Box<Head>,
    },
    /// The start of a request or response whose head was lost or cannot be read.
    NoHead { stream: Stream, position: u64 },
    /// The next bytes of its body, without any framing.
    Body {
        stream: Stream,
        position: u64,
        bytes: &'a [u8],
    },
    /// Bytes of its body were lost.
    Hole {
        stream: Stream,
        position: u64,
        /// How many, if that is known.
        bytes: Option<u64>,
    },
    /// The body is over.
    End {
        stream: Stream,
        position: u64,
        /// Whether all of it was there.
        is_whole: bool,
    },
    /// Either side gave it up: HTTP/2's `RST_STREAM`.
    Reset { stream: Stream },
    /// Bytes were lost that may belong to anything. In HTTP/2, any message in progress may be torn.
    Lost { position: u64, bytes: Option<u64> },
    /// Something is wrong. If framing is in doubt, [`Part::Left`] follows.
    Anomaly {
        /// Which request or response; `None` if it concerns the connection.
        stream: Option<Stream>,
        position: u64,
        anomaly: Anomaly,
    },
    /// The rest of the direction is left alone.
    Left { position: u64, reason: Left },
}

/// Why the rest of a direction, or of a connection, is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// It is not HTTP.
    NotHttp,
    /// It is HTTP, and none of it was MCP for a while.
    NotMcp,
    /// It became another protocol, such as WebSocket, or a tunnel.
    Upgraded,
    /// Two readers may disagree about what follows; an [`Anomaly`] says why.
    Ambiguous,
}

impl Left {
    /// The word for programs to read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotHttp => "not_http",
            Self::NotMcp => "not_mcp",
            Self::Upgraded => "upgraded",
            Self::Ambiguous => "ambiguous",
        }
    }
}
