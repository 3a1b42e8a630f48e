//! Hashes of files, computed once per version of a file.

use std::collections::HashMap;
use std::io::Read as _;

use sha2::{Digest, Sha256};

use crate::found_file::{FileVersion, FoundFile};

/// Largest file to hash, in bytes. For a larger one, only the size is stated.
const MAX_FILE: u64 = 512 << 20;
/// Most files whose hash is cached.
const MAX_CACHED: usize = 1024;

/// Hashes files and caches the results.
#[derive(Debug, Default)]
pub(super) struct FileHashes {
    known: HashMap<FileVersion, String>,
}

impl FileHashes {
    /// SHA-256 of a file in hexadecimal digits; for a file that is too large, a note of its size.
    pub(super) fn hash(&mut self, file: &FoundFile) -> Option<String> {
        let version = file.version();
        if let Some(hash) = self.known.get(&version) {
            return Some(hash.clone());
        }
        if u64::try_from(version.size).is_ok_and(|size| size > MAX_FILE) {
            return Some(format!("not hashed: {} bytes", version.size));
        }
        let mut hash = Sha256::new();
        // The limit applies here too: the file may grow while it is read.
        std::io::copy(&mut file.file()?.take(MAX_FILE), &mut hash).ok()?;
        let hash = hex::encode(hash.finalize());
        if self.known.len() >= MAX_CACHED {
            self.known.clear();
        }
        self.known.insert(version, hash.clone());
        Some(hash)
    }
}
