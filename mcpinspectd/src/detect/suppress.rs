//! Findings that a person has looked at and does not want to see again.
//!
//! A suppression names a server, a tool and a rule (or a category), says why, and ends at a date:
//! what was fine once is looked at again some day. It takes the rule out *before* weighing, so that
//! other evidence in the same tool still counts.

use globset::{Glob, GlobMatcher};
use serde::Deserialize;
use toml::Spanned;

use crate::model::Timestamp;

/// A suppression as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSuppression {
    /// Glob on the server's name; every server when absent.
    #[serde(default)]
    server: Option<Spanned<String>>,
    /// Glob on the tool's name; every tool when absent.
    #[serde(default)]
    tool: Option<Spanned<String>>,
    /// Glob on a rule's id, or a category.
    rule: Spanned<String>,
    /// Why. Not empty.
    reason: Spanned<String>,
    /// The first day (UTC) on which it no longer holds, `2027-01-31`, or a moment in RFC 3339.
    until: Spanned<String>,
}

/// A suppression, checked.
#[derive(Debug)]
pub struct Suppression {
    server: Option<GlobMatcher>,
    tool: Option<GlobMatcher>,
    rule: GlobMatcher,
    /// Why.
    pub reason: String,
    /// When it ends.
    pub until: Timestamp,
}

impl RawSuppression {
    /// Checks it; an error has the byte position in the file.
    pub(super) fn check(self) -> Result<Suppression, (usize, String)> {
        let glob = |pattern: &Spanned<String>| {
            Glob::new(pattern.get_ref())
                .map(|glob| glob.compile_matcher())
                .map_err(|error| (pattern.span().start, error.to_string()))
        };
        if self.reason.get_ref().trim().is_empty() {
            return Err((
                self.reason.span().start,
                "a suppression needs a reason".into(),
            ));
        }
        let until = moment(self.until.get_ref()).ok_or_else(|| {
            let problem = format!(
                "`{}` is no date: write it like 2027-01-31",
                self.until.get_ref()
            );
            (self.until.span().start, problem)
        })?;
        Ok(Suppression {
            server: self.server.as_ref().map(glob).transpose()?,
            tool: self.tool.as_ref().map(glob).transpose()?,
            rule: glob(&self.rule)?,
            reason: self.reason.into_inner(),
            until,
        })
    }
}

impl Suppression {
    /// Whether it concerns a subject at a time.
    pub fn concerns(&self, server: Option<&str>, tool: Option<&str>, now: Timestamp) -> bool {
        let matches = |glob: &Option<GlobMatcher>, name: Option<&str>| match (glob, name) {
            (None, _) => true,
            (Some(glob), Some(name)) => glob.is_match(name),
            (Some(_), None) => false,
        };
        now < self.until && matches(&self.server, server) && matches(&self.tool, tool)
    }

    /// Whether it silences a rule, by its id or category.
    pub fn silences(&self, id: &str, category: &str) -> bool {
        self.rule.is_match(id) || self.rule.is_match(category)
    }
}

fn moment(text: &str) -> Option<Timestamp> {
    let stamp = match text.parse::<jiff::civil::Date>() {
        Ok(date) => date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp(),
        Err(_) => text.parse::<jiff::Timestamp>().ok()?,
    };
    u64::try_from(stamp.as_nanosecond()).ok().map(Timestamp)
}
