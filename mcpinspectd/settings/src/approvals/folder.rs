//! The lists of this machine: files in a directory, reread when they change.
//!
//! What brings the files (configuration management, a package, `scp`) need not communicate with the daemon. A
//! file that is refused is an event, and the last good list of that file still counts: a broken
//! copy must not withdraw approvals, and an attacker must not gain by breaking it. Removing a file
//! withdraws its list.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mcpinspect_core::model::Timestamp;
use mcpinspect_judge::registry::Listed;
use thiserror::Error;

use super::accepted::{AcceptedList, AcceptedLists, AcceptedListsError};
use super::keys::{KeyError, Keys, SIGNATURE_MAX};
use super::list::{ApprovalList, LIST_MAX, ListError};

/// The default location of lists.
pub const DIRECTORY: &str = "/etc/mcpinspectd/approvals.d";
/// The file, beside the registry, that remembers which lists were taken in.
pub const ACCEPTED_FILE: &str = "approvals.json";
/// Appended to a list's file name for its signature.
pub const SIGNATURE: &str = ".minisig";

/// How often to check files, in nanoseconds.
const EVERY: u64 = 2_000_000_000;
/// Most files to check.
const FILES_MAX: usize = 64;

/// Why a file was refused.
#[derive(Debug, Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// It has no signature.
    #[error("{0} is missing")]
    Unsigned(String),
    /// Its signature does not count.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// It is not a list.
    #[error(transparent)]
    List(#[from] ListError),
    /// A newer one was taken in.
    #[error(
        "its serial {serial} is lower than {known}, which was already loaded; increase the serial number"
    )]
    Older {
        /// Its serial.
        serial: u64,
        /// The serial that was seen.
        known: u64,
    },
    /// Another list has its serial number.
    #[error("another list with the serial {0} was already loaded; increase the serial number")]
    Twin(u64),
    /// It cannot be remembered.
    #[error(transparent)]
    Store(#[from] AcceptedListsError),
}

/// What became of a file.
#[derive(Debug)]
pub enum Notice {
    /// Its list counts from now on.
    Taken {
        /// The file's name.
        file: String,
        /// The list, its serial and its size, in words.
        list: String,
        /// Whose signature it has.
        key: String,
    },
    /// It was refused; the last good list of that file still counts.
    Refused {
        /// The file's name.
        file: String,
        /// Why.
        why: Refusal,
    },
    /// It is gone, and its list no longer counts.
    Withdrawn {
        /// The file's name.
        file: String,
        /// The list.
        list: String,
    },
}

/// What has changed since the last check.
#[derive(Debug)]
pub struct ApprovalChanges {
    /// What all lists say now.
    pub listed: Listed,
    /// What became of files.
    pub notices: Vec<Notice>,
}

/// Identifies a version of a file.
type Stamp = (i64, i64, u64, u64);
/// All files, each with its signature.
type Stamps = BTreeMap<String, [Option<Stamp>; 2]>;

/// The lists of this machine.
#[derive(Debug)]
pub struct ApprovalFolder {
    folder: PathBuf,
    keys: Result<Keys, Option<KeyError>>,
    accepted: Result<AcceptedLists, Option<AcceptedListsError>>,
    /// The files as last taken in, each with its signature.
    stamps: Stamps,
    /// The files at the last check, if they differed: a list and its signature do not arrive
    /// at the same time, so they count once they have stopped changing.
    moving: Option<Stamps>,
    looked: Option<Timestamp>,
    /// When something expires.
    next: Option<Timestamp>,
}

