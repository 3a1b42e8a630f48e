//! Following a path link by link, with no more rights than a user has.
//!
//! Where a link leads matters here, not only what is at its end, and where the daemon may search every
//! directory, its user may not. So a path is walked component by component from the process' root:
//! `..` never leaves it, a directory is entered only if its owner's or everyone's permissions let the
//! user search it (groups do not count, as for the files in [`root`](super::root)), and neither links
//! nor components are followed without end. The kernel's magic links are text like any other. Nothing
//! is opened but to refer to it, so neither pipes nor devices can block.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};

use super::root::{FoundFile, Root};

/// Most links to directories on the way to a file.
const MAX_LINKS: u32 = 16;
/// Most components of a path, including those of the links in it.
const MAX_COMPONENTS: usize = 256;

/// What is at the end of a path.
#[derive(Debug)]
pub(super) enum Entry {
    /// A link, and where it points.
    Link(String),
    /// A regular file that the user may read.
    File(FoundFile),
}

/// The end of a path.
#[derive(Debug)]
pub(super) struct Found {
    /// The path of the directory that it is in, from the root and without links.
    pub(super) directory: String,
    pub(super) entry: Entry,
}

/// How many directories may still be looked into, over several walks.
#[derive(Debug)]
pub(super) struct Budget(Cell<u32>);

impl Budget {
    pub(super) fn new(steps: u32) -> Self {
        Self(Cell::new(steps))
    }

    fn spend(&self) -> Option<()> {
        self.0.set(self.0.get().checked_sub(1)?);
        Some(())
    }
}

/// A directory below the root.
struct Directory {
    handle: OwnedFd,
    stat: Stat,
    name: String,
}

/// What an absolute path of the process leads to, with all links followed but the last; `None` if there
/// is neither a link nor a file that the user can reach.
pub(super) fn walk(root: &Root, path: &str, budget: &Budget) -> Option<Found> {
    let mut rest = path.strip_prefix('/').map(components)?;
    let top = fstat(root.directory()).ok()?;
    let mut inside: Vec<Directory> = Vec::new();
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match part.as_str() {
            "" | "." => continue,
            ".." => {
                inside.pop();
                continue;
            }
            _ => {}
        }
        let (within, stat) = match inside.last() {
            Some(directory) => (directory.handle.as_fd(), &directory.stat),
            None => (root.directory(), &top),
        };
        if !is_searchable(stat, root.uid()) {
            return None;
        }
        budget.spend()?;
        let handle = entry(within, &part)?;
        let stat = fstat(&handle).ok()?;
        let is_last = rest.is_empty();
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => inside.push(Directory {
                handle,
                stat,
                name: part,
            }),
            FileType::Symlink => {
                let target = readlinkat(&handle, "", Vec::new()).ok()?;
                let target = target.into_string().ok()?;
                if is_last {
                    return Some(found(&inside, Entry::Link(target)));
                }
                links += 1;
                if links > MAX_LINKS {
                    return None;
                }
                if target.starts_with('/') {
                    inside.clear();
                }
                rest.extend(components(&target));
            }
            FileType::RegularFile if is_last => {
                let file = FoundFile::new(handle).filter(|file| file.is_readable_by(root.uid()))?;
                return Some(found(&inside, Entry::File(file)));
            }
            _ => return None,
        }
        if rest.len() > MAX_COMPONENTS {
            return None;
        }
    }
    None
}

/// The components of a path, the last one first.
fn components(path: &str) -> Vec<String> {
    path.rsplit('/').map(str::to_owned).collect()
}

fn entry(directory: BorrowedFd<'_>, name: &str) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty()).ok()
}

fn found(inside: &[Directory], entry: Entry) -> Found {
    let names = inside.iter().map(|directory| directory.name.as_str());
    let directory = format!("/{}", names.collect::<Vec<_>>().join("/"));
    Found { directory, entry }
}

fn is_searchable(directory: &Stat, uid: u32) -> bool {
    uid == 0
        || directory.st_mode & 0o001 != 0
        || (directory.st_uid == uid && directory.st_mode & 0o100 != 0)
}
