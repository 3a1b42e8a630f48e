//! A handshake for tapes that begin after it.

use mcpinspect_core::mcp::{Budget, json as text};
use mcpinspect_core::model::Direction;
use serde_json::{Value, json};

use super::{Driver, INITIALIZE, INITIALIZED, ReplayedRequest};
use crate::era::STATEFUL;
use crate::replay::TREE;
use crate::replay::recording::TapeMessage;

/// Where requests of revisions without a handshake name their revision.
const STATELESS: &str = "io.modelcontextprotocol/protocolVersion";

impl Driver<'_> {
    /// Whether the server expects a handshake, and the tape has none that is sent.
    pub(super) fn needs_handshake(&self) -> bool {
        let mut requests = self.recording.requests(Direction::ClientToServer);
        let has_own = |recorded: &TapeMessage| recorded.method() == Some(INITIALIZE);
        let is_stateless = |recorded: &TapeMessage| {
            let message = recorded.message();
            let params = message.as_ref().and_then(|message| message.params());
            let params = params.and_then(|params| text::value(params, &mut Budget::of(TREE)));
            params.is_some_and(|params| params["_meta"].get(STATELESS).is_some())
        };
        let is_sent = self.is_chosen(INITIALIZE);
        !requests.any(|(_, recorded)| (is_sent && has_own(recorded)) || is_stateless(recorded))
    }

    /// Greets the server as the client of the tape would have.
    pub(super) fn handshake(&mut self) -> Result<(), String> {
        let header = &self.recording.header;
        let revision = header.protocol_version.as_deref();
        let revision = revision.filter(|revision| *revision <= STATEFUL);
        let info = header.client_info.as_ref();
        let info: Option<Value> = info.and_then(|info| serde_json::from_str(info.0.get()).ok());
        let info = info.filter(|info| info["name"].is_string() && info["version"].is_string());
        let own = || json!({"name": "mcpinspect", "version": env!("CARGO_PKG_VERSION")});
        let mut capabilities = serde_json::Map::new();
        // Declare what the tape can answer.
        for (method, capability) in [
            ("sampling/createMessage", "sampling"),
            ("elicitation/create", "elicitation"),
            ("roots/list", "roots"),
        ] {
            if self.answers.contains_key(method) {
                capabilities.insert(capability.to_owned(), json!({}));
            }
        }
        let params = json!({
            "protocolVersion": revision.unwrap_or(STATEFUL),
            "capabilities": capabilities,
            "clientInfo": info.unwrap_or_else(own),
        });
        let id = self.next_id;
        self.next_id += 1;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": INITIALIZE, "params": params});
        self.outbox.push_back(line.to_string());
        let pending = ReplayedRequest::now(None, None, self.peer.elapsed());
        self.open.insert(id, pending);
        self.answered(id)?;
        if let Some(refused) = self.stopped.take() {
            return Err(refused);
        }
        let line = json!({"jsonrpc": "2.0", "method": INITIALIZED});
        self.outbox.push_back(line.to_string());
        self.report
            .notes
            .push("the tape has no handshake; a default one was sent".to_owned());
        Ok(())
    }
}
