//! The lists that were taken in, on disk.
//!
//! A machine has to remember the highest serial number of each list, or anyone who can replace files could
//! bring back a revoked approval. The list itself is kept beside it: if the file has
//! been damaged since, the last good one still counts.

use std::io;
use std::path::{Path, PathBuf};

use mcpinspect_runtime::files;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Largest file, in bytes: JSON may double a text.
const FILE_MAX: u64 = 64 << 20;
/// Largest texts of all lists together, in bytes.
const TEXTS_MAX: usize = 24 << 20;
/// Most names.
const LISTS_MAX: usize = 64;

/// Why the file cannot be used.
#[derive(Debug, Error)]
pub enum AcceptedListsError {
    /// It is not as it was written.
    #[error("{path} is damaged; remove it to reload all lists")]
    Damaged {
        /// Which.
        path: PathBuf,
    },
    /// There is no room for another list.
    #[error(
        "there are more than {LISTS_MAX} lists, or they are larger than {TEXTS_MAX} bytes together"
    )]
    Full,
    /// It cannot be read or written.
    #[error("cannot use {path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A list that was taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedList {
    /// Its name.
    pub name: String,
    /// Its serial number: no lower one is taken in.
    pub serial: u64,
    /// The file that it came from.
    pub file: String,
    /// Its text; `None` if the file is gone.
    pub text: Option<String>,
    /// The text's signature.
    pub signature: String,
}

/// The file.
#[derive(Debug)]
pub struct AcceptedLists {
    path: PathBuf,
    /// The lists.
    pub lists: Vec<AcceptedList>,
}

impl AcceptedLists {
    /// What is in the file at `path`; empty if there is none.
    ///
    /// # Errors
    /// See [`AcceptedListsError`].
    pub fn open(path: &Path) -> Result<Self, AcceptedListsError> {
        let lists = match read(path) {
            Ok(text) => serde_json::from_str(&text).map_err(|_| AcceptedListsError::Damaged {
                path: path.to_owned(),
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(path, error)),
        };
        let path = path.to_owned();
        Ok(Self { path, lists })
    }

    /// The list of this name.
    pub fn get(&self, name: &str) -> Option<&AcceptedList> {
        self.lists.iter().find(|list| list.name == name)
    }

    /// Replaces the list of this name, on disk first.
    ///
    /// # Errors
    /// It cannot be written; then nothing has changed.
    pub fn set(&mut self, list: AcceptedList) -> Result<(), AcceptedListsError> {
        let mut lists = self.lists.clone();
        lists.retain(|other| other.name != list.name);
        lists.push(list);
        let texts = lists.iter().filter_map(|list| list.text.as_ref());
        if lists.len() > LISTS_MAX || texts.map(String::len).sum::<usize>() > TEXTS_MAX {
            return Err(AcceptedListsError::Full);
        }
        let text = serde_json::to_vec(&lists)
            .map_err(|error| failed(&self.path, io::Error::other(error)))?;
        files::replace(&self.path, &text, 0o600).map_err(|error| failed(&self.path, error))?;
        self.lists = lists;
        Ok(())
    }
}

fn failed(path: &Path, error: io::Error) -> AcceptedListsError {
    let path = path.to_owned();
    AcceptedListsError::Io { path, error }
}

fn read(path: &Path) -> io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(text)
}
