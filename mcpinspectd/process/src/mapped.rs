//! Which files a process has mapped for execution: its program and its libraries.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use mcpinspect_core::model::Pid;

/// Bytes to read of a process's list of mappings.
const LIST_MAX: u64 = 4 << 20;
/// Most files of one process to look at.
const FILES_MAX: usize = 2048;
/// A file that is mapped for execution.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapped {
    /// Its device and inode number.
    pub dev: u64,
    /// See above.
    pub ino: u64,
    /// Where it can be reached from here.
    pub path: PathBuf,
}

impl Mapped {
    /// The files of a process; none if it is gone.
    pub fn of(pid: Pid) -> Vec<Self> {
        let Ok(list) = File::open(format!("/proc/{pid}/maps")) else {
            return Vec::new();
        };
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let mut files = BTreeSet::new();
        for line in BufReader::new(list.take(LIST_MAX)).split(b'\n') {
            let Ok(line) = line else { break };
            if let Some(mapped) = Self::parse(&String::from_utf8_lossy(&line), &root) {
                files.insert(mapped);
            }
            if files.len() >= FILES_MAX {
                break;
            }
        }
        files.into_iter().collect()
    }

    /// One line of the list, if it is about a file mapped for execution.
    fn parse(line: &str, root: &Path) -> Option<Self> {
        // ADDRESS-ADDRESS PERMISSIONS OFFSET MAJOR:MINOR INODE      PATH
        let (head, path) = line.split_once('/')?;
        let mut words = head.split_ascii_whitespace();
        let (_, permissions, _, device, ino) = (
            words.next()?,
            words.next()?,
            words.next()?,
            words.next()?,
            words.next()?,
        );
        if !permissions.contains('x') {
            return None;
        }
        let (major, minor) = device.split_once(':')?;
        let major = u32::from_str_radix(major, 16).ok()?;
        let minor = u32::from_str_radix(minor, 16).ok()?;
        Some(Self {
            dev: nix::sys::stat::makedev(major.into(), minor.into()),
            ino: ino.parse().ok()?,
            path: root.join(path),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_mapping_for_execution_is_told_from_others() {
        let root = Path::new("/proc/7/root");
        let parse = |line| Mapped::parse(line, root);
        assert_eq!(
            parse("7f0000-7f1000 r-xp 0001d000 fe:01 4711   /usr/lib/lib ssl.so.3 (deleted)"),
            Some(Mapped {
                dev: nix::sys::stat::makedev(0xfe, 1),
                ino: 4711,
                path: "/proc/7/root/usr/lib/lib ssl.so.3 (deleted)".into(),
            })
        );
        assert_eq!(
            parse("7f0000-7f1000 r--p 0001d000 fe:01 4711   /usr/lib/libssl.so.3"),
            None
        );
        assert_eq!(
            parse("7ffc00-7ffd00 r-xp 00000000 00:00 0      [vdso]"),
            None
        );
        assert_eq!(parse("/"), None);
    }

    #[test]
    fn this_process_has_mapped_its_program() {
        let own = fs::read_link("/proc/self/exe").unwrap();
        let mapped = Mapped::of(crate::own());
        assert!(
            mapped
                .iter()
                .any(|one| one.path.ends_with(own.strip_prefix("/").unwrap()))
        );
    }
}
