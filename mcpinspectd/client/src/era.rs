//! The protocol's two eras: sessions that begin with a handshake, and requests that stand alone.

use serde::Serialize;

/// The latest revision with a handshake, which is the one offered.
pub const STATEFUL: &str = "2025-11-25";

/// The revision without one.
pub const STATELESS: &str = "2026-07-28";

/// An era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// Up to 2025-11-25: a session begins with `initialize`.
    Legacy,
    /// Since 2026-07-28: each request says who asks, and in which revision.
    Modern,
}

/// Which era to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The modern one if the server knows it, else the legacy one.
    Either,
    /// Only this one.
    Only(Era),
}
