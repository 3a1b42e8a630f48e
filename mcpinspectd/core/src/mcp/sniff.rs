//! Tells from the first bytes of a stream whether it carries MCP, and in which direction.
//!
//! Discovery watches a new stream within a byte budget and asks here after each read. The verdict rests
//! on what is specific to MCP: its method names, the shape of its handshake and results, its `_meta`
//! keys. Plain JSON-RPC proves nothing, because editors and other agents also send it line by line.
//! Every line counts, including an unfinished last one, because the first message may be megabytes
//! long while its method is in its first bytes.
//!
//! One stream is the word of one party. A server decides what its output looks like and could start
//! with a `Content-Length` header or a log line to pass for something else. So a caller that has both
//! directions lets [`Evidence::Mcp`] on one outweigh [`Evidence::NotMcp`] on the other.

use std::borrow::Cow;

use super::cursor::{Cursor, Flaw};
use super::method::{self, Sender};
use crate::model::Direction;

/// What the start of a stream shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It carries MCP.
    Mcp {
        /// The direction that it carries, if the messages so far tell.
        role: Option<Direction>,
    },
    /// It carries something else.
    NotMcp {
        /// What shows it.
        reason: NotMcpReason,
    },
    /// It cannot be decided yet.
    Undecided {
        /// Whether the bytes look like JSON-RPC, so that it is worth waiting for more.
        json_rpc_like: bool,
    },
}

/// What shows that a stream does not carry MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMcpReason {
    /// A `Content-Length` or `Content-Type` header: language servers and debug adapters.
    HeaderFraming,
    /// The `initialize` of another protocol: the Agent Client Protocol's version is a number, others have
    /// none.
    OtherInitialize,
    /// JSON lines without any member of JSON-RPC, such as a log.
    JsonLines,
}

impl NotMcpReason {
    /// The word used in logs and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HeaderFraming => "header_framing",
            Self::OtherInitialize => "other_initialize",
            Self::JsonLines => "json_lines",
        }
    }
}

/// Judges a stream by its first bytes: complete lines, and possibly an unfinished one.
///
/// Takes time linear in `prefix`, which the caller bounds. Never panics.
pub fn evidence(prefix: &[u8]) -> Evidence {
    let text = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
    let mut mcp = false;
    let mut json_lines = false;
    let mut json_rpc_like = false;
    let mut first = true;
    let mut rest = text;
    while !rest.is_empty() {
        let (line, complete) = match memchr::memchr(b'\n', rest) {
            Some(end) => {
                let line = &rest[..end];
                rest = &rest[end + 1..];
                (line, true)
            }
            None => (std::mem::take(&mut rest), false),
        };
        let line = line.trim_ascii_start();
        if line.is_empty() {
            continue;
        }
        if std::mem::take(&mut first) && is_header(line) {
            return Evidence::NotMcp {
                reason: NotMcpReason::HeaderFraming,
            };
        }
        match judge(line, complete) {
            Line::Mcp(sender) => match sender.direction() {
                Some(direction) => {
                    return Evidence::Mcp {
                        role: Some(direction),
                    };
                }
                None => mcp = true,
            },
            Line::OtherInitialize if !mcp => {
                return Evidence::NotMcp {
                    reason: NotMcpReason::OtherInitialize,
                };
            }
            Line::JsonRpc => json_rpc_like = true,
            Line::OtherJson => json_lines = true,
            Line::OtherInitialize | Line::Text => {}
        }
    }
    if mcp {
        Evidence::Mcp { role: None }
    } else if json_lines && !json_rpc_like {
        Evidence::NotMcp {
            reason: NotMcpReason::JsonLines,
        }
    } else {
        Evidence::Undecided { json_rpc_like }
    }
}

/// Judges the start of one message, or all of it, on a transport that frames messages itself: it may
/// have line breaks as white space.
///
/// Takes time linear in `prefix`, which the caller bounds. Never panics.
pub fn message_evidence(prefix: &[u8], complete: bool) -> Evidence {
    let text = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
    match judge(text.trim_ascii_start(), complete) {
        Line::Mcp(sender) => Evidence::Mcp {
            role: sender.direction(),
        },
        Line::OtherInitialize => Evidence::NotMcp {
            reason: NotMcpReason::OtherInitialize,
        },
        Line::OtherJson => Evidence::NotMcp {
            reason: NotMcpReason::JsonLines,
        },
        Line::JsonRpc => Evidence::Undecided {
            json_rpc_like: true,
        },
        Line::Text => Evidence::Undecided {
            json_rpc_like: false,
        },
    }
}

