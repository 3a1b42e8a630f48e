//! The file of suppressions requested on the bus, and of the lessons that people's decisions taught.
//!
//! People write their own rule packs, with comments and an order of their own; the daemon does not
//! touch those. What it is asked to silence goes into a separate pack beside the registry, which
//! is read like the others. Expired entries are dropped when the next one is added.

use std::io;
use std::path::{Path, PathBuf};

use mcpinspect_core::model::Timestamp;
use mcpinspect_judge::detect::rules::Lesson;
use mcpinspect_runtime::files;
use serde::{Deserialize, Serialize};

/// Entries at one time: enough for people, without growing forever.
const ENTRIES_MAX: usize = 512;
/// Longest text of an entry, in bytes.
const TEXT_MAX: usize = 1024;
/// Longest time to silence something, in days.
pub const DAYS_MAX: u32 = 3650;

/// The file's name, beside the registry.
pub const FILE: &str = "suppressions.toml";

const NANOS_PER_DAY: u64 = 86_400_000_000_000;
const HEADING: &str = "# Suppressions requested on the bus, and lessons from decisions. Written by mcpinspectd; comments are not kept.\n\n";

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suppression {
    /// The server, as a glob that matches nothing else.
    pub server: String,
    /// The users that the server runs as; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<u32>>,
    /// The tool likewise; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Glob on a rule's id, or a category.
    pub rule: String,
    /// Why.
    pub reason: String,
    /// When it ends, RFC 3339.
    pub until: String,
}

/// Why a suppression was not noted.
#[derive(Debug, thiserror::Error)]
pub enum SuppressionError {
    /// A text says too little, or too much.
    #[error("{0}")]
    Invalid(&'static str),
    /// The file is not as it was written.
    #[error("{}: {reason}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// What is in the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pack {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suppress: Vec<Suppression>,
    /// What people's decisions taught.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lesson: Vec<Lesson>,
}

/// Changes the file, in one step.
pub(super) fn change<T>(
    path: &Path,
    how: impl FnOnce(&mut Pack) -> Result<T, SuppressionError>,
) -> Result<T, SuppressionError> {
    let io = |source| SuppressionError::Io {
        path: path.to_owned(),
        source,
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io(error)),
    };
    let damaged = |reason: String| SuppressionError::Damaged {
        path: path.to_owned(),
        reason,
    };
    let mut pack: Pack =
        toml::from_str(&text).map_err(|error| damaged(error.message().to_owned()))?;
    let changed = how(&mut pack)?;
    let body = toml::to_string(&pack).map_err(|error| damaged(error.to_string()))?;
    let text = format!("{HEADING}{body}");
    files::replace(path, text.as_bytes(), 0o640).map_err(io)?;
    Ok(changed)
}

impl Suppression {
    /// Silences `rule` for `server` and `tool` (all tools if empty) for some days.
    ///
    /// # Errors
    /// A text is missing or too long, or the time is out of range.
    pub fn new(
        server: &str,
        tool: &str,
        rule: &str,
        reason: &str,
        days: u32,
        now: Timestamp,
    ) -> Result<Self, SuppressionError> {
        if rule.trim().is_empty() {
            return Err(SuppressionError::Invalid(
                "a suppression needs a rule or a category",
            ));
        }
        if reason.trim().is_empty() {
            return Err(SuppressionError::Invalid("a suppression needs a reason"));
        }
        if [server, tool, rule, reason]
            .iter()
            .any(|text| text.len() > TEXT_MAX)
        {
            return Err(SuppressionError::Invalid(
                "texts of a suppression must not be longer than 1024 bytes",
            ));
        }
        if days == 0 || days > DAYS_MAX {
            return Err(SuppressionError::Invalid(
                "a suppression must last from 1 to 3650 days",
            ));
        }
        globset::Glob::new(rule)
            .map_err(|_| SuppressionError::Invalid("invalid pattern in `rule`"))?;
        let until = now.0.saturating_add(u64::from(days) * NANOS_PER_DAY);
        Ok(Self {
            server: globset::escape(server),
            users: None,
            tool: (!tool.is_empty()).then(|| globset::escape(tool)),
            rule: rule.to_owned(),
            reason: reason.to_owned(),
            until: Timestamp(until).to_string(),
        })
    }

