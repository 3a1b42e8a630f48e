//! Findings that a person has reviewed and does not want to see again.
//!
//! A suppression names a server, a tool and a rule (or a category), gives a reason, and ends on a date, so
//! that what was fine once is reviewed again. It removes the rule's matches *before* they are weighed, so
//! that other evidence in the same tool still counts.

use globset::{Glob, GlobMatcher};
use mcpinspect_core::model::Timestamp;
use serde::Deserialize;
use toml::Spanned;

/// A suppression as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSuppression {
    /// Glob on the server's name; by default every server.
    #[serde(default)]
    server: Option<Spanned<String>>,
    /// The ids of the users that the server runs as; by default every user.
    #[serde(default)]
    users: Option<Vec<u32>>,
    /// Glob on the tool's name; by default every tool.
    #[serde(default)]
    tool: Option<Spanned<String>>,
    /// Glob on the rule's id or its category.
    rule: Spanned<String>,
    /// The reason. Not empty.
    reason: Spanned<String>,
    /// The first day (UTC) on which it no longer applies, as `2027-01-31`, or a time in RFC 3339.
    until: Spanned<String>,
}

/// A validated suppression.
#[derive(Debug)]
pub struct Suppression {
    server: Option<GlobMatcher>,
    users: Option<Vec<u32>>,
    tool: Option<GlobMatcher>,
    rule: GlobMatcher,
    /// The reason.
    pub reason: String,
    /// When it ends.
    pub until: Timestamp,
}

impl RawSuppression {
    /// Validates it. An error carries its byte position in the file.
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
        let until = parse_time(self.until.get_ref()).ok_or_else(|| {
            let problem = format!(
                "`{}` is not a date: write it like 2027-01-31",
                self.until.get_ref()
            );
            (self.until.span().start, problem)
        })?;
        Ok(Suppression {
            server: self.server.as_ref().map(glob).transpose()?,
            users: self.users,
            tool: self.tool.as_ref().map(glob).transpose()?,
            rule: glob(&self.rule)?,
            reason: self.reason.into_inner(),
            until,
        })
    }
}

impl Suppression {
    /// Whether it applies to a tool of a server, which runs as `user`, at a time.
    pub fn applies_to(
        &self,
        server: Option<&str>,
        user: Option<u32>,
        tool: Option<&str>,
        now: Timestamp,
    ) -> bool {
        let matches = |glob: &Option<GlobMatcher>, name: Option<&str>| match (glob, name) {
            (None, _) => true,
            (Some(glob), Some(name)) => glob.is_match(name),
            (Some(_), None) => false,
        };
        let is_theirs = |users: &Vec<u32>| user.is_some_and(|user| users.contains(&user));
        now < self.until
            && self.users.as_ref().is_none_or(is_theirs)
            && matches(&self.server, server)
            && matches(&self.tool, tool)
    }

    /// Whether it covers a rule, by the rule's id or category.
    pub fn covers(&self, id: &str, category: &str) -> bool {
        self.rule.is_match(id) || self.rule.is_match(category)
    }
}

fn parse_time(text: &str) -> Option<Timestamp> {
    let stamp = match text.parse::<jiff::civil::Date>() {
        Ok(date) => date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp(),
        Err(_) => text.parse::<jiff::Timestamp>().ok()?,
    };
    u64::try_from(stamp.as_nanosecond()).ok().map(Timestamp)
}
