//! Writes files that others read in the meantime.

use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Replaces a file in one step: readers see the old content or the new, never a part.
///
/// # Errors
/// Any failure of the file system.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let beside = PathBuf::from(name);
    // A crash or another user may have left a file here; ours must be a new one either way.
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    // Exactly as requested, regardless of the process' umask.
    let permissions = std::fs::Permissions::from_mode(mode);
    let written = file
        .set_permissions(permissions)
        .and_then(|()| file.write_all(content))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_stays_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(directory.path().join("file.new"), "left by a crash").unwrap();
        replace(&path, b"one", 0o600).unwrap();
        replace(&path, b"two", 0o640).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error() {
        assert!(replace(Path::new("/nonexistent/file"), b"", 0o600).is_err());
        // A directory cannot be replaced; it stays, and no temporary file is left behind.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("directory");
        std::fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"", 0o600).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
