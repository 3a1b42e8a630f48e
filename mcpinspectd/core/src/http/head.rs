//! The parts of a request's or response's head that concern MCP.
//!
//! Both versions of HTTP feed fields into a [`Head`] one by one. It keeps what MCP needs, with a bound
//! for each value, and never sees the rest: `Authorization`, `Cookie` and the like have no
//! [`Name`], and the query and credentials of a request's target are dropped on arrival. A
//! [`TargetKey`] stands for the whole target, so that two requests can be compared.

mod name;
mod target;
#[cfg(test)]
mod tests;

pub(super) use self::name::Name;
pub use self::target::{Target, TargetKey};
use super::anomaly::Anomaly;

/// The longest value to keep, in bytes. Session ids, versions and names are far shorter; the URI of
/// a resource may not be.
const MAX_VALUE: usize = 4096;

/// The method of a request, where it makes a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// `POST`: carries a message.
    Post,
    /// `GET`: opens a stream of events.
    Get,
    /// `DELETE`: ends a session.
    Delete,
    /// `HEAD`: its response has no body.
    Head,
    /// `CONNECT`: opens a tunnel.
    Connect,
    /// Any other.
    #[default]
    Other,
}

impl Method {
    pub(super) fn of(text: &[u8]) -> Self {
        // Methods are case-sensitive.
        match text {
            b"POST" => Self::Post,
            b"GET" => Self::Get,
            b"DELETE" => Self::Delete,
            b"HEAD" => Self::Head,
            b"CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }
}

/// What a body is, by its `Content-Type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Content {
    /// JSON.
    Json,
    /// A stream of server-sent events.
    Events,
    /// Anything else.
    Other,
    /// Not stated.
    #[default]
    Unknown,
}

/// How a body is compressed, by its `Content-Encoding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Not at all.
    #[default]
    Identity,
    /// gzip.
    Gzip,
    /// zlib, which HTTP calls `deflate`.
    Deflate,
    /// Brotli.
    Brotli,
    /// Zstandard.
    Zstd,
    /// Any other, or several.
    Unknown,
}

/// The protocol that a request asks to change to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Upgrade {
    #[default]
    None,
    /// HTTP/2 without TLS.
    H2c,
    Other,
}

/// MCP's own fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpFields {
    /// `Mcp-Session-Id`.
    pub session: Option<Box<str>>,
    /// `MCP-Protocol-Version`.
    pub version: Option<Box<str>>,
    /// `Mcp-Method` (2026-07-28).
    pub method: Option<Box<str>>,
    /// `Mcp-Name` (2026-07-28), verbatim.
    pub name: Option<Box<str>>,
    /// `Last-Event-ID`: a resumed stream.
    pub last_event: Option<Box<str>>,
}

/// A head. In a request, `status` is 0; in a response, `method` and `target` mean nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: Method,
    pub(super) status: u16,
    pub(super) target: Target,
    pub(super) content: Content,
    pub(super) coding: Coding,
    /// `Accept` names `text/event-stream`.
    pub(super) accepts_events: bool,
    /// `Accept` names `application/json`.
    pub(super) accepts_json: bool,
    pub(super) mcp: McpFields,
    pub(super) upgrade: Upgrade,
    /// `Content-Length`.
    pub(super) length: Option<u64>,
    /// `Transfer-Encoding: chunked`.
    pub(super) is_chunked: bool,
    /// It had fields with unknown names: the compression table was lost.
    pub(super) has_unknown_fields: bool,
    /// The first thing that is wrong with its framing.
    pub(super) ambiguity: Option<Anomaly>,
    /// An MCP field appeared twice, with different values.
    pub(super) is_repeated: bool,
    seen_content: bool,
    seen_coding: bool,
}

