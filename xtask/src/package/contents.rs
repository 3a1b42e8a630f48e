//! What a package consists of.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use super::build::Build;

/// The programs in every package.
pub const PROGRAMS: &[&str] = &["mcpinspectd", "mcpinspect", "mcpinspect-notify"];

/// The inputs of a package, and its name.
pub(super) struct Package {
    /// The version that the programs report.
    pub(super) version: String,
    pub(super) revision: u32,
    /// How its programs were built, and for which machine.
    pub(super) build: Build,
    /// The oldest GNU C library that the programs run with.
    pub(super) glibc: String,
    /// Whether it is for tests: packed fast rather than small.
    pub(super) quick: bool,
    /// The folder for the packages and their intermediate files.
    pub(super) folder: PathBuf,
    /// The folder of the programs as they are installed: without symbols.
    pub(super) programs: PathBuf,
    /// What was stripped from them, unless it is not wanted or cannot be found again.
    pub(super) symbols: Option<Symbols>,
    /// Man pages and completions, as the programs wrote them.
    pub(super) manual: PathBuf,
}

impl Package {
    /// A new file for a package of symbols. It is kept apart from the package of the programs, so
    /// that nobody installs it by a pattern.
    pub(super) fn symbols_file(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join("symbols");
        fs::create_dir_all(&folder)?;
        Ok(folder.join(name))
    }
}

/// The symbols of the programs.
pub(super) struct Symbols {
    /// The tree of files to install.
    pub(super) root: PathBuf,
    /// The programs' build IDs.
    pub(super) build_ids: Vec<String>,
}
