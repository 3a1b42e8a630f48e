//! Sessions: who talks to whom, from when to when.

use mcpinspect_core::model::{EndReason, Party, Severity};
use mcpinspect_core::text::escape::printable;
use serde::Serialize;
use serde_json::Value;

use crate::event::vocabulary::{Describe, Details, MAX_NAME, Sentence};

/// A session was recognised.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionStarted {
    /// Fingerprint of the server's identity, hex.
    pub fingerprint: String,
    /// Where the server's name comes from, such as `config:claude-desktop` or `package:npm`.
    pub name_source: String,
    /// Where the server is reached, if over HTTP: no query, and no secrets.
    pub url: Option<String>,
    /// The server's process.
    pub server: Option<Party>,
    /// The client's process.
    pub client: Option<Party>,
    /// Whether it was under way when the daemon joined.
    pub joined_midstream: bool,
}

impl Describe for SessionStarted {
    fn title(&self, server: &str) -> String {
        let how = match self.joined_midstream {
            true => "joined midway",
            false => "started",
        };
        format!("MCP session with {server} {how}")
    }

    fn particulars(&self, sentence: &mut Sentence) {
        for (role, party) in [("server", &self.server), ("client", &self.client)] {
            if let Some(Party { pid, uid, exe, .. }) = party {
                sentence.add(format!("{role} pid {pid} uid {uid} {exe}"));
            }
        }
        if let Some(url) = &self.url {
            sentence.add(format!("at {url}"));
        }
        sentence.add(format!("named by {}", self.name_source));
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_FINGERPRINT", &self.fingerprint);
        if let Some(url) = &self.url {
            details.add("MCPINSPECT_URL", url);
        }
        if let Some(server) = &self.server {
            details.add("MCPINSPECT_EXE", &server.exe);
        }
        if let Some(client) = &self.client {
            details.add("MCPINSPECT_CLIENT_EXE", &client.exe);
            details.add("MCPINSPECT_CLIENT_PID", &client.pid.to_string());
        }
    }
}

/// The parties told each other who they are (initialize, or the first stateless exchange).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionIdentified {
    /// Protocol revision agreed on, such as `2025-06-18`.
    pub protocol_version: Option<String>,
    /// The server's own name and version, as it claims.
    pub server_info: Option<Value>,
    /// The client's own name and version, as it claims.
    pub client_info: Option<Value>,
    /// The server's capabilities, as it claims.
    pub capabilities: Option<Value>,
}

impl Describe for SessionIdentified {
    fn title(&self, server: &str) -> String {
        let version = self.protocol_version.as_deref();
        let version = version.map_or_else(
            || "of an unknown revision".to_owned(),
            |version| printable(version, MAX_NAME),
        );
        format!("{server} speaks MCP {version}")
    }

    fn particulars(&self, sentence: &mut Sentence) {
        for (role, info) in [("server", &self.server_info), ("client", &self.client_info)] {
            if let Some(info) = info {
                let part = |key| info.get(key).and_then(Value::as_str).unwrap_or("?");
                let (name, version) = (part("name"), part("version"));
                sentence.add(format!("{role} calls itself {name} {version}"));
            }
        }
    }

    fn details(&self, details: &mut Details) {
        let version = self.protocol_version.as_deref();
        details.add_some("MCPINSPECT_PROTOCOL_VERSION", version);
    }
}

/// A session is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionEnded {
    /// Why.
    pub reason: EndReason,
    /// Messages seen in it.
    pub messages: u64,
    /// Bytes captured in it.
    pub bytes: u64,
    /// Bytes known lost in it.
    pub bytes_lost: u64,
    /// Requests that never got an answer.
    pub unanswered: u64,
}

impl Describe for SessionEnded {
    fn severity(&self) -> Option<Severity> {
        (self.bytes_lost > 0).then_some(Severity::Medium)
    }

    fn title(&self, server: &str) -> String {
        format!("MCP session with {server} ended")
    }

    fn particulars(&self, sentence: &mut Sentence) {
        let Self {
            reason,
            messages,
            bytes,
            bytes_lost,
            unanswered,
        } = self;
        sentence.add(format!(
            "{reason}; {messages} messages, {bytes} bytes, {bytes_lost} bytes lost, {unanswered} requests unanswered"
        ));
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_REASON", self.reason.as_str());
        details.add("MCPINSPECT_BYTES_LOST", &self.bytes_lost.to_string());
    }
}
