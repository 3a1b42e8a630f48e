//! (identity)
/// The stable identity of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// A short readable name, the same across restarts and hosts.
    pub server_id: crate::model::ServerId,
    /// SHA-256 over the normalised launch, hex.
    pub fingerprint: String,
    /// Where the name comes from, such as `config:claude-desktop` or `package:npm`.
    pub name_source: String,
}
