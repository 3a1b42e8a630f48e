//! The fields of interest, by name.

/// A field of a head that concerns MCP or the framing of its body. HTTP/2's pseudo-fields are among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::enum_variant_names, reason = "named as the fields are")]
pub(crate) enum Name {
    Method,
    Path,
    Authority,
    Status,
    Host,
    ContentType,
    ContentEncoding,
    ContentLength,
    TransferEncoding,
    Upgrade,
    Accept,
    SessionId,
    ProtocolVersion,
    McpMethod,
    McpName,
    LastEventId,
}

/// The longest of the names.
const LONGEST: usize = 20;

impl Name {
    /// The field of this name, in any case; `None` for every other field.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let mut lower = [0; LONGEST];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        Some(match &*lower {
            b":method" => Self::Method,
            b":path" => Self::Path,
            b":authority" => Self::Authority,
            b":status" => Self::Status,
            b"host" => Self::Host,
            b"content-type" => Self::ContentType,
            b"content-encoding" => Self::ContentEncoding,
            b"content-length" => Self::ContentLength,
            b"transfer-encoding" => Self::TransferEncoding,
            b"upgrade" => Self::Upgrade,
            b"accept" => Self::Accept,
            b"mcp-session-id" => Self::SessionId,
            b"mcp-protocol-version" => Self::ProtocolVersion,
            b"mcp-method" => Self::McpMethod,
            b"mcp-name" => Self::McpName,
            b"last-event-id" => Self::LastEventId,
            _ => return None,
        })
    }
}
