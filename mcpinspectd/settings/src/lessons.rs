//! The lessons in the file of suppressions: added, taken back, forgotten.

use std::path::Path;

use mcpinspect_judge::detect::rules::Lesson;

use super::suppression::{SuppressionError, change};

/// Most lessons of one user. The oldest gives way.
const OF_A_USER: usize = 128;
/// Most lessons of all users.
const LESSONS: usize = 4096;

/// Adds a lesson to the file at `path`, unless the same server already taught it. Returns whether that
/// changed anything.
///
/// # Errors
/// The file cannot be used; it is then unchanged.
pub fn learn(path: &Path, lesson: Lesson) -> Result<bool, SuppressionError> {
    change(path, |pack| {
        let same = |known: &Lesson| {
            (known.user, &known.server, known.category)
                == (lesson.user, &lesson.server, lesson.category)
        };
        if let Some(known) = pack.lesson.iter_mut().find(|known| same(known)) {
            known.at = lesson.at;
            return Ok(false);
        }
        let of_user = |known: &Lesson| known.user == lesson.user;
        let count = pack.lesson.iter().filter(|known| of_user(known)).count();
        if count >= OF_A_USER
            && let Some(oldest) = pack.lesson.iter().position(of_user)
        {
            pack.lesson.remove(oldest);
        }
        if pack.lesson.len() >= LESSONS {
            pack.lesson.remove(0);
        }
        pack.lesson.push(lesson);
        Ok(true)
    })
}

/// Takes back what a user's server taught, because a person refused what it offers. Returns whether that
/// changed anything.
///
/// # Errors
/// The file cannot be used; it is then unchanged.
pub fn take_back(path: &Path, user: u32, server: &str) -> Result<bool, SuppressionError> {
    let removed = remove(path, |lesson| {
        lesson.user == user && lesson.server == server
    })?;
    Ok(removed > 0)
}

/// Forgets the lessons of a user, or of all users for `None`. Returns how many there were.
///
/// # Errors
/// The file cannot be used; it is then unchanged.
pub fn forget(path: &Path, user: Option<u32>) -> Result<usize, SuppressionError> {
    remove(path, |lesson| user.is_none_or(|user| user == lesson.user))
}

fn remove(path: &Path, out: impl Fn(&Lesson) -> bool) -> Result<usize, SuppressionError> {
    change(path, |pack| {
        let before = pack.lesson.len();
        pack.lesson.retain(|lesson| !out(lesson));
        Ok(before - pack.lesson.len())
    })
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Timestamp;
    use mcpinspect_judge::detect::category::Category;
    use mcpinspect_judge::detect::rules::Because;

    use super::*;
    use crate::rule_files;
    use crate::suppression::{FILE, Suppression};

    const NOW: Timestamp = Timestamp(1_760_000_000_000_000_000);

    fn lesson(user: u32, server: &str) -> Lesson {
        Lesson {
            user,
            server: server.to_owned(),
            category: Category::ForcedPrerequisite,
            because: Because::Approved,
            at: NOW.0,
        }
    }

    fn lenience(path: &Path, user: u32) -> f32 {
        let (active, errors) = rule_files::load(&[path]);
        assert!(errors.is_empty(), "{errors:?}");
        let lessons = active.rules.lessons();
        lessons.lenience(Some(user), Category::ForcedPrerequisite, NOW)
    }

    #[test]
    fn what_was_learnt_is_read_and_can_be_undone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        assert!(learn(&path, lesson(1000, "mail")).unwrap());
        let one = lenience(&path, 1000);
        assert!(one > 0.0);
        for _ in 0..20 {
            assert!(!learn(&path, lesson(1000, "mail")).unwrap(), "known");
        }
        assert_eq!(lenience(&path, 1000), one, "a server counts once");
        learn(&path, lesson(1000, "files")).unwrap();
        learn(&path, lesson(1001, "files")).unwrap();
        assert!(lenience(&path, 1000) > one);
        let silence = Suppression::new("mail", "", "exfiltration", "why", 7, NOW).unwrap();
        silence.add_to(&path, NOW).unwrap();
        assert!(take_back(&path, 1000, "files").unwrap());
        assert!(!take_back(&path, 1000, "files").unwrap());
        assert_eq!(lenience(&path, 1000), one);
        assert_eq!(forget(&path, Some(1000)).unwrap(), 1);
        assert_eq!(lenience(&path, 1000), 0.0);
        assert!(lenience(&path, 1001) > 0.0);
        assert_eq!(forget(&path, None).unwrap(), 1);
        let (active, _) = rule_files::load(&[&path]);
        assert_eq!(active.rules.suppressions().len(), 1, "those stay");
    }

    #[test]
    fn a_user_has_a_bound() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        for number in 0..OF_A_USER + 3 {
            learn(&path, lesson(1000, &format!("s{number}"))).unwrap();
        }
        learn(&path, lesson(1001, "mail")).unwrap();
        assert_eq!(forget(&path, Some(1000)).unwrap(), OF_A_USER);
    }
}
