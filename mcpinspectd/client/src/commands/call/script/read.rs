//! Reads a script, JSON or YAML, and refuses one that cannot be run.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use mcpinspect_core::json_path::Pattern;
use mcpinspect_core::text::escape::printable;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::title;
use super::values;
use crate::commands::call::expect;
use crate::commands::call::expect::Expectation;
use crate::commands::call::request::{CallRequest, RequestParts};

/// Most steps of a script.
const MAX_STEPS: usize = 10_000;

/// Longest step, in seconds.
const MAX_TIMEOUT: f64 = 86_400.0;

/// What a script does when a step has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Ends.
    Stop,
    /// Continues with the next step.
    Continue,
    /// Continues with this step.
    SkipTo(usize),
}

/// One step.
#[derive(Debug)]
pub struct Step {
    /// Its name, for reports.
    pub name: Option<String>,
    /// Its request. Strings may name saved values.
    pub request: CallRequest,
    /// What must hold.
    pub expectations: Vec<Expectation>,
    /// What to keep for later steps: names, and where each value is.
    pub saves: Vec<(String, Pattern)>,
    pub on_error: OnError,
    /// How long the answer may take, if not the usual time.
    pub timeout: Option<Duration>,
}

/// A script that can be run.
#[derive(Debug)]
pub struct Script {
    pub steps: Vec<Step>,
}

/// A step as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Written {
    method: String,
    name: Option<String>,
    tool: Option<String>,
    prompt: Option<String>,
    uri: Option<String>,
    level: Option<String>,
    arguments: Option<Map<String, Value>>,
    params: Option<Map<String, Value>>,
    #[serde(default)]
    unchecked: bool,
    on_error: Option<String>,
    #[serde(default)]
    expect: Vec<expect::Written>,
    #[serde(default)]
    save: BTreeMap<String, String>,
    timeout: Option<f64>,
}

/// Reads a script: a list of steps, or an object with `steps`.
///
/// # Errors
/// In words, with the step: it cannot be run.
pub fn read(text: &str) -> anyhow::Result<Script> {
    let value: Value = match text.trim_start().starts_with(['{', '[']) {
        // For text that looks like JSON, the JSON parser's error is the helpful one, unless it is YAML after all.
        true => serde_json::from_str(text)
            .or_else(|error| serde_saphyr::from_str(text).map_err(|_| error))?,
        false => serde_saphyr::from_str(text)
            .map_err(|error| anyhow!("{}", printable(&error.to_string(), 500)))?,
    };
    let steps = match value {
        Value::Array(steps) => steps,
        Value::Object(mut whole) => {
            let steps = whole.remove("steps");
            if let Some(other) = whole.keys().next() {
                bail!(
                    "unknown field `{}` in the script: only `steps` is allowed",
                    printable(other, 80)
                );
            }
            match steps {
                Some(Value::Array(steps)) => steps,
                _ => bail!("`steps` must be a list"),
            }
        }
        _ => bail!("a script must be a list of steps, or an object with `steps`"),
    };
    ensure!(!steps.is_empty(), "the script has no steps");
    ensure!(
        steps.len() <= MAX_STEPS,
        "the script has more than {MAX_STEPS} steps"
    );
    let names: Vec<Option<String>> = steps
        .iter()
        .map(|step| Some(step.get("name")?.as_str()?.to_owned()))
        .collect();
    let mut saved = HashSet::new();
    let mut read = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        let name = names.get(at).and_then(Option::as_deref);
        let name = name.map(|name| printable(name, 80));
        let step =
            self::step(step, at, &names, &mut saved).with_context(|| title(at, name.as_deref()))?;
        read.push(step);
    }
    Ok(Script { steps: read })
}

fn step(
    step: Value,
    at: usize,
    names: &[Option<String>],
    saved: &mut HashSet<String>,
) -> anyhow::Result<Step> {
    let written: Written = serde_json::from_value(step)?;
    let parts = RequestParts {
        tool: written.tool,
        prompt: written.prompt,
        uri: written.uri,
        level: written.level,
        arguments: written.arguments,
        params: written.params,
        texts: Vec::new(),
    };
    let request = parts
        .request(&written.method)
        .map_err(|error| anyhow!(error))?;
    let request = CallRequest {
        unchecked: written.unchecked,
        ..request
    };
    for name in values::names(&request.params) {
        ensure!(saved.contains(&name), "no earlier step saves `${{{name}}}`");
    }
    if !request.unchecked {
        request
            .check()
            .map_err(|failure| anyhow!(failure.message))?;
    }
    let expectations = written.expect.into_iter().enumerate();
    let expectations = expectations
        .map(|(at, written)| {
            written
                .check()
                .with_context(|| format!("expectation {}", at + 1))
        })
        .collect::<anyhow::Result<_>>()?;
    let mut saves = Vec::new();
    for (name, path) in written.save {
        let path = expect::path(&path).with_context(|| format!("save `{name}`"))?;
        saved.insert(name.clone());
        saves.push((name, path));
    }
    let timeout = match written.timeout {
        Some(seconds) if seconds > 0.0 && seconds <= MAX_TIMEOUT => {
            Some(Duration::from_secs_f64(seconds))
        }
        Some(_) => bail!("the timeout must be a number of seconds up to {MAX_TIMEOUT}"),
        None => None,
    };
    Ok(Step {
        name: written.name,
        request,
        expectations,
        saves,
        on_error: on_error(written.on_error.as_deref(), at, names)?,
        timeout,
    })
}

