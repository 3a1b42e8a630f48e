//! A configuration, read and replaced safely.
//!
//! Whatever happens, there is a complete file under its name, the old one or the new one: the new one is written
//! beside it and replaces it at once, with its mode, owner and access control list. Everything is done from the
//! opened directory, so that no one can put another one in its place; and root, who may write
//! anywhere, follows no symbolic links to it, because the owner of any directory on the way could send root
//! elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use mcpinspect_core::text::escape::plain;
use mcpinspect_process::identity::edit::Edited;
use mcpinspect_process::identity::editable::MAX_FILE;
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, XattrFlags,
    accessat, fchmod, fchown, fgetxattr, fsetxattr, fstat, fsync, openat, openat2, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The suffix of a backup's name.
const BACKUP: &str = ".mcpinspect-backup";
/// Where an access control list is stored.
const ACCESS_LIST: &str = "system.posix_acl_access";
/// Largest access control list, in bytes.
const MAX_ACCESS_LIST: usize = 64 * 1024;

/// A configuration as it was read.
pub struct Configuration {
    directory: OwnedFd,
    folder: PathBuf,
    name: OsString,
    stat: Stat,
    access_list: Option<Vec<u8>>,
    text: Vec<u8>,
}

/// What became of the original file.
pub enum Backup {
    /// It is at this path.
    Made(String),
    /// One from before the guard already is at this path.
    Kept(String),
    /// The configuration is the same again.
    Removed,
    /// There is none.
    None,
}