/// Whether a stream's first line is a header of the base protocol of LSP and DAP.
fn is_header(line: &[u8]) -> bool {
    let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
    line.len() > name.len()
        && (name.eq_ignore_ascii_case(b"content-length")
            || name.eq_ignore_ascii_case(b"content-type"))
}

/// What one line shows.
enum Line {
    Mcp(Sender),
    OtherInitialize,
    JsonRpc,
    OtherJson,
    /// Nothing, such as a banner.
    Text,
}

fn judge(line: &[u8], complete: bool) -> Line {
    let mut cursor = Cursor::new(line);
    match line.first() {
        Some(b'{') => {
            let mut features = MessageFeatures::default();
            let end = cursor.object(|cursor, key| features.member(cursor, key));
            let whole = end.is_ok() && cursor.end().is_ok();
            let line = features.judge(whole);
            if end == Err(Flaw::Invalid) || (complete && !whole) {
                return line.broken();
            }
            line
        }
        Some(b'[') => judge_batch(cursor, complete),
        _ => Line::Text,
    }
}

/// A batch (revision 2025-03-26) shows what its most telling message shows.
fn judge_batch(mut cursor: Cursor<'_>, complete: bool) -> Line {
    let mut best = Line::Text;
    let end = cursor.array(|cursor| {
        if cursor.peek()? != b'{' {
            return cursor.skip();
        }
        let mut features = MessageFeatures::default();
        let end = cursor.object(|cursor, key| features.member(cursor, key));
        let line = features.judge(end.is_ok());
        if line.weight() > best.weight() {
            best = line;
        }
        end
    });
    if end == Err(Flaw::Invalid) || (complete && end.is_err()) {
        return best.broken();
    }
    match best {
        // An array of values that are not messages is some other data; one line of it proves nothing.
        Line::OtherJson => Line::Text,
        line => line,
    }
}

impl Line {
    /// What the line shows if it turns out not to be JSON. What was a message of MCP up to there keeps the stream
    /// from being taken for something else: whether one asks before or after the fault must not decide that.
    fn broken(self) -> Self {
        match self {
            Self::Mcp(_) => Self::JsonRpc,
            Self::OtherInitialize | Self::JsonRpc | Self::OtherJson | Self::Text => Self::Text,
        }
    }

    fn weight(&self) -> u8 {
        match self {
            Self::Text => 0,
            Self::OtherJson => 1,
            Self::JsonRpc => 2,
            Self::OtherInitialize => 3,
            Self::Mcp(Sender::Either) => 4,
            Self::Mcp(Sender::Client | Sender::Server) => 5,
        }
    }
}

/// What identifies one message, possibly only of its start.
#[derive(Default)]
struct MessageFeatures<'a> {
    json_rpc_2: bool,
    method: Option<Cow<'a, str>>,
    /// Any of `jsonrpc`, `method`, `result`, `error`. Every JSON-RPC message has at least one of them.
    strong_member: bool,
    /// Members that JSON-RPC defines, including the strong ones.
    members: u32,
    /// Members that it does not define.
    foreign_members: u32,
    /// `io.modelcontextprotocol/…` in `_meta`, which only MCP has.
    mcp_meta: bool,
    version: Version,
    /// `clientInfo` or `capabilities` in `params`.
    client_introduction: bool,
    result: Shape,
}

/// The `protocolVersion` of a handshake.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Version {
    #[default]
    Absent,
    Text,
    /// That of the Agent Client Protocol.
    Other,
}

/// What the members of a result tell about its sender.
#[derive(Default)]
struct Shape {
    server_introduction: bool,
    /// Members that only results of MCP servers have, such as an array called `tools`.
    from_server: bool,
    /// Members that only results of MCP clients have.
    from_client: bool,
    role: bool,
    model: bool,
}

impl<'a> MessageFeatures<'a> {
    /// Takes in one member of the message.
    fn member(&mut self, cursor: &mut Cursor<'a>, key: &str) -> Result<(), Flaw> {
        match key {
            "jsonrpc" | "method" | "result" | "error" => {
                self.strong_member = true;
                self.members += 1;
            }
            "id" | "params" => self.members += 1,
            _ => self.foreign_members += 1,
        }
        let first = cursor.peek()?;
        match (key, first) {
            ("jsonrpc", b'"') => self.json_rpc_2 = cursor.string()? == "2.0",
            ("method", b'"') => self.method = Some(cursor.string()?),
            ("params", b'{') => cursor.object(|cursor, key| self.param(cursor, key))?,
            ("result", b'{') => cursor.object(|cursor, key| self.result_member(cursor, key))?,
            _ => cursor.skip()?,
        }
        Ok(())
    }

