//! What each tool does, judging by its name or else by its description.

use std::collections::HashMap;
use std::sync::Arc;

use mcpinspect_core::text::bound;

use crate::detect::behaviour::ToolAct;
use crate::detect::json::Json;

/// Most tools whose names say nothing, but whose descriptions do.
const TOOLS: usize = 4096;
/// Most bytes of a name to compare.
const NAME: usize = 96;

/// What tools do. Only those whose names do not say it are remembered.
#[derive(Debug, Default)]
pub(super) struct ToolActs {
    described: HashMap<(Arc<str>, Box<str>), ToolAct>,
}

impl ToolActs {
    /// Takes in a definition.
    pub(super) fn learn(&mut self, server: &Arc<str>, tool: &str, definition: &Json<'_>) {
        if self.described.len() >= TOOLS || !ToolAct::of(tool, None).acts.is_empty() {
            return;
        }
        let description = definition.get("description").and_then(Json::as_str);
        let act = ToolAct::of(tool, description);
        if !act.acts.is_empty() {
            let name = bound(tool, NAME).as_ref().into();
            self.described.insert((Arc::clone(server), name), act);
        }
    }

    /// What a tool does.
    pub(super) fn get(&self, server: &Arc<str>, tool: &str) -> ToolAct {
        let act = ToolAct::of(tool, None);
        if !act.acts.is_empty() || self.described.is_empty() {
            return act;
        }
        let key = (Arc::clone(server), bound(tool, NAME).as_ref().into());
        self.described.get(&key).cloned().unwrap_or(act)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_verb_is_explained_by_the_description() {
        let mut acts = ToolActs::default();
        let server: Arc<str> = "bank".into();
        let definition = serde_json::json!({ "description": "Pays a bill." });
        acts.learn(&server, "settlement", &Json::from(&definition));
        assert!(acts.get(&server, "settlement").has_effect());
        assert!(!acts.get(&"other".into(), "settlement").has_effect());
        assert!(acts.get(&server, "send_money").has_effect());
    }
}
