//! Detection as the daemon runs it: the built-in rules, those of the administrator, what people
//! silenced, and reloading.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcpinspectd::detect::{ActiveRules, WeightedRules};
use mcpinspectd::rule_files;

/// The rules of a run, and where they come from.
#[derive(Clone, Debug)]
pub struct Rules {
    current: Arc<ActiveRules>,
    /// What was silenced on the bus; none where nobody can be asked to.
    suppressions: Option<PathBuf>,
}

impl Rules {
    /// Reads the rules. A pack that is wrong is told and left out: detection goes on with the others.
    pub fn load(suppressions: Option<PathBuf>) -> Self {
        let current = Arc::new(ActiveRules::new(read(suppressions.as_deref())));
        Self {
            current,
            suppressions,
        }
    }

    /// The rules, for those who use them.
    pub fn current(&self) -> Arc<ActiveRules> {
        Arc::clone(&self.current)
    }

    /// Reads the rules anew, for sessions under way too.
    pub fn reload(&self) {
        self.current.replace(read(self.suppressions.as_deref()));
        tracing::info!(rules = rule_files::DIRECTORY, "rules read again");
    }
}

fn read(suppressions: Option<&Path>) -> Arc<WeightedRules> {
    let mut places = vec![Path::new(rule_files::DIRECTORY)];
    places.extend(suppressions);
    let (weighted, errors) = rule_files::load(&places);
    for error in errors {
        tracing::error!(%error, "a rule pack is left out; `mcpinspect rules check` tells more");
    }
    weighted
}
