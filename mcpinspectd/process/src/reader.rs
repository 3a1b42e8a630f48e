//! The user on whose behalf files are examined.
//!
//! The daemon may read everything, and what it reveals about a file (a hash, a version, that it exists) goes to
//! the user whose process named it. So it examines a file as the kernel would for that user: by the
//! permission bits of the file and of every directory on the way, with the user's groups. If an access
//! control list may say otherwise, only the owner is allowed. It does not take on the user's
//! identity, for which it would need rights over all users.

use std::os::fd::{AsFd, AsRawFd as _};

use mcpinspect_core::model::Pid;
use rustix::fs::{Mode, OFlags, Stat, getxattr, openat};
use rustix::io::Errno;

use super::procfs;

/// Most bytes of `/proc/PID/status`. Linux allows 65,536 groups; any beyond this are ignored.
const MAX_STATUS: u64 = 64 << 10;

/// What a user wants to do with a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// Read it.
    Read,
    /// Reach what is inside it.
    Search,
}

/// A user, with groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reader {
    uid: u32,
    groups: Vec<u32>,
}

impl Reader {
    /// The user `uid` with the groups of one of their processes; without groups if it is gone.
    pub(super) fn of(pid: Pid, uid: u32) -> Self {
        Self {
            uid,
            groups: groups(pid, uid),
        }
    }

    /// The user `uid` without groups.
    #[cfg(test)]
    pub(super) fn alone(uid: u32) -> Self {
        Self {
            uid,
            groups: Vec::new(),
        }
    }

    /// The user's id.
    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether the user has this right to what `handle` refers to.
    pub(super) fn may(&self, right: Right, handle: impl AsFd, stat: &Stat) -> bool {
        let bit = match right {
            Right::Read => 0o4,
            Right::Search => 0o1,
        };
        // The first class that the user belongs to decides, even if a later one would allow more.
        let shift = if self.uid == 0 {
            return true;
        } else if stat.st_uid == self.uid {
            6
        } else if has_access_list(handle) {
            return false;
        } else if self.groups.contains(&stat.st_gid) {
            3
        } else {
            0
        };
        stat.st_mode & (bit << shift) != 0
    }
}

/// The groups of a process, if it is still one of this user's.
fn groups(pid: Pid, uid: u32) -> Vec<u32> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let path = format!("/proc/{pid}/status");
    let status = openat(rustix::fs::CWD, path, flags, Mode::empty());
    let Ok(status) = status.map(std::fs::File::from) else {
        return Vec::new();
    };
    let mut text = Vec::new();
    let read = std::io::Read::read_to_end(&mut std::io::Read::take(status, MAX_STATUS), &mut text);
    match read {
        Ok(_) if procfs::real_uid(&text) == Some(uid) => procfs::groups(&text),
        _ => Vec::new(),
    }
}

fn has_access_list(handle: impl AsFd) -> bool {
    let path = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
    let mut nothing: [u8; 0] = [];
    !matches!(
        getxattr(path, "system.posix_acl_access", &mut nothing[..]),
        Err(Errno::NODATA | Errno::OPNOTSUPP)
    )
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::fstat;

    use super::*;

    #[test]
    fn the_first_class_that_a_user_belongs_to_decides() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let stat = fstat(&file).unwrap();
        let stranger = stat.st_uid.wrapping_add(12_345);
        let reader = |uid, groups: &[u32]| Reader {
            uid,
            groups: groups.to_vec(),
        };
        let member = reader(stranger, &[1, stat.st_gid]);
        let other = reader(stranger, &[stat.st_gid.wrapping_add(12_345)]);
        for (mode, members, others) in [
            (0o600, false, false),
            (0o640, true, false),
            (0o604, false, true),
            (0o644, true, true),
        ] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let stat = fstat(&file).unwrap();
            assert_eq!(member.may(Right::Read, &file, &stat), members, "{mode:o}");
            assert_eq!(other.may(Right::Read, &file, &stat), others, "{mode:o}");
            assert!(!other.may(Right::Search, &file, &stat));
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o077)).unwrap();
        let owner = reader(stat.st_uid, &[stat.st_gid]);
        let stat = fstat(&file).unwrap();
        assert_eq!(owner.may(Right::Read, &file, &stat), stat.st_uid == 0);
    }

    #[test]
    fn groups_are_those_of_the_users_own_process() {
        let me = Pid(std::process::id());
        let uid = nix::unistd::getuid().as_raw();
        assert!(!Reader::of(me, uid).groups.is_empty());
        assert_eq!(Reader::of(me, uid.wrapping_add(1)).groups, [0; 0]);
    }
}
