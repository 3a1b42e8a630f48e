//! How much of a hash makes a fingerprint.

/// Bytes of the hash to keep: sixteen, printed as 32 hexadecimal digits.
pub(super) const FINGERPRINT_BYTES: usize = 16;

/// The part of a digest that is kept, in hexadecimal digits.
pub(super) fn shortened(digest: &[u8]) -> String {
    hex::encode(&digest[..FINGERPRINT_BYTES])
}
