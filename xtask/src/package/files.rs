//! Files and folders of a tree to be packed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The entries of a directory, sorted.
pub(super) fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// The path of the file of the same name in another directory.
pub(super) fn into(directory: &Path, file: &Path) -> PathBuf {
    directory.join(file.file_name().unwrap_or_default())
}

/// Copies a file and creates the directories above it.
pub(super) fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    create_parent(to)?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    set_mode(to, mode)
}

/// Writes a file and creates the directories above it.
pub(super) fn write(to: &Path, text: &str) -> Result<()> {
    create_parent(to)?;
    fs::write(to, text)?;
    set_mode(to, 0o644)
}

/// Creates the directories above a file.
pub(super) fn create_parent(file: &Path) -> Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
    Ok(())
}

/// Sets who may do what with a file or directory.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Makes directories accessible to everyone, whatever the umask.
pub(super) fn modes(directory: &Path) -> Result<()> {
    set_mode(directory, 0o755)?;
    listed(directory)?
        .iter()
        .filter(|path| path.is_dir())
        .try_for_each(|path| modes(path))
}

/// All files below `root`, as absolute paths of the installed system, sorted.
pub(super) fn installed(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for path in listed(&directory)? {
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.push(Path::new("/").join(path.strip_prefix(root)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The size of all files below `root` in KiB, each rounded up.
pub(super) fn size(root: &Path) -> Result<u64> {
    let files = installed(root)?;
    let sizes = files.iter().map(|file| {
        let below = file.strip_prefix("/").unwrap_or(file);
        Ok(fs::metadata(root.join(below))?.len().div_ceil(1024))
    });
    sizes.sum()
}
