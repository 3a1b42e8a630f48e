//! What a server must offer for a method, and which methods a revision does not have.
//!
//! A request that the server never offered to answer says nothing about the server, so it is not sent.

use serde_json::{Value, json};

use super::era::Era;
use super::failure::{Category, Failure};

/// The capability that a method needs, as a path of members; `None` if it needs none, or is unknown.
pub fn needed(method: &str) -> Option<&'static [&'static str]> {
    Some(match method {
        "tools/list" | "tools/call" => &["tools"],
        "resources/list" | "resources/read" | "resources/templates/list" => &["resources"],
        "resources/subscribe" | "resources/unsubscribe" => &["resources", "subscribe"],
        "prompts/list" | "prompts/get" => &["prompts"],
        "completion/complete" => &["completions"],
        "logging/setLevel" => &["logging"],
        _ => return None,
    })
}

/// Checks that `method` can be sent to a server with these capabilities, in this era and revision.
///
/// # Errors
/// The revision does not have the method, or the server does not offer it.
pub fn check(method: &str, era: Era, version: &str, capabilities: &Value) -> Result<(), Failure> {
    let gone = matches!(
        method,
        "initialize"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe"
    );
    if era == Era::Modern && gone {
        return Err(Failure::new(
            Category::Capability,
            "not_in_revision",
            format!("protocol version {version} has no `{method}`"),
        )
        .with(json!({ "method": method, "revision": version })));
    }
    // Before 2025-03-26, completion had no capability.
    if method == "completion/complete" && version < "2025-03-26" {
        return Ok(());
    }
    let Some(path) = needed(method) else {
        return Ok(());
    };
    let offered = path
        .iter()
        .try_fold(capabilities, |value, name| value.get(name))
        .is_some_and(|found| *found != Value::Bool(false) && !found.is_null());
    if offered {
        return Ok(());
    }
    let path = path.join(".");
    let names: Vec<&str> = capabilities
        .as_object()
        .map(|offered| offered.keys().map(String::as_str).collect())
        .unwrap_or_default();
    Err(Failure::new(
        Category::Capability,
        "not_offered",
        format!("the server does not offer `{path}`, which `{method}` needs"),
    )
    .with(json!({ "method": method, "needed": path, "offered": names })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;

    #[test]
    fn what_is_not_offered_is_not_sent() {
        let offered = json!({"tools": {}, "resources": {"subscribe": false}});
        let code = |method, era, version| {
            let failed: Result<_, Failure> = check(method, era, version, &offered);
            failed.err().map(|failure| failure.code)
        };
        let legacy = |method| code(method, Era::Legacy, "2025-11-25");
        let missing = Some(Code::Name("not_offered"));
        for method in ["tools/call", "resources/read", "ping", "x/y", "tasks/list"] {
            assert_eq!(legacy(method), None, "{method}");
        }
        for method in [
            "prompts/get",
            "completion/complete",
            "logging/setLevel",
            "resources/subscribe",
        ] {
            assert_eq!(legacy(method), missing, "{method}");
        }
        assert_eq!(code("completion/complete", Era::Legacy, "2024-11-05"), None);
        let gone = code("ping", Era::Modern, "2026-07-28").unwrap();
        assert_eq!(gone, Code::Name("not_in_revision"));
    }
}