impl Configuration {
    /// Reads it.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let (directory, folder, name) = open_parent(path)?;
        let cannot = || format!("cannot read {}", path.display());
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&directory, &name, flags, Mode::empty()) {
            Err(Errno::LOOP) => bail!(refused_link(path)),
            file => file.with_context(cannot)?,
        };
        let stat = fstat(&file).with_context(cannot)?;
        let shown = path.display();
        ensure!(
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
            "{shown} is not a regular file"
        );
        ensure!(
            stat.st_nlink == 1,
            "{shown} has several hard links, and only one of them would be changed: edit the file by hand"
        );
        ensure!(
            u64::try_from(stat.st_size).is_ok_and(|size| size <= MAX_FILE),
            "{shown} is larger than {} MiB",
            MAX_FILE >> 20
        );
        let access_list = access_list(&file).with_context(cannot)?;
        let mut text = Vec::new();
        let read = File::from(file).take(MAX_FILE).read_to_end(&mut text);
        read.with_context(cannot)?;
        Ok(Self {
            directory,
            folder,
            name,
            stat,
            access_list,
            text,
        })
    }

    /// What is in it.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Where it is, for display.
    pub fn path(&self) -> String {
        self.shown(&self.name)
    }

    fn shown(&self, name: &OsStr) -> String {
        plain(&self.folder.join(name).display().to_string()).into_owned()
    }

    /// Replaces its text. The file as it was before any guard is kept beside it, until it is
    /// the same again.
    pub fn replace(&self, edited: &Edited) -> anyhow::Result<Backup> {
        let path = self.path();
        let writable = accessat(
            &self.directory,
            &self.name,
            Access::WRITE_OK,
            AtFlags::EACCESS,
        );
        writable.with_context(|| {
            format!("no permission to write {path}: ask its administrator to change it")
        })?;
        let mut backup_name = self.name.clone();
        backup_name.push(BACKUP);
        let backup_path = self.shown(&backup_name);
        let was_guarded = edited.servers.iter().any(|server| server.was_guarded);
        let is_guarded = edited.servers.iter().any(|server| server.is_guarded);
        let before = self.backup(&backup_name);
        let makes_one = is_guarded && !(was_guarded && before.is_some());
        if makes_one {
            self.put(&backup_name, &self.text)
                .with_context(|| format!("cannot write {backup_path}; nothing was changed"))?;
        }
        let now = statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let now = now.with_context(|| format!("cannot read {path}"))?;
        ensure!(
            version(&now) == version(&self.stat),
            "{path} was changed by another program, so it was left alone: close the client and try again"
        );
        self.put(&self.name, edited.text.as_bytes())
            .with_context(|| format!("cannot write {path}; it was not changed"))?;
        Ok(match before {
            _ if makes_one => Backup::Made(backup_path),
            None => Backup::None,
            Some(before) if !is_guarded && before == edited.text.as_bytes() => {
                let removed = unlinkat(&self.directory, &backup_name, AtFlags::empty());
                removed.with_context(|| format!("cannot remove {backup_path}"))?;
                Backup::Removed
            }
            Some(_) => Backup::Kept(backup_path),
        })
    }

    /// What is in a backup that was made earlier.
    fn backup(&self, name: &OsStr) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.directory, name, flags, Mode::empty()).ok()?;
        let stat = fstat(&file).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let mut text = Vec::new();
        is_file.then_some(())?;
        File::from(file)
            .take(MAX_FILE)
            .read_to_end(&mut text)
            .ok()?;
        Some(text)
    }

    /// Replaces a file at once.
    fn put(&self, name: &OsStr, text: &[u8]) -> io::Result<()> {
        let mut other = OsString::from(".");
        other.push(&self.name);
        other.push(format!(".mcpinspect-{}", std::process::id()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let own = Mode::RUSR | Mode::WUSR;
        // Left by a killed process of the same number. Only our own files have this name.
        let _ = unlinkat(&self.directory, &other, AtFlags::empty());
        let file = openat(&self.directory, &other, flags | OFlags::CLOEXEC, own)?;
        let done = self.fill(File::from(file), text).and_then(|()| {
            renameat(&self.directory, &other, &self.directory, name)?;
            fsync(&self.directory)?;
            Ok(())
        });
        if done.is_err() {
            let _ = unlinkat(&self.directory, &other, AtFlags::empty());
        }
        done
    }

    fn fill(&self, mut file: File, text: &[u8]) -> io::Result<()> {
        file.write_all(text)?;
        let new = fstat(&file)?;
        if (new.st_uid, new.st_gid) != (self.stat.st_uid, self.stat.st_gid) {
            let owner = Uid::from_raw(self.stat.st_uid);
            let group = Gid::from_raw(self.stat.st_gid);
            fchown(&file, Some(owner), Some(group))?;
        }
        fchmod(&file, Mode::from_raw_mode(self.stat.st_mode & 0o7777))?;
        if let Some(list) = &self.access_list {
            fsetxattr(&file, ACCESS_LIST, list, XattrFlags::empty())?;
        }
        file.sync_all()
    }
}

/// The directory of a file, its path, and the file's name in it.
fn open_parent(path: &Path) -> anyhow::Result<(OwnedFd, PathBuf, OsString)> {
    let cannot = || format!("cannot find {}", path.display());
    let is_root = geteuid().is_root();
    let real = match is_root {
        true => std::path::absolute(path),
        // A file that is kept elsewhere is changed there.
        false => path.canonicalize(),
    };
    let real = real.with_context(cannot)?;
    let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else {
        bail!("{} is not a file", path.display());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = match is_root {
        true => openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS),
        false => openat(CWD, folder, flags, Mode::empty()),
    };
    match directory {
        Err(Errno::LOOP) => bail!(refused_link(path)),
        directory => Ok((
            directory.with_context(cannot)?,
            folder.to_owned(),
            name.to_owned(),
        )),
    }
}

/// Why root stops here.
fn refused_link(path: &Path) -> String {
    let real = path.canonicalize().ok();
    let real = real.map(|real| format!(", or give its real path, {}", real.display()));
    format!(
        "there is a symbolic link on the way to {}, which root does not follow: run this as the user whose configuration it is{}",
        path.display(),
        real.unwrap_or_default()
    )
}

/// The access control list of a file, if it has one.
fn access_list(file: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    let mut list = vec![0; MAX_ACCESS_LIST];
    match fgetxattr(file.as_fd(), ACCESS_LIST, &mut list[..]) {
        Ok(length) => {
            list.truncate(length);
            Ok(Some(list))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What differs after a change.
fn version(stat: &Stat) -> (u64, i64, i64, i64) {
    #[expect(
        clippy::unnecessary_cast,
        reason = "the types of the fields differ between architectures"
    )]
    (
        stat.st_ino as u64,
        stat.st_size as i64,
        stat.st_ctime as i64,
        stat.st_ctime_nsec as i64,
    )
}
