//! What a package consists of.

use std::path::PathBuf;

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
    /// Man pages and completions, as the programs wrote them.
    pub(super) manual: PathBuf,
}
