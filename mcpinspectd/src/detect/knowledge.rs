//! Everything that detection knows: rules, weights, suppressions. Immutable once built, shared
//! between threads, and replaced as a whole when people change their rules.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::pack::PackError;
use super::rules::RuleSet;
use super::score::Weights;

/// The packs that come with the program: (file name, text).
pub const BUILTIN_PACKS: &[(&str, &str)] =
    &[("builtin.toml", include_str!("../../rules/builtin.toml"))];
/// The weights that come with the program.
pub const BUILTIN_WEIGHTS: &str = include_str!("../../rules/weights.toml");
/// Where people put their own packs.
pub const USER_RULES: &str = "/etc/mcpinspectd/rules.d";
/// Most bytes of one pack.
const PACK_LIMIT: u64 = 1024 * 1024;
/// Most packs in a directory.
const PACKS_LIMIT: usize = 256;

/// Rules, weights and suppressions.
#[derive(Debug)]
pub struct Knowledge {
    /// The rules, and the suppressions that stand beside them.
    pub rules: RuleSet,
    /// What they weigh.
    pub weights: Weights,
}

impl Knowledge {
    /// What comes with the program. Compiled once.
    #[expect(
        clippy::expect_used,
        reason = "both files are part of the program, and a test compiles them"
    )]
    pub fn builtin() -> Arc<Self> {
        static BUILTIN: LazyLock<Arc<Knowledge>> = LazyLock::new(|| {
            let rules = RuleSet::compile(BUILTIN_PACKS).expect("the built-in rules are valid");
            let weights =
                Weights::parse(BUILTIN_WEIGHTS, &rules).expect("the built-in weights are valid");
            Arc::new(Knowledge { rules, weights })
        });
        Arc::clone(&BUILTIN)
    }

    /// The built-in rules together with the packs of a directory. A pack that is wrong is left out
    /// and said; the others count. A directory that does not exist has no packs.
    pub fn load(directory: &Path) -> (Arc<Self>, Vec<PackError>) {
        Self::load_all(&[directory])
    }

    /// The built-in rules together with the packs of several directories or files, as [`Self::load`].
    pub fn load_all(places: &[&Path]) -> (Arc<Self>, Vec<PackError>) {
        let (mut texts, mut errors) = (Vec::new(), Vec::new());
        for place in places {
            let (more, wrong) = read_packs(place);
            texts.extend(more);
            errors.extend(wrong);
        }
        let mut packs = BUILTIN_PACKS.to_vec();
        let mut compiled = None;
        for (name, text) in &texts {
            packs.push((name, text));
            match RuleSet::compile(&packs) {
                Ok(rules) => compiled = Some(rules),
                Err(error) => {
                    errors.push(error);
                    packs.pop();
                }
            }
        }
        let Some(rules) = compiled else {
            return (Self::builtin(), errors);
        };
        match Weights::parse(BUILTIN_WEIGHTS, &rules) {
            Ok(weights) => (Arc::new(Self { rules, weights }), errors),
            Err(_) => (Self::builtin(), errors),
        }
    }
}

/// Name and text of each pack in a directory (or of one file), in the order of their names.
fn read_packs(path: &Path) -> (Vec<(String, String)>, Vec<PackError>) {
    let mut errors = Vec::new();
    let failed = |path: &Path, problem: String| PackError {
        file: path.display().to_string(),
        line: 1,
        problem,
    };
    let mut files: Vec<PathBuf> = Vec::new();
    if path.is_file() {
        files.push(path.to_owned());
    } else {
        match std::fs::read_dir(path) {
            Ok(entries) => files.extend(
                entries
                    .flatten()
                    .map(|entry| entry.path())
                    .filter(|file| {
                        file.extension()
                            .is_some_and(|extension| extension == "toml")
                    })
                    .take(PACKS_LIMIT),
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => errors.push(failed(path, error.to_string())),
        }
    }
    files.sort();
    let mut texts = Vec::new();
    for file in files {
        let large = std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() > PACK_LIMIT);
        if large {
            errors.push(failed(&file, format!("larger than {PACK_LIMIT} bytes")));
            continue;
        }
        match std::fs::read_to_string(&file) {
            Ok(text) => texts.push((file.display().to_string(), text)),
            Err(error) => errors.push(failed(&file, error.to_string())),
        }
    }
    (texts, errors)
}

/// Checks the packs of a directory, or one pack: how many rules they add, and what is wrong.
pub fn check(path: &Path) -> Result<usize, Vec<PackError>> {
    if !path.exists() {
        return Err(vec![PackError {
            file: path.display().to_string(),
            line: 1,
            problem: "no such file or directory".into(),
        }]);
    }
    let (knowledge, errors) = Knowledge::load(path);
    if errors.is_empty() {
        Ok(knowledge
            .rules
            .rules()
            .iter()
            .filter(|rule| !rule.builtin)
            .count())
    } else {
        Err(errors)
    }
}

/// Knowledge that can be replaced while others use it.
#[derive(Debug)]
pub struct Current {
    knowledge: RwLock<Arc<Knowledge>>,
    generation: AtomicU64,
}

impl Current {
    /// Starts with this.
    pub fn new(knowledge: Arc<Knowledge>) -> Self {
        Self {
            knowledge: RwLock::new(knowledge),
            generation: AtomicU64::new(0),
        }
    }

    /// Counts the replacements: a cheap look whether there was one.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What is current.
    pub fn get(&self) -> Arc<Knowledge> {
        Arc::clone(
            &self
                .knowledge
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Replaces it.
    pub fn replace(&self, knowledge: Arc<Knowledge>) {
        *self
            .knowledge
            .write()
            .unwrap_or_else(PoisonError::into_inner) = knowledge;
        self.generation.fetch_add(1, Ordering::Release);
    }
}
