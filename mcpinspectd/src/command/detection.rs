//! Detection as the daemon runs it: the built-in rules, those of the administrator, and reloading.

use std::path::Path;
use std::sync::Arc;

use mcpinspectd::detect::knowledge::{Current, Knowledge, USER_RULES};

/// Reads the rules. A pack that is wrong is told and left out: detection goes on with the others.
pub fn load() -> Arc<Current> {
    Arc::new(Current::new(read()))
}

/// Reads the rules anew, for sessions under way too.
pub fn reload(current: &Current) {
    current.replace(read());
    tracing::info!(rules = USER_RULES, "rules read again");
}

fn read() -> Arc<Knowledge> {
    let (knowledge, errors) = Knowledge::load(Path::new(USER_RULES));
    for error in errors {
        tracing::error!(%error, "a rule pack is left out; `mcpinspect rules check` tells more");
    }
    knowledge
}