impl Head {
    /// Takes in a field. `value` has no white space around it.
    pub(super) fn field(&mut self, name: Name, value: &[u8]) {
        match name {
            Name::Method => self.method = Method::of(value),
            Name::Path => self.target.set_target(value),
            Name::Authority => self.target.set_authority(value),
            Name::Host => self.target.set_host(value),
            Name::Status => {
                self.status = number(value).and_then(|n| n.try_into().ok()).unwrap_or(0)
            }
            Name::ContentType => {
                let content = content(value);
                // If there are two, do not guess.
                let again = std::mem::replace(&mut self.seen_content, true);
                self.content = if again && content != self.content {
                    Content::Other
                } else {
                    content
                };
            }
            Name::ContentEncoding => {
                let again = std::mem::replace(&mut self.seen_coding, true);
                self.coding = if again {
                    Coding::Unknown
                } else {
                    coding(value)
                };
            }
            Name::ContentLength => self.length_field(value),
            Name::TransferEncoding => {
                if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    self.doubt(Anomaly::UnknownTransferCoding);
                }
                self.is_chunked = true;
            }
            Name::Upgrade => {
                self.upgrade = if value.eq_ignore_ascii_case(b"h2c") {
                    Upgrade::H2c
                } else {
                    Upgrade::Other
                };
            }
            Name::Accept => {
                for range in value.split(|&byte| byte == b',') {
                    let range = essence(range);
                    self.accepts_events |= range.eq_ignore_ascii_case(b"text/event-stream");
                    self.accepts_json |= range.eq_ignore_ascii_case(b"application/json");
                }
            }
            Name::SessionId => self.is_repeated |= keep(&mut self.mcp.session, value),
            Name::ProtocolVersion => self.is_repeated |= keep(&mut self.mcp.version, value),
            Name::McpMethod => self.is_repeated |= keep(&mut self.mcp.method, value),
            Name::McpName => self.is_repeated |= keep(&mut self.mcp.name, value),
            Name::LastEventId => self.is_repeated |= keep(&mut self.mcp.last_event, value),
        }
    }

    fn length_field(&mut self, value: &[u8]) {
        match number(value) {
            _ if self.length.is_some() => self.doubt(Anomaly::SeveralLengths),
            Some(length) => self.length = Some(length),
            // Some readers take a list of equal lengths for one.
            None if value.contains(&b',') => self.doubt(Anomaly::SeveralLengths),
            None => self.doubt(Anomaly::MalformedLength),
        }
    }

    /// Notes what is wrong with its framing. The first note counts.
    pub(super) fn doubt(&mut self, anomaly: Anomaly) {
        self.ambiguity.get_or_insert(anomaly);
    }
}

/// Keeps a value, up to its bound. Returns whether there was one already.
fn keep(slot: &mut Option<Box<str>>, value: &[u8]) -> bool {
    let value = value.get(..MAX_VALUE).unwrap_or(value);
    let value = String::from_utf8_lossy(value);
    match slot {
        Some(first) => **first != *value,
        None => {
            *slot = Some(value.into());
            false
        }
    }
}

/// A number of digits and nothing else.
fn number(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// A media type without its parameters.
fn essence(value: &[u8]) -> &[u8] {
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    value[..end].trim_ascii()
}

fn content(value: &[u8]) -> Content {
    let essence = essence(value);
    let is = |wanted: &[u8]| essence.eq_ignore_ascii_case(wanted);
    let suffix = essence.len().checked_sub(b"+json".len());
    if is(b"text/event-stream") {
        Content::Events
    } else if is(b"application/json")
        || is(b"application/json-rpc")
        || suffix.is_some_and(|at| essence[at..].eq_ignore_ascii_case(b"+json"))
    {
        Content::Json
    } else {
        Content::Other
    }
}

impl Coding {
    /// What a `Content-Encoding` names.
    pub fn of(value: &[u8]) -> Self {
        coding(value)
    }
}

fn coding(value: &[u8]) -> Coding {
    let is = |wanted: &[u8]| value.eq_ignore_ascii_case(wanted);
    if is(b"identity") || value.is_empty() {
        Coding::Identity
    } else if is(b"gzip") || is(b"x-gzip") {
        Coding::Gzip
    } else if is(b"deflate") {
        Coding::Deflate
    } else if is(b"br") {
        Coding::Brotli
    } else if is(b"zstd") {
        Coding::Zstd
    } else {
        Coding::Unknown
    }
}
