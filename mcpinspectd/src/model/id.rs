//! The names of sessions and servers.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Names one session (one client talking to one server over one pair of streams). Unique across
/// restarts of the daemon; opaque to readers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SessionId(pub Arc<str>);

impl SessionId {
    /// Stands where no session is concerned: the empty text.
    pub fn none() -> Self {
        Self(Arc::from(""))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Stands for every server where one could be named.
pub const EVERY_SERVER: &str = "*";

/// A server's readable name, the same across restarts and hosts, such as `filesystem`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ServerId(pub Arc<str>);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The stable identity of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// A short readable name of ASCII letters, digits, `.`, `_`, `-`, at most 48 long; with `#` and
    /// digits of the fingerprint behind it where another server has the name.
    pub server_id: ServerId,
    /// The first 16 bytes of SHA-256 over the normalised launch, in hexadecimal digits. The same on
    /// every host, for every user, version and secret.
    pub fingerprint: String,
    /// Where the name comes from: `config:CLIENT` (such as `config:claude-code`), `package:npm`,
    /// `package:pypi`, `package:image`, `package:deno`, `script`, `binary` or `unknown`.
    pub name_source: String,
}
