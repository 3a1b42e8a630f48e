//! Reads policies from disk, and what they need from this machine.
//!
//! A policy itself does no I/O. Half a policy is no policy: with a mistake in one file, none of it is used.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use mcpinspect_judge::policy::{Policy, PolicyError};

use crate::rule_files::{read, unreadable};

/// The machine's time zone.
const ZONE: &str = "/etc/localtime";
/// The machine's own users.
const USERS: &str = "/etc/passwd";
/// Most bytes of that file to read.
const MAX_USERS: u64 = 4 << 20;

/// The policy in these files and directories.
///
/// # Errors
/// Every mistake, at most one per rule; and each path that does not exist.
pub fn load(paths: &[PathBuf]) -> Result<Policy, Vec<PolicyError>> {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        match path.exists() {
            true => read(path, &mut files, &mut errors),
            false => errors.push(unreadable(path, "no such file or directory")),
        }
    }
    match errors.is_empty() {
        true => Policy::compile(&files),
        false => Err(errors),
    }
}

/// The time zone that times of day refer to: the machine's.
pub fn zone() -> TimeZone {
    let local = fs::read(ZONE).ok();
    let zone = local.and_then(|data| TimeZone::tzif("local", &data).ok());
    zone.unwrap_or(TimeZone::UTC)
}

/// The names of the machine's own users. Those of a directory service are not queried: that may take a
/// while, and the daemon cannot wait.
pub fn users() -> HashMap<u32, String> {
    users_in(Path::new(USERS))
}

fn users_in(path: &Path) -> HashMap<u32, String> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_USERS).read_to_end(&mut text));
    if read.is_err() {
        return HashMap::new();
    }
    let text = String::from_utf8_lossy(&text);
    let users = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
    });
    // The first entry of a number is the one that the system shows.
    let mut names = HashMap::new();
    for (uid, name) in users {
        names.entry(uid).or_insert(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_their_first_names() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text =
            "root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/:\n\nbroken\nme:x:1000:1000::/:\nx:y:z\n";
        fs::write(file.path(), text).unwrap();
        let users = users_in(file.path());
        assert_eq!(users.len(), 2);
        assert_eq!(users[&0], "root");
        assert_eq!(users[&1000], "me");
        assert!(users_in(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn a_policy_is_whole_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let rule = "[[rule]]\nid = \"a\"\nwhen = { tool = \"x\" }\naction = \"freeze\"\n";
        fs::write(&path, rule).unwrap();
        let paths = [folder.path().to_owned()];
        assert_eq!(load(&paths).unwrap().rules().len(), 1);
        fs::write(folder.path().join("b.toml"), "[[rule]]\n").unwrap();
        assert_eq!(load(&paths).unwrap_err().len(), 1);
        assert_eq!(load(&[folder.path().join("none")]).unwrap_err().len(), 1);
    }
}
