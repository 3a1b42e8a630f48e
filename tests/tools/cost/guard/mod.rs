//! What a guard adds to a call, and how much passes through one: on stdio, and in front of HTTP.
//!
//! With a guard and without one take turns within each round, with a hundred rules of which none
//! decides anything. The peers do nothing but answer, so that what is left is the guard's own.

mod http;
mod stdio;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

pub use http::serve as serve_http;
pub use stdio::serve as serve_stdio;

/// A hundred rules: 70 look at a call's arguments, 20 at its result, 10 at the tool's name.
fn rules() -> String {
    let rule = |number: usize| {
        let when = match number {
            0..70 => format!(
                "method = \"tools/call\", param = {{ path = \"arguments.p{number}\", contains = \"x\" }}"
            ),
            70..90 => {
                format!("result = {{ path = \"content[*].text\", contains = \"never {number}\" }}")
            }
            _ => format!("tool = \"never-{number}\""),
        };
        format!("[[rule]]\nid = \"r{number}\"\nwhen = {{ {when} }}\naction = \"block\"\n")
    };
    (0..100).map(rule).collect()
}

/// A policy in a directory, without rules or with a hundred.
fn policy(directory: &Path, judging: bool) -> Result<PathBuf> {
    let path = directory.join(if judging { "rules.toml" } else { "empty.toml" });
    std::fs::write(&path, if judging { rules() } else { String::new() })?;
    Ok(path)
}

/// A call of a tool.
fn call(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"read","arguments":{{"path":"notes/2026/november.md","lines":[1,40],"reason":"The user asked what the plan for this month was, and whether it has changed since."}}}}}}"#
    )
}

/// The answer to a call.
fn answer(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"The plan for November: finish the store, measure it, write down what it costs, and rest for a week. Nothing has changed since the second of the month."}}],"isError":false}}}}"#
    )
}

/// The id of a message of [`call`]'s form.
fn id(message: &str) -> Result<&str> {
    let rest = message.split_once(r#""id":"#).context("no id")?.1;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    Ok(&rest[..end])
}

/// Measures, and prints the tables.
pub fn measure(rounds: usize) -> Result<()> {
    stdio::measure(rounds)?;
    http::measure(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_its_calls_id() {
        assert!(id(&call(17)).is_ok_and(|id| id == "17"));
        assert!(id(&answer("17")).is_ok_and(|id| id == "17"));
        assert!(id("{}").is_err());
    }
}
