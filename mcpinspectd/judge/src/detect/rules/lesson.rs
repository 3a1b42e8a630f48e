//! What people's decisions taught about which findings deserve an alert.
//!
//! Approving a definition that raised an alert, or suppressing a finding, says that it was one alert too
//! many. Each such server raises the limit for alerts of that category a little, for the definitions that this
//! person's own servers offer: what stays below it is a warning from then on. Facts, what a rule decides alone,
//! and blocks are not affected.
//!
//! Only a person's decision is a lesson; nothing that a server sends is. A server counts once per category,
//! however often it is decided on, so that it gains nothing by asking again and again. A lesson is forgotten after
//! a year.

use mcpinspect_core::model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::detect::category::Category;

/// By how much a server raises the limit, in log odds.
const STEP: f32 = 0.3;
/// Most servers that count.
const MOST: usize = 4;
/// How long a lesson counts.
const YEAR: u64 = 365 * 86_400_000_000_000;

/// What a person did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Because {
    /// They approved a definition that raised an alert.
    Approved,
    /// They suppressed a finding.
    Suppressed,
}

impl Because {
    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Suppressed => "suppressed",
        }
    }
}

/// One alert too many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// Whose servers it is about.
    pub user: u32,
    /// The server.
    pub server: String,
    /// What the alert was about.
    pub category: Category,
    /// What the person did.
    pub because: Because,
    /// When, in nanoseconds since 1970.
    pub at: u64,
}

/// What was taught.
#[derive(Clone, Debug, Default)]
pub struct Lessons(Vec<Lesson>);

impl Lessons {
    /// A set of lessons.
    pub fn new(lessons: Vec<Lesson>) -> Self {
        Self(lessons)
    }

    /// The lessons about a category that count `now`, one per server, oldest first.
    pub fn about(&self, user: u32, category: Category, now: Timestamp) -> Vec<&Lesson> {
        let mut out: Vec<&Lesson> = Vec::new();
        for lesson in &self.0 {
            if lesson.user == user
                && lesson.category == category
                && now.0 < lesson.at.saturating_add(YEAR)
                && !out.iter().any(|known| known.server == lesson.server)
            {
                out.push(lesson);
            }
        }
        out
    }

    /// By how much the limit for an alert of this category is raised for a user's servers, in log odds.
    pub fn lenience(&self, user: Option<u32>, category: Category, now: Timestamp) -> f32 {
        let servers = user.map_or(0, |user| self.about(user, category, now).len());
        STEP * servers.min(MOST) as f32
    }

    /// Whether nothing was taught.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Lesson> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lesson(user: u32, server: &str, category: Category, at: u64) -> Lesson {
        Lesson {
            user,
            server: server.to_owned(),
            category,
            because: Because::Approved,
            at,
        }
    }

    #[test]
    fn a_server_counts_once_and_only_for_its_user_and_category() {
        let (ours, other) = (Category::ForcedPrerequisite, Category::Exfiltration);
        let mut all = vec![lesson(1000, "mail", ours, 1); 9];
        all.push(lesson(1000, "files", ours, 2));
        all.push(lesson(1001, "notes", ours, 3));
        let lessons = Lessons::new(all);
        let now = Timestamp(10);
        assert_eq!(lessons.lenience(Some(1000), ours, now), 2.0 * STEP);
        assert_eq!(lessons.lenience(Some(1001), ours, now), STEP);
        assert_eq!(lessons.lenience(Some(1000), other, now), 0.0);
        assert_eq!(lessons.lenience(None, ours, now), 0.0);
        let later = Timestamp(YEAR + 2);
        assert_eq!(lessons.lenience(Some(1000), ours, later), 0.0);
    }

    #[test]
    fn there_is_a_limit() {
        let category = Category::HiddenInstructions;
        let many = (0..50).map(|number| lesson(7, &format!("s{number}"), category, 1));
        let lessons = Lessons::new(many.collect());
        let raised = lessons.lenience(Some(7), category, Timestamp(2));
        assert_eq!(raised, STEP * MOST as f32);
    }
}