impl ApprovalFolder {
    /// The lists in `folder` signed by `keys`. What was taken in is remembered in the file `accepted`.
    pub fn new<T: AsRef<str>>(folder: &Path, keys: &[T], accepted: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            keys: Keys::new(keys).map_err(Some),
            accepted: AcceptedLists::open(accepted).map_err(Some),
            stamps: BTreeMap::new(),
            moving: None,
            looked: None,
            next: None,
        }
    }

    /// Checks the files, if that is due. Returns what is different.
    pub fn check(&mut self, now: Timestamp) -> Option<ApprovalChanges> {
        let is_first = self.looked.is_none();
        let is_due = self
            .looked
            .is_none_or(|at| now < at || now.nanos_since(at) >= EVERY);
        if !is_due {
            return None;
        }
        self.looked = Some(now);
        let stamps = stamps(&self.folder);
        let has_ended = self.next.is_some_and(|end| end <= now);
        if !is_first && !has_ended {
            if stamps == self.stamps {
                self.moving = None;
                return None;
            }
            if self.moving.as_ref() != Some(&stamps) {
                self.moving = Some(stamps);
                return None;
            }
        }
        self.moving = None;
        let before = std::mem::replace(&mut self.stamps, stamps);
        let mut notices = Vec::new();
        let changed: Vec<String> = self
            .stamps
            .iter()
            .filter(|(file, stamp)| before.get(*file) != Some(stamp))
            .map(|(file, _)| file.clone())
            .collect();
        for file in changed {
            match self.take(&file) {
                Ok(None) => {}
                Ok(Some((list, key))) => notices.push(Notice::Taken { file, list, key }),
                Err(why) => notices.push(Notice::Refused { file, why }),
            }
        }
        self.withdraw(&mut notices);
        let listed = self.listed(now);
        Some(ApprovalChanges { listed, notices })
    }

    /// Takes in a file. Returns the list and whose it is, unless it is the one that was taken in before.
    fn take(&mut self, file: &str) -> Result<Option<(String, String)>, Refusal> {
        let keys = match &mut self.keys {
            Ok(keys) => keys,
            Err(error) => return Err(error.take().unwrap_or(KeyError::NoKeys).into()),
        };
        let path = self.folder.join(file);
        let text = read(&path, LIST_MAX).map_err(Refusal::Unreadable)?;
        let name = format!("{file}{SIGNATURE}");
        let signature = match read(&self.folder.join(&name), SIGNATURE_MAX) {
            Ok(signature) => signature,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Refusal::Unsigned(name));
            }
            Err(error) => return Err(Refusal::Unreadable(error)),
        };
        let key = keys.verify(text.as_bytes(), &signature)?.to_owned();
        let list = ApprovalList::parse(&text)?;
        let accepted = match &mut self.accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                let error = error.take().unwrap_or(AcceptedListsError::Full);
                return Err(error.into());
            }
        };
        if let Some(known) = accepted.get(&list.name) {
            if list.serial < known.serial {
                return Err(Refusal::Older {
                    serial: list.serial,
                    known: known.serial,
                });
            }
            match &known.text {
                Some(same) if *same == text && known.file == *file => return Ok(None),
                Some(other) if *other != text && list.serial == known.serial => {
                    return Err(Refusal::Twin(list.serial));
                }
                _ => {}
            }
        }
        let description = format!(
            "{list}, {} approvals, {} revoked",
            list.approvals.len(),
            list.revoked.len()
        );
        accepted.set(AcceptedList {
            name: list.name,
            serial: list.serial,
            file: file.to_owned(),
            text: Some(text),
            signature,
        })?;
        Ok(Some((description, key)))
    }

    /// Gives up the lists whose files are gone. Their serial numbers stay.
    fn withdraw(&mut self, notices: &mut Vec<Notice>) {
        let Ok(accepted) = &mut self.accepted else {
            return;
        };
        let is_gone =
            |list: &&AcceptedList| list.text.is_some() && !self.stamps.contains_key(&list.file);
        let withdrawn: Vec<AcceptedList> = accepted.lists.iter().filter(is_gone).cloned().collect();
        for list in withdrawn {
            let (file, name) = (list.file.clone(), list.name.clone());
            let withdrawn = AcceptedList { text: None, ..list };
            notices.push(match accepted.set(withdrawn) {
                Ok(()) => Notice::Withdrawn { file, list: name },
                Err(error) => Notice::Refused {
                    file,
                    why: error.into(),
                },
            });
        }
    }

    /// What the lists say that were taken in and whose keys still count.
    fn listed(&mut self, now: Timestamp) -> Listed {
        let mut listed = Listed::default();
        self.next = None;
        let (Ok(keys), Ok(accepted)) = (&self.keys, &self.accepted) else {
            return listed;
        };
        for list in &accepted.lists {
            let Some(text) = &list.text else { continue };
            if keys.verify(text.as_bytes(), &list.signature).is_err() {
                continue;
            }
            if let Ok(list) = ApprovalList::parse(text) {
                let end = list.add_to(&mut listed, now);
                self.next = [self.next, end].into_iter().flatten().min();
            }
        }
        listed
    }
}

/// The files of a folder as they are now.
fn stamps(folder: &Path) -> Stamps {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let lists = names.filter(|name| name.ends_with(".json") && !name.starts_with('.'));
    let mut stamps = Stamps::new();
    for name in lists {
        let both = [
            stamp(&folder.join(&name)),
            stamp(&folder.join(format!("{name}{SIGNATURE}"))),
        ];
        stamps.insert(name, both);
        if stamps.len() > FILES_MAX {
            stamps.pop_last();
        }
    }
    stamps
}

fn stamp(path: &Path) -> Option<Stamp> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.mtime(), data.mtime_nsec(), data.ino(), data.len()))
}

/// A regular file's text, if it is no larger than `max` bytes.
fn read(path: &Path, max: usize) -> io::Result<String> {
    let mut options = std::fs::OpenOptions::new();
    // A pipe in its place must not block the daemon.
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        options.read(true),
        nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC,
    );
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    file.take(max as u64 + 1).read_to_string(&mut text)?;
    if text.len() > max {
        return Err(io::Error::other(format!("larger than {max} bytes")));
    }
    Ok(text)
}
