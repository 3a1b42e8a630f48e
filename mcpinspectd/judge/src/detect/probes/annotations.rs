//! Annotations that a tool contradicts.
//!
//! Clients let a tool that is annotated as harmless run without asking. The tool's name shows
//! whether the annotation is credible.

use crate::detect::json::Json;
use crate::detect::rules::Probe;
use crate::detect::text::names;
use crate::detect::words::{WORDS, WordSet};

/// Annotations of a tool that its own name contradicts.
pub fn contradictions(tool: &Json<'_>) -> Vec<Probe> {
    let mut found = Vec::new();
    let Some(annotations) = tool.get("annotations").and_then(Json::as_object) else {
        return found;
    };
    let flag = |key: &str| annotations.get(key).and_then(Json::as_bool);
    let name = tool.get("name").and_then(Json::as_str).unwrap_or_default();
    let words = names::words(name);
    let begins_with = |verbs: &WordSet| {
        words
            .first()
            .is_some_and(|verb| verbs.contains(verb.as_str()))
    };
    let destroys = begins_with(&WORDS.tool_names.destroys);
    let changes = destroys || begins_with(&WORDS.tool_names.changes);
    if flag("readOnlyHint") == Some(true) && changes {
        found.push(Probe::ReadOnlyContradiction);
    }
    if flag("destructiveHint") == Some(false) && destroys {
        found.push(Probe::DestructiveContradiction);
    }
    found
}