    fn param(&mut self, cursor: &mut Cursor<'a>, key: &str) -> Result<(), Flaw> {
        match key {
            "protocolVersion" => return self.protocol_version(cursor),
            "clientInfo" | "capabilities" => self.client_introduction = true,
            "_meta" => return self.meta(cursor),
            _ => {}
        }
        cursor.skip()
    }

    fn result_member(&mut self, cursor: &mut Cursor<'a>, key: &str) -> Result<(), Flaw> {
        let first = cursor.peek()?;
        match (key, first) {
            ("protocolVersion", _) => return self.protocol_version(cursor),
            ("serverInfo" | "capabilities", b'{') => self.result.server_introduction = true,
            (
                "tools" | "resources" | "resourceTemplates" | "prompts" | "contents" | "messages"
                | "supportedVersions",
                b'[',
            ) => self.result.from_server = true,
            ("content", b'[') => return self.content(cursor),
            ("resultType", b'"') => self.result.from_server = true,
            ("roots", b'[') => self.result.from_client = true,
            ("role", b'"') => self.result.role = true,
            ("model", b'"') => self.result.model = true,
            ("_meta", _) => return self.meta(cursor),
            _ => {}
        }
        cursor.skip()
    }

    fn protocol_version(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Flaw> {
        self.version = if cursor.peek()? == b'"' {
            Version::Text
        } else {
            Version::Other
        };
        cursor.skip()
    }

    fn meta(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Flaw> {
        if cursor.peek()? != b'{' {
            return cursor.skip();
        }
        cursor.object(|cursor, key| {
            self.mcp_meta |= key.starts_with("io.modelcontextprotocol/");
            cursor.skip()
        })
    }

    /// A tool's result is an array of blocks that each have a `type`; one block is enough to tell. A
    /// client's answer to a sampling request also has such an array, beside its `role` and `model`.
    fn content(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Flaw> {
        let mut blocks = false;
        let end = cursor.array(|cursor| {
            if cursor.peek()? != b'{' {
                return cursor.skip();
            }
            cursor.object(|cursor, key| {
                blocks |= key == "type";
                cursor.skip()
            })
        });
        self.result.from_server |= blocks;
        end
    }

    fn judge(&self, whole: bool) -> Line {
        if let Some(line) = self.mcp(whole) {
            return line;
        }
        if self.strong_member || (!whole && self.members > 0 && self.foreign_members == 0) {
            Line::JsonRpc
        } else if whole {
            Line::OtherJson
        } else {
            Line::Text
        }
    }

    fn mcp(&self, whole: bool) -> Option<Line> {
        // Some peers omit `jsonrpc`. A log line that merely mentions a method has other members.
        if !(self.json_rpc_2 || (self.strong_member && self.foreign_members == 0)) {
            return None;
        }
        match self.method.as_deref() {
            Some("initialize") => match self.version {
                Version::Text if self.client_introduction => Some(Line::Mcp(Sender::Client)),
                Version::Other => Some(Line::OtherInitialize),
                // In every other protocol it introduces the client; in MCP a careless client may omit that.
                Version::Absent if whole && self.client_introduction => Some(Line::OtherInitialize),
                Version::Text if whole => Some(Line::Mcp(Sender::Client)),
                Version::Text | Version::Absent => None,
            },
            Some(name) => match method::sender(name) {
                Some(sender) => Some(Line::Mcp(sender)),
                // Any request of the stateless revision states its version, even one of an extension.
                None => self.mcp_meta.then_some(Line::Mcp(Sender::Either)),
            },
            None => self.mcp_result(whole),
        }
    }

    fn mcp_result(&self, whole: bool) -> Option<Line> {
        let result = &self.result;
        if result.from_client || (result.role && result.model) {
            return Some(Line::Mcp(Sender::Client));
        }
        match self.version {
            Version::Text if result.server_introduction => return Some(Line::Mcp(Sender::Server)),
            Version::Other => return Some(Line::OtherInitialize),
            Version::Text | Version::Absent => {}
        }
        // `role` and `model` may follow the content, so a result is a server's only once it is complete
        // or cannot be a sampling answer.
        if result.from_server && (whole || !result.role) {
            return Some(Line::Mcp(Sender::Server));
        }
        self.mcp_meta.then_some(Line::Mcp(Sender::Either))
    }
}

#[cfg(test)]
mod tests;
