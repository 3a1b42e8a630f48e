//! The rules that the daemon runs with: built in, added by the administrator, and suppressed over the bus.
//! They can be reloaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcpinspect_judge::detect::{ActiveRules, WeightedRules};
use mcpinspect_settings::rule_files;

/// The rules of a run, and where they come from.
#[derive(Clone, Debug)]
pub struct Rules {
    active: Arc<ActiveRules>,
    /// The file of suppressions requested over the bus, if there is a bus.
    suppressions: Option<PathBuf>,
}

impl Rules {
    /// Loads the rules. A file with a mistake is logged and left out; detection runs with the others.
    pub fn load(suppressions: Option<PathBuf>) -> Self {
        let active = Arc::new(ActiveRules::new(read(suppressions.as_deref())));
        Self {
            active,
            suppressions,
        }
    }

    /// The rules in use.
    pub fn active(&self) -> Arc<ActiveRules> {
        Arc::clone(&self.active)
    }

    /// Reloads the rules. They also apply to open sessions.
    pub fn reload(&self) {
        self.active.replace(read(self.suppressions.as_deref()));
        tracing::info!(rules = rule_files::DIRECTORY, "rules reloaded");
    }
}

fn read(suppressions: Option<&Path>) -> Arc<WeightedRules> {
    let mut places = vec![Path::new(rule_files::DIRECTORY)];
    places.extend(suppressions);
    let (rules, errors) = rule_files::load(&places);
    for error in errors {
        tracing::error!(%error, "a rule file was left out; `mcpinspect rules check` shows its mistakes");
    }
    rules
}
