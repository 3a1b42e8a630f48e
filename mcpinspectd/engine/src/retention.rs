//! How much of recorded messages is kept, and for how long.
//!
//! Messages carry credentials and private files, so how much of them reaches the disk is decided for each server
//! and user, before anything is written.

use globset::GlobMatcher;
use serde::{Deserialize, Serialize};

/// How much of a message is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoredContent {
    /// All of it, secrets included.
    Full,
    /// All of it, with secrets masked.
    #[default]
    Redacted,
    /// None of its text: times, sizes, methods, tools and ids only.
    Metadata,
}

/// What is kept of a server's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How much of each message.
    pub content: StoredContent,
    /// For how many days.
    pub days: u32,
}

/// An exception for some servers and users.
#[derive(Clone, Debug)]
pub struct RetentionRule {
    /// The servers, as a glob over their names; all of them if absent.
    pub server: Option<GlobMatcher>,
    /// The user that they run as; every user if absent.
    pub user: Option<u32>,
    /// How much of each message to keep; as for all others if absent.
    pub content: Option<StoredContent>,
    /// For how many days; as for all others if absent.
    pub days: Option<u32>,
}

/// How much is kept of which messages.
#[derive(Clone, Debug)]
pub struct RetentionRules {
    /// If no rule says otherwise.
    pub default: Retention,
    /// The first rule that matches decides.
    pub rules: Vec<RetentionRule>,
}

impl RetentionRules {
    /// What is kept of the messages of `server` that runs as `user`.
    pub fn of(&self, server: &str, user: Option<u32>) -> Retention {
        let fits = |rule: &&RetentionRule| {
            rule.server
                .as_ref()
                .is_none_or(|glob| glob.is_match(server))
                && (rule.user.is_none() || rule.user == user)
        };
        let rule = self.rules.iter().find(fits);
        Retention {
            content: rule
                .and_then(|rule| rule.content)
                .unwrap_or(self.default.content),
            days: rule.and_then(|rule| rule.days).unwrap_or(self.default.days),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rule = |server: Option<&str>, user, content, days| RetentionRule {
            server: server.map(|glob| globset::Glob::new(glob).unwrap().compile_matcher()),
            user,
            content,
            days,
        };
        let default = Retention {
            content: StoredContent::Redacted,
            days: 30,
        };
        let rules = RetentionRules {
            default,
            rules: vec![
                rule(Some("git*"), Some(7), Some(StoredContent::Full), None),
                rule(Some("git*"), None, Some(StoredContent::Metadata), Some(1)),
            ],
        };
        let kept = |server, user| {
            let Retention { content, days } = rules.of(server, user);
            (content, days)
        };
        assert_eq!(kept("github", Some(7)), (StoredContent::Full, 30));
        assert_eq!(kept("github", Some(8)), (StoredContent::Metadata, 1));
        assert_eq!(kept("github", None), (StoredContent::Metadata, 1));
        assert_eq!(kept("files", Some(7)), (StoredContent::Redacted, 30));
    }
}
