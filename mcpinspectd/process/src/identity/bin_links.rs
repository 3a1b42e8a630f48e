//! The package behind a command in `node_modules/.bin`, or in the `bin` of a global installation.
//!
//! What npm installs there is a link, `mcp -> ../@scope/package/dist/index.js`; what pnpm installs is
//! a small shell script to the same effect; and `npx mcp` runs the one nearest to its working
//! directory. A globally installed command is a link too,
//! `/usr/local/bin/mcp -> ../lib/node_modules/@scope/package/dist/index.js`. Packages call their commands
//! what they like, many of them `mcp`; so the link is followed to the package.
//!
//! The files belong to the server's user, who may have made anything of them. They decide a name and
//! nothing else; they are read from the process' own root, with no more rights than its user has (see
//! [`walk`](crate::walk)), and all look-ups for a server together take a bounded number of steps. If
//! one fails, the server is named after the command.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::Path;

use mcpinspect_core::model::Pid;

use super::node_modules::{self, NodeModulesPath};
use super::normal;
use crate::info::{ProcessSnapshot, start_time};
use crate::root::Root;
use crate::walk::{Budget, Entry, LastLink, ResolvedPath, walk};

/// Most directories to search for one server, each in some microseconds.
const MAX_STEPS: u32 = 4096;
/// Most links from a command to its script.
const MAX_HOPS: usize = 8;
/// How many levels up from a directory to search for commands and packages.
const MAX_LEVELS: usize = 24;
/// Largest shell script to read, in bytes.
const MAX_SHIM: u64 = 16 << 10;
/// Largest `package.json` to read, in bytes.
const MAX_MANIFEST: u64 = 1 << 20;

/// Finds packages behind commands, as a server's process sees its files.
#[derive(Debug)]
pub(super) struct BinLinks {
    /// The process: its number, start time and user.
    process: Option<(Pid, u64, u32)>,
    root: OnceCell<Option<Root>>,
    budget: Budget,
    /// What was found for each path.
    known: RefCell<HashMap<String, Option<String>>>,
}

impl BinLinks {
    /// Sees the files of a process. Opens nothing until asked.
    pub(super) fn of(process: &ProcessSnapshot) -> Self {
        Self::new(Some((process.pid, process.start_time, process.uid)))
    }

    /// Sees no files: every command is its own name.
    pub(super) fn none() -> Self {
        Self::new(None)
    }

    fn new(process: Option<(Pid, u64, u32)>) -> Self {
        Self {
            process,
            root: OnceCell::new(),
            budget: Budget::new(MAX_STEPS),
            known: RefCell::default(),
        }
    }

    /// The name of the package behind the command at an absolute path. Outside `node_modules`, only a link
    /// into one leads to a package: other programs may be part of projects too.
    pub(super) fn package(&self, command: &str) -> Option<String> {
        if let Some(known) = self.known.borrow().get(command) {
            return known.clone();
        }
        let found = self.follow(command);
        let mut known = self.known.borrow_mut();
        known.insert(command.to_owned(), found.clone());
        found
    }

    /// The package whose command `npx` runs in this working directory: the nearest one in the
    /// `node_modules` of the directory and those above.
    pub(super) fn nearest(&self, command: &str, cwd: &str) -> Option<String> {
        if !node_modules::is_command_name(command) {
            return None;
        }
        let levels = levels(Path::new(cwd));
        let mut paths = levels.map(|level| format!("{level}/node_modules/.bin/{command}"));
        let path = paths.find(|path| self.look(path).is_some())?;
        self.package(&path)
    }

    fn root(&self) -> Option<&Root> {
        let open = || {
            let (pid, started, uid) = self.process?;
            let root = Root::of(pid, uid)?;
            // Another process may have the number by now.
            start_time(pid).filter(|now| *now == started).map(|_| root)
        };
        self.root.get_or_init(open).as_ref()
    }

    fn look(&self, path: &str) -> Option<ResolvedPath> {
        let root = self.root()?;
        let (directory, reader) = (root.directory(), root.reader());
        walk(directory, reader, path, LastLink::Keep, &self.budget)
    }

    fn follow(&self, command: &str) -> Option<String> {
        let mut path = command.to_owned();
        for hop in 0..MAX_HOPS {
            let ResolvedPath {
                directory, entry, ..
            } = self.look(&path)?;
            let target = match entry {
                Entry::Directory(_) => return None,
                Entry::Link(target) => target,
                Entry::File(file) => {
                    let shim = file
                        .contents(MAX_SHIM)
                        .and_then(|text| node_modules::shim_target(&text));
                    match shim {
                        Some(target) => target,
                        // A command that is neither link nor shell script, or the end of a link that is
                        // not in a package's folder.
                        None if hop == 0 || !command.contains("/node_modules/") => return None,
                        None => return self.project(&directory),
                    }
                }
            };
            path = normal::join(&directory, &target);
            if let Some(NodeModulesPath::Package(name)) = node_modules::locate(&path) {
                return node_modules::is_package_name(&name).then_some(name);
            }
        }
        None
    }

    /// The name of the project that a directory is in. Only a workspace's own packages are linked to
    /// without a folder in `node_modules`.
    fn project(&self, directory: &str) -> Option<String> {
        for level in levels(Path::new(directory)) {
            let manifest = self.look(&format!("{level}/package.json"));
            if let Some(ResolvedPath {
                entry: Entry::File(file),
                ..
            }) = manifest
            {
                let text = file.contents(MAX_MANIFEST)?;
                if let Some(name) = node_modules::manifest_name(&text)? {
                    return Some(name);
                }
            }
        }
        None
    }
}

/// An absolute directory and those above it, without a slash at the end.
fn levels(directory: &Path) -> impl Iterator<Item = &str> {
    directory
        .ancestors()
        .take(MAX_LEVELS)
        .filter_map(|level| level.to_str())
        .filter(|level| level.starts_with('/'))
        .map(|level| level.trim_end_matches('/'))
}

#[cfg(test)]
mod tests;
