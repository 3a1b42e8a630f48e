//! A secret in a text, and the placeholder that replaces it.

/// A secret in a text: bytes `start..end`, always at character boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretHit {
    /// Its kind, such as `github_token`, `private_key` or `password`.
    pub kind: &'static str,
    /// Offset of its first byte.
    pub start: usize,
    /// Offset after its last byte.
    pub end: usize,
}

impl SecretHit {
    /// Whether it has the form of a key or token. If not, only the name that it was assigned to gives it away,
    /// which is weaker evidence.
    pub fn has_known_format(&self) -> bool {
        !matches!(
            self.kind,
            "password" | "secret" | "token" | "api_key" | "credential" | "cookie" | "opaque"
        )
    }
}

/// The placeholder that replaces a secret.
pub fn placeholder(kind: &str) -> String {
    format!("{OPEN}{kind}»")
}

/// The beginning of every placeholder. A value that begins with it was redacted before.
pub(super) const OPEN: &str = "«redacted:";
