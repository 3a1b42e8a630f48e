//! A server that had pins and returns with another identity.
//!
//! A client's configuration names a server and says how to start it. When it starts another program under
//! that name, the server gets another name here (see `names`), so all of its tools are new and none has
//! changed: anyone who can write to the configuration, or to what it starts, would escape the pins. So a name
//! that passes to another server is reported once, on its own.

use std::sync::Arc;

use mcpinspect_core::model::ServerIdentity;

use super::names::CONFIGURED;
use super::owner::{Owner, ServerOf};
use super::pins::Registry;

/// The server whose place another has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Its name, which has its pins.
    pub name: Arc<str>,
    /// How it was launched.
    pub fingerprint: Arc<str>,
}

impl Registry {
    /// The server with pins that a client's configuration used to name as it now names `server`. `None` once
    /// `server` has pins of its own: it is known by then.
    pub fn replaced(&self, owner: Owner, server: &ServerIdentity) -> Option<Replaced> {
        if !server.name_source.starts_with(CONFIGURED) {
            return None;
        }
        let (name, _) = server.server_id.0.rsplit_once('#')?;
        let fingerprint = self.server_names().fingerprint(owner, name)?;
        let has_pins = |name| self.keys(ServerOf::new(owner, name)).next().is_some();
        let is_another = **fingerprint != *server.fingerprint;
        (is_another && has_pins(name) && !has_pins(&server.server_id.0)).then(|| Replaced {
            name: name.into(),
            fingerprint: Arc::clone(fingerprint),
        })
    }
}
