//! Follows a path link by link, with no more rights than a user has.
//!
//! Where a link leads matters here, not only what is at its end; and the daemon may search every
//! directory, but its user may not. So a path is walked component by component from the process' root:
//! `..` never leaves it, a directory is entered only if the user may search it (see
//! [`reader`](super::reader)), and the number of links and components is bounded. The kernel's
//! magic links would lead through other processes' directories, so no link in `/proc` is followed. Each
//! step starts at the directory that was examined, so it makes no difference if another one takes its
//! place. Nothing is opened except to refer to it, so neither pipes nor devices can block.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, openat, readlinkat,
};

use super::found_file::FoundFile;
use super::reader::{Reader, Right};

/// Most links to directories on the way to a file.
const MAX_LINKS: u32 = 16;
/// Most components of a path, including those of links in it.
const MAX_COMPONENTS: usize = 256;

/// What is at the end of a path.
#[derive(Debug)]
pub(super) enum Entry {
    /// A link, and where it points.
    Link(String),
    /// A regular file that the user may read.
    File(FoundFile),
    /// A directory that the user may read, only referred to.
    Directory(OwnedFd),
}

/// The end of a path.
#[derive(Debug)]
pub(super) struct ResolvedPath {
    /// The path of the directory that contains it, from the root and without links.
    pub(super) directory: String,
    /// Whether links were followed on the way.
    pub(super) followed: bool,
    pub(super) entry: Entry,
}

/// Whether a link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastLink {
    Follow,
    Keep,
}

/// How many directories may still be searched, over several walks.
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

/// What an absolute path leads to for `reader`, starting at the directory `root` and following all links, or
/// all but the last; `None` if there is nothing that the user can reach.
pub(super) fn walk(
    root: BorrowedFd<'_>,
    reader: &Reader,
    path: &str,
    last: LastLink,
    budget: &Budget,
) -> Option<ResolvedPath> {
    let mut rest = path.strip_prefix('/').map(components)?;
    let top = fstat(root).ok()?;
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
        let (within, stat) = innermost(&inside, root, &top);
        if !reader.may(Right::Search, within, stat) {
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
                if fstatfs(&handle).ok()?.f_type == PROC_SUPER_MAGIC {
                    return None;
                }
                let target = readlinkat(&handle, "", Vec::new()).ok()?;
                let target = target.into_string().ok()?;
                if is_last && last == LastLink::Keep {
                    return Some(resolved(&inside, links > 0, Entry::Link(target)));
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
                if !reader.may(Right::Read, &handle, &stat) {
                    return None;
                }
                let file = FoundFile::new(handle)?;
                return Some(resolved(&inside, links > 0, Entry::File(file)));
            }
            _ => return None,
        }
        if rest.len() > MAX_COMPONENTS {
            return None;
        }
    }
    let (directory, stat) = innermost(&inside, root, &top);
    if !reader.may(Right::Read, directory, stat) {
        return None;
    }
    let entry = Entry::Directory(directory.try_clone_to_owned().ok()?);
    Some(resolved(&inside, links > 0, entry))
}

fn innermost<'a>(
    inside: &'a [Directory],
    root: BorrowedFd<'a>,
    top: &'a Stat,
) -> (BorrowedFd<'a>, &'a Stat) {
    match inside.last() {
        Some(directory) => (directory.handle.as_fd(), &directory.stat),
        None => (root, top),
    }
}

/// The components of a path, the last one first.
fn components(path: &str) -> Vec<String> {
    path.rsplit('/').map(str::to_owned).collect()
}

fn entry(directory: BorrowedFd<'_>, name: &str) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty()).ok()
}

fn resolved(inside: &[Directory], followed: bool, entry: Entry) -> ResolvedPath {
    let names = inside.iter().map(|directory| directory.name.as_str());
    let directory = format!("/{}", names.collect::<Vec<_>>().join("/"));
    ResolvedPath {
        directory,
        followed,
        entry,
    }
}
