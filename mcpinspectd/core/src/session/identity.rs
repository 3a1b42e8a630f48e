//! Who the parties say they are.
//!
//! Up to revision 2025-11-25 they say so once, in `initialize`; from 2026-07-28 on with every message,
//! in `_meta`. A client that supports both may begin with `server/discover` and fall back. This module
//! merges both into one record.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::mcp::view::{Meta, Params, ServerResult};
use crate::mcp::{Budget, json};

/// A self-description of more than this many bytes, or of very many values, is left out: no name is that
/// long.
const MAX_INFO: usize = 16 * 1024;

/// Most memory for a self-description, in bytes: it is kept as long as the session.
const MAX_INFO_MEMORY: usize = 256 * 1024;

/// Length to which a version is cut, in bytes.
const MAX_VERSION: usize = 64;

/// Who the parties say they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredIdentity {
    /// The revision that they speak.
    pub protocol_version: Option<String>,
    /// The server's name and version, as it states them.
    pub server_info: Option<Value>,
    /// The client's name and version, as it states them.
    pub client_info: Option<Value>,
    /// The server's capabilities.
    pub capabilities: Option<Value>,
    /// Whether the parties speak the stateless revision.
    pub stateless: bool,
}

impl DeclaredIdentity {
    /// Takes in what the parameters of `initialize` say about the client.
    pub fn initialize_request(&mut self, params: &Params<'_>) {
        self.stateless = false;
        self.client_info = params.client_info.and_then(bounded);
        self.protocol_version = params.protocol_version.as_deref().map(version);
    }

    /// Takes in what the result of `initialize` says about the server.
    pub fn initialize_result(&mut self, result: &ServerResult<'_>) {
        self.stateless = false;
        self.protocol_version = result.protocol_version.as_deref().map(version);
        self.server_info = result.server_info.and_then(bounded);
        self.capabilities = result.capabilities.and_then(bounded);
    }

    /// Takes in what `_meta` of a stateless request says about the client.
    pub fn request_meta(&mut self, meta: &Meta<'_>) {
        if let Some(text) = &meta.protocol_version {
            self.stateless = true;
            if self.protocol_version.as_deref() != Some(text) {
                self.protocol_version = Some(version(text));
            }
        }
        update(&mut self.client_info, meta.client_info);
    }

    /// Takes in what a stateless result says about the server.
    pub fn stateless_result(&mut self, result: &ServerResult<'_>) {
        if let Some(meta) = &result.meta {
            update(&mut self.server_info, meta.server_info);
        }
        if result.supported_versions.is_some() {
            update(&mut self.capabilities, result.capabilities);
        }
    }
}

fn update(slot: &mut Option<Value>, raw: Option<&RawValue>) {
    if let Some(value) = raw.and_then(bounded) {
        *slot = Some(value);
    }
}

fn bounded(raw: &RawValue) -> Option<Value> {
    if raw.get().len() > MAX_INFO {
        None
    } else {
        json::value(raw, &mut Budget::of(MAX_INFO_MEMORY))
    }
}

fn version(text: &str) -> String {
    json::cut(text, MAX_VERSION).to_owned()
}
