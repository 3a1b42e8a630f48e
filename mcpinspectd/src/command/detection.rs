//! Detection as the daemon runs it: the built-in rules, those of the administrator, what people
//! silenced, and reloading.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcpinspectd::detect::knowledge::{Current, Knowledge, USER_RULES};

/// The rules of a run, and where they come from.
#[derive(Clone, Debug)]
pub struct Rules {
    current: Arc<Current>,
    /// What was silenced on the bus; none where nobody can be asked to.
    suppressions: Option<PathBuf>,
}

impl Rules {
    /// Reads the rules. A pack that is wrong is told and left out: detection goes on with the others.
    pub fn load(suppressions: Option<PathBuf>) -> Self {
        let current = Arc::new(Current::new(read(suppressions.as_deref())));
        Self {
            current,
            suppressions,
        }
    }

    /// The rules, for those who use them.
    pub fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current)
    }

    /// Reads the rules anew, for sessions under way too.
    pub fn reload(&self) {
        self.current.replace(read(self.suppressions.as_deref()));
        tracing::info!(rules = USER_RULES, "rules read again");
    }
}

fn read(suppressions: Option<&Path>) -> Arc<Knowledge> {
    let mut places = vec![Path::new(USER_RULES)];
    places.extend(suppressions);
    let (knowledge, errors) = Knowledge::load_all(&places);
    for error in errors {
        tracing::error!(%error, "a rule pack is left out; `mcpinspect rules check` tells more");
    }
    knowledge
}
