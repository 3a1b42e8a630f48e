//! Who is behind a pinned program.

use mcpinspect_core::mcp::{Budget, json};
use serde_json::value::RawValue;

/// Memory for a program's definition, in bytes. It has a dozen members.
const MAX_MEMORY: usize = 1 << 20;

/// Who is behind a program, according to its definition: its package, or else its script or its
/// executable. The same in every version.
pub fn vendor(definition: &RawValue) -> Option<String> {
    let value = json::value(definition, &mut Budget::of(MAX_MEMORY))?;
    ["package", "script", "module", "executable"]
        .iter()
        .find_map(|member| value.get(member)?.as_str().map(str::to_owned))
}
