//! The names of sessions and servers.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Names one session (one client talking to one server over one pair of streams). Unique across
/// restarts of the daemon; opaque to readers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub Arc<str>);

impl SessionId {
    /// Used where no session is concerned: the empty text.
    pub fn none() -> Self {
        Self(Arc::from(""))
    }
}

impl<'a> From<&'a SessionId> for Cow<'a, SessionId> {
    fn from(id: &'a SessionId) -> Self {
        Cow::Borrowed(id)
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerId(pub Arc<str>);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The stable identity of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerIdentity {
    /// A short readable name of ASCII letters, digits, `.`, `_`, `-`, at most 48 long; followed by `#` and
    /// digits of the fingerprint if another server has the same name.
    pub server_id: ServerId,
    /// The first 16 bytes of SHA-256 over the normalised launch, in hexadecimal digits. The same on
    /// every host, for every user, version and secret.
    pub fingerprint: String,
    /// Where the name comes from: `config:CLIENT` (such as `config:claude-code`), `package:npm`,
    /// `package:pypi`, `package:image`, `package:deno`, `script`, `binary` or `unknown`; `url` is for
    /// servers that are reached by one.
    pub name_source: String,
    /// Who publishes it, if its launch shows that: `npm:@scope`, `github.com/owner`, the package itself
    /// if the registry has no owners, or the file. Servers of one publisher do not imitate each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<Box<str>>,
    /// How the same server was identified before; its pins may be stored under that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<FormerIdentity>,
}

/// How an earlier version identified a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerIdentity {
    /// Its name, as in [`ServerIdentity::server_id`].
    pub server_id: ServerId,
    /// Its fingerprint, as in [`ServerIdentity::fingerprint`].
    pub fingerprint: String,
}