fn on_error(text: Option<&str>, at: usize, names: &[Option<String>]) -> anyhow::Result<OnError> {
    let target = match text {
        None | Some("stop") => return Ok(OnError::Stop),
        Some("continue") => return Ok(OnError::Continue),
        Some(other) => other.strip_prefix("skip-to:").with_context(|| {
            format!(
                "invalid onError `{}`: expected stop, continue or skip-to:STEP",
                printable(other, 80)
            )
        })?,
    };
    let number: Option<usize> = target.parse().ok();
    let number = number.and_then(|number| number.checked_sub(1));
    let index = number.or_else(|| {
        names
            .iter()
            .position(|name| name.as_deref() == Some(target))
    });
    match index {
        Some(index) if index > at && index < names.len() => Ok(OnError::SkipTo(index)),
        _ => bail!(
            "`skip-to:{}` does not name a later step",
            printable(target, 80)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_yaml_say_the_same() {
        let yaml = "steps:\n- name: one\n  method: tools/call\n  tool: add\n  arguments: {a: 1, b: '2'}\n  onError: skip-to:last\n  expect:\n  - path: result.x\n    equals: 3\n  save: {x: result.x}\n- method: ping\n- name: last\n  method: tools/call\n  tool: '${x}'\n";
        let json = r#"[{"name": "one", "method": "tools/call", "tool": "add", "arguments": {"a": 1, "b": "2"}, "onError": "skip-to:3",
            "expect": [{"path": "result.x", "equals": 3}], "save": {"x": "result.x"}}, {"method": "ping"}, {"name": "last", "method": "tools/call", "tool": "${x}"}]"#;
        let [yaml, json] = [yaml, json].map(|text| read(text).unwrap());
        for script in [&yaml, &json] {
            assert_eq!(script.steps.len(), 3);
            assert_eq!(script.steps[0].on_error, OnError::SkipTo(2));
            assert_eq!(script.steps[1].on_error, OnError::Stop);
            assert_eq!(script.steps[0].saves.len(), 1);
        }
        for (one, other) in yaml.steps.iter().zip(&json.steps) {
            assert_eq!(one.request, other.request);
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_step_and_the_reason() {
        let good = r#"{"method": "ping"}"#;
        for (step, reason) in [
            (r#"{"method": 1}"#, "step 2: invalid type"),
            (r#"{"tool": "x"}"#, "step 2: missing field `method`"),
            (
                r#"{"name": "n", "method": "ping", "expects": []}"#,
                "step 2 (n): unknown field `expects`",
            ),
            (
                r#"{"method": "tools/call"}"#,
                "step 2: `tools/call` needs the tool",
            ),
            (
                r#"{"method": "ping", "tool": "x"}"#,
                "step 2: `ping` takes no tool",
            ),
            (
                r#"{"method": "ping", "onError": "retry"}"#,
                "invalid onError `retry`",
            ),
            (
                r#"{"method": "ping", "onError": "skip-to:1"}"#,
                "does not name a later step",
            ),
            (
                r#"{"method": "ping", "onError": "skip-to:9"}"#,
                "does not name a later step",
            ),
            (
                r#"{"method": "tools/call", "tool": "${x}"}"#,
                "no earlier step saves `${x}`",
            ),
            (
                r#"{"method": "ping", "expect": [{"path": "a..b", "equals": 1}]}"#,
                "expectation 1: `a..b`: empty step",
            ),
            (
                r#"{"method": "ping", "expect": [{"path": "a"}]}"#,
                "needs `equals` or `schema`",
            ),
            (
                r#"{"method": "ping", "expect": [{"path": "a", "schema": {"type": 7}}]}"#,
                "expectation 1: invalid schema",
            ),
            (r#"{"method": "ping", "timeout": 0}"#, "the timeout must be"),
        ] {
            let error = format!(
                "{:#}",
                read(&format!("[{good}, {step}, {good}]")).unwrap_err()
            );
            assert!(error.contains(reason), "{step}: {error}");
        }
        for (script, reason) in [
            ("[]", "no steps"),
            ("5", "a list of steps"),
            ("{\"steps\": 1}", "must be a list"),
            ("{\"step\": []}", "unknown field `step`"),
            ("[{]", "key must be a string"),
            ("a: [", ""),
        ] {
            let error = format!("{:#}", read(script).unwrap_err());
            assert!(error.contains(reason), "{script}: {error}");
        }
    }
}
