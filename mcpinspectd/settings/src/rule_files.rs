//! Reads rule files from disk.
//!
//! Detection itself does no I/O: it compiles texts. This module reads those texts, from the directory where
//! people put their own rules and from the file of suppressions that the daemon keeps. One file with a
//! mistake must not switch detection off, so it is left out and reported.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcpinspect_judge::detect::WeightedRules;
use mcpinspect_judge::detect::rules::RuleError;

/// Where people put their own rule files.
pub const DIRECTORY: &str = "/etc/mcpinspectd/rules.d";
/// Most bytes of one file.
const FILE_LIMIT: u64 = 1024 * 1024;
/// Most files of a directory.
const FILES_LIMIT: usize = 256;

/// The built-in rules together with the rule files in `locations`, which are directories or files. Returns a
/// mistake for each file that was left out. A place that does not exist has no files.
pub fn load(locations: &[&Path]) -> (Arc<WeightedRules>, Vec<RuleError>) {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in locations {
        read(path, &mut files, &mut errors);
    }
    let (rules, mistakes) = WeightedRules::with_files(&files);
    errors.extend(mistakes);
    (rules, errors)
}

/// Checks a rule file, or all of a directory. Returns how many rules they add.
///
/// # Errors
/// Every mistake.
pub fn check(path: &Path) -> Result<usize, Vec<RuleError>> {
    if !path.exists() {
        return Err(vec![unreadable(path, "no such file or directory")]);
    }
    let (rules, errors) = load(&[path]);
    if errors.is_empty() {
        let own = rules.rules.rules().iter().filter(|rule| !rule.builtin);
        Ok(own.count())
    } else {
        Err(errors)
    }
}

/// Reads a rule file, or all of a directory in the order of their names, and adds a mistake for each that
/// cannot be read. Other TOML files are read the same way.
pub fn read(path: &Path, files: &mut Vec<(String, String)>, errors: &mut Vec<RuleError>) {
    let mut paths: Vec<PathBuf> = Vec::new();
    if path.is_file() {
        paths.push(path.to_owned());
    } else {
        match std::fs::read_dir(path) {
            Ok(entries) => paths.extend(
                entries
                    .flatten()
                    .map(|entry| entry.path())
                    .filter(|path| path.extension().is_some_and(|it| it == "toml"))
                    .take(FILES_LIMIT),
            ),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => errors.push(unreadable(path, error)),
        }
    }
    paths.sort();
    for path in paths {
        let large = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > FILE_LIMIT);
        if large {
            errors.push(unreadable(
                &path,
                format_args!("larger than {FILE_LIMIT} bytes"),
            ));
            continue;
        }
        match std::fs::read_to_string(&path) {
            Ok(text) => files.push((path.display().to_string(), text)),
            Err(error) => errors.push(unreadable(&path, error)),
        }
    }
}

/// A mistake about a file as a whole.
pub fn unreadable(path: &Path, problem: impl ToString) -> RuleError {
    RuleError {
        file: path.display().to_string(),
        line: 1,
        problem: problem.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_mistake_is_left_out_and_the_others_count() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(
            directory.path().join("a.toml"),
            "[[rule]]\nid = \"own\"\ncategory = \"exfiltration\"\nliterals = [\"zebra-7\"]\n",
        )
        .unwrap();
        std::fs::write(directory.path().join("b.toml"), "[[rule]]\nid = 7\n").unwrap();
        std::fs::write(directory.path().join("notes.txt"), "not a rule file").unwrap();
        let (rules, errors) = load(&[directory.path()]);
        assert_eq!(errors.len(), 1);
        assert!(
            errors[0].file.ends_with("b.toml") && errors[0].line == 2,
            "{errors:?}"
        );
        let own = rules.rules.rules().iter().filter(|rule| !rule.builtin);
        assert_eq!(own.count(), 1);
        assert_eq!(check(&directory.path().join("a.toml")).unwrap(), 1);
        assert_eq!(check(directory.path()).unwrap_err().len(), 1);
    }

    #[test]
    fn a_place_that_does_not_exist_has_no_files() {
        let nowhere = Path::new("/nonexistent/rules.d");
        assert_eq!(load(&[nowhere]).1, []);
        assert_eq!(
            check(nowhere).unwrap_err()[0].problem,
            "no such file or directory"
        );
    }
}
