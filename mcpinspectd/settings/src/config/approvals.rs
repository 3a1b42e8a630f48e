//! Which signed lists of approved definitions count.

use std::path::PathBuf;

use serde::Deserialize;

use crate::approvals::folder::DIRECTORY;

/// Which signed lists of approved definitions count.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Approvals {
    /// The directory with the lists, `*.json`, and their signatures, `*.json.minisig`.
    pub path: PathBuf,
    /// Whose signatures count: public keys of minisign, or files with one. Without any, no list does.
    pub keys: Vec<String>,
}

impl Default for Approvals {
    fn default() -> Self {
        Self {
            path: PathBuf::from(DIRECTORY),
            keys: Vec::new(),
        }
    }
}