    /// The same, only for servers of these users; of everyone for `None`.
    #[must_use]
    pub fn of_users(self, users: Option<Vec<u32>>) -> Self {
        Self { users, ..self }
    }

    /// Adds it to the file, in one step.
    ///
    /// # Errors
    /// The file cannot be used; it is then unchanged.
    pub fn add_to(self, path: &Path, now: Timestamp) -> Result<(), SuppressionError> {
        change(path, |pack| self.added_to(pack, now))
    }

    fn added_to(self, pack: &mut Pack, now: Timestamp) -> Result<(), SuppressionError> {
        // We wrote both in one form, in which the order of texts is the order of times.
        let now = now.to_string();
        pack.suppress.retain(|entry| entry.until > now);
        if pack.suppress.len() >= ENTRIES_MAX {
            return Err(SuppressionError::Invalid(
                "too many suppressions; put permanent ones into a rule pack",
            ));
        }
        pack.suppress.push(self);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule_files;

    const ALICE: Option<u32> = Some(1000);
    const NOW: Timestamp = Timestamp(1_760_000_000_000_000_000);

    fn silence(server: &str, days: u32) -> Result<Suppression, SuppressionError> {
        Suppression::new(
            server,
            "re*d",
            "credential-*",
            "a [test] \"pack\"\n",
            days,
            NOW,
        )
    }

    #[test]
    fn what_is_written_is_read_as_a_rule_pack() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let hers = silence("files[1]", 7).unwrap().of_users(Some(vec![1000]));
        hers.add_to(&path, NOW).unwrap();
        silence("mail", 1).unwrap().add_to(&path, NOW).unwrap();
        let (knowledge, errors) = rule_files::load(&[&path]);
        assert!(errors.is_empty(), "{errors:?}");
        let suppressions = knowledge.rules.suppressions();
        assert_eq!(suppressions.len(), 2);
        let first = &suppressions[0];
        assert!(first.applies_to(Some("files[1]"), ALICE, Some("re*d"), NOW));
        assert!(!first.applies_to(Some("files1"), ALICE, Some("re*d"), NOW));
        assert!(!first.applies_to(Some("files[1]"), ALICE, Some("read"), NOW));
        for another in [Some(1001), None] {
            assert!(!first.applies_to(Some("files[1]"), another, Some("re*d"), NOW));
        }
        let everyones = &suppressions[1];
        assert!(everyones.applies_to(Some("mail"), Some(1001), Some("re*d"), NOW));
        assert!(first.covers("credential-path", ""));
        assert!(!first.applies_to(
            Some("files[1]"),
            ALICE,
            Some("re*d"),
            Timestamp(NOW.0 + 7 * NANOS_PER_DAY)
        ));
        // Only one of them is still valid three days later.
        let later = Timestamp(NOW.0 + 3 * NANOS_PER_DAY);
        silence("new", 30).unwrap().add_to(&path, later).unwrap();
        assert_eq!(rule_files::load(&[&path]).0.rules.suppressions().len(), 2);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn wishes_without_a_meaning_are_refused() {
        for (rule, reason, days) in [
            ("", "why", 1),
            ("x", " ", 1),
            ("x", "why", 0),
            ("x", "why", 3651),
            ("[", "why", 1),
        ] {
            assert!(Suppression::new("files", "", rule, reason, days, NOW).is_err());
        }
        assert!(Suppression::new("files", "", "x", &"y".repeat(1025), 1, NOW).is_err());
        assert!(Suppression::new("files", "", "x", "why", DAYS_MAX, NOW).is_ok());
    }

    #[test]
    fn a_damaged_file_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        std::fs::write(&path, "[[suppress]]\nrule = 1\n").unwrap();
        let error = silence("files", 7).unwrap().add_to(&path, NOW).unwrap_err();
        assert!(error.to_string().contains("suppressions.toml"), "{error}");
        assert!(
            std::fs::read_to_string(&path)
                .unwrap()
                .ends_with("rule = 1\n")
        );
    }

    #[test]
    fn there_is_a_bound() {
        let mut pack = Pack::default();
        for _ in 0..ENTRIES_MAX {
            let one = silence("files", 7).unwrap();
            one.added_to(&mut pack, NOW).unwrap();
        }
        let one = silence("files", 7).unwrap();
        assert!(one.added_to(&mut pack, NOW).is_err());
    }
}
