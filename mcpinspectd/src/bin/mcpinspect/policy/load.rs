//! Reads a policy, and what it needs of this machine.

use std::fs;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use mcpinspectd::policy::Policy;
use mcpinspectd::rule_files::{read, unreadable};
use mcpinspectd::terminal;

/// The machine's time zone.
const ZONE: &str = "/etc/localtime";

/// The policy in these files and directories. `None` if there is a mistake in it, which is reported on standard
/// error: half of a policy is none.
pub fn load(paths: &[PathBuf]) -> Option<Policy> {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        match path.exists() {
            true => read(path, &mut files, &mut errors),
            false => errors.push(unreadable(path, "no such file or directory")),
        }
    }
    let compiled = match errors.is_empty() {
        true => Policy::compile(&files),
        false => Err(errors),
    };
    match compiled {
        Ok(policy) => Some(policy),
        Err(errors) => {
            for error in &errors {
                terminal::complain(format_args!("{error}"));
            }
            None
        }
    }
}

/// The time zone by which times of day are meant: the machine's.
pub fn zone() -> TimeZone {
    let local = fs::read(ZONE).ok();
    let zone = local.and_then(|data| TimeZone::tzif("local", &data).ok());
    zone.unwrap_or(TimeZone::UTC)
}
