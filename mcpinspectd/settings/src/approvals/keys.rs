//! Whose signatures count: keys of minisign, which is Ed25519 over a hash of the file.
//!
//! The format is that of a small, ubiquitous tool, so a list can be signed and checked
//! without this program, and keys can be kept wherever people already keep such keys.

use std::path::Path;

use minisign_verify::{PublicKey, Signature};
use thiserror::Error;

/// Largest signature or key file, in bytes.
pub const SIGNATURE_MAX: usize = 4 << 10;

/// Why a signature does not count.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A configured key is not one.
    #[error("{0:?} is neither a minisign public key nor a file with one")]
    NotAKey(String),
    /// There is no signature, or something else in its place.
    #[error("its signature is not a minisign signature")]
    NotASignature,
    /// There is none of a known key.
    #[error("not signed by a key in the configuration, or changed after signing")]
    Untrusted,
    /// There are no keys.
    #[error("the configuration has no key; set `keys` in `[approvals]`")]
    NoKeys,
}

/// Whose signatures count.
#[derive(Debug, Default)]
pub struct Keys(Vec<(String, PublicKey)>);

impl Keys {
    /// These keys: each its base64 text, or the path of a file with one.
    ///
    /// # Errors
    /// One of them is not a key.
    pub fn new<T: AsRef<str>>(texts: &[T]) -> Result<Self, KeyError> {
        let keys = texts.iter().map(|text| {
            let text = text.as_ref();
            // A key may contain a slash too.
            let key = PublicKey::from_base64(text.trim());
            let key = key.or_else(|_| PublicKey::from_file(Path::new(text)));
            key.map(|key| (text.to_owned(), key))
                .map_err(|_| KeyError::NotAKey(text.to_owned()))
        });
        Ok(Self(keys.collect::<Result<_, _>>()?))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks the signature of a text. Returns the key that made it, as the configuration names it.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn verify(&self, text: &[u8], signature: &str) -> Result<&str, KeyError> {
        if self.0.is_empty() {
            return Err(KeyError::NoKeys);
        }
        if signature.len() > SIGNATURE_MAX {
            return Err(KeyError::NotASignature);
        }
        let signature = Signature::decode(signature).map_err(|_| KeyError::NotASignature)?;
        let mut keys = self.0.iter();
        // The older form hashes nothing, and no list needs it.
        keys.find(|(_, key)| key.verify(text, &signature, false).is_ok())
            .map(|(name, _)| name.as_str())
            .ok_or(KeyError::Untrusted)
    }
}
