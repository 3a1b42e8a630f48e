//! Which subjects a JSON-RPC message holds.
//!
//! A message is looked at by what it is for: the definitions in a list are subjects each, a result
//! is one, the server's questions to model and user are another kind. The method of the request is
//! not needed: a result tells what it is by its members, in all five revisions.

use serde_json::Value;

use super::analyse::{Analyser, Circumstances, Report};
use super::category::Surface;
use super::extract::Subject;

/// A subject in a message.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// What it is.
    pub subject: Subject,
    /// Its value.
    pub value: &'a Value,
}

/// The subjects of a message (or of a batch of them), in order; at most 4,096.
pub fn subjects(message: &Value) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    match message {
        Value::Array(batch) => batch.iter().for_each(|message| one(message, &mut found)),
        _ => one(message, &mut found),
    }
    found.truncate(4096);
    found
}

fn one<'a>(message: &'a Value, found: &mut Vec<Found<'a>>) {
    let mut add = |subject, value: &'a Value| found.push(Found { subject, value });
    if let Some(error) = message.get("error") {
        add(Subject::Error, error);
    }
    let params = message.get("params");
    match (message.get("method").and_then(Value::as_str), params) {
        (Some("tools/call"), Some(params)) => {
            if let Some(arguments) = params.get("arguments") {
                add(Subject::Arguments, arguments);
            }
        }
        (Some("sampling/createMessage"), Some(params)) => add(Subject::Sampling, params),
        (Some("elicitation/create"), Some(params)) => add(Subject::Elicitation, params),
        (Some(method), Some(params)) if method.starts_with("notifications/") => {
            add(Subject::Notification, params)
        }
        (Some(_), Some(params)) => add(Subject::Arguments, params),
        _ => {}
    }
    let Some(result) = message.get("result") else {
        return;
    };
    let mut definitions = false;
    for (list, subject) in [
        ("tools", Subject::Tool),
        ("prompts", Subject::Declaration),
        ("resources", Subject::Declaration),
        ("resourceTemplates", Subject::Declaration),
    ] {
        if let Some(values) = result.get(list).and_then(Value::as_array) {
            definitions = true;
            values.iter().for_each(|value| add(subject, value));
        }
    }
    if let Some(instructions) = result.get("instructions") {
        definitions = true;
        add(Subject::Declaration, instructions);
    }
    if let Some(requests) = result.get("inputRequests").and_then(Value::as_object) {
        for request in requests.values() {
            let subject = match request.get("method").and_then(Value::as_str) {
                Some("sampling/createMessage") => Subject::Sampling,
                _ => Subject::Elicitation,
            };
            add(subject, request.get("params").unwrap_or(request));
        }
    }
    if definitions {
        return;
    }
    if result.get("content").is_some() || result.get("structuredContent").is_some() {
        add(Subject::ToolResult, result);
    } else if result.get("contents").is_some() || result.get("messages").is_some() {
        add(Subject::Content, result);
    } else if result.get("serverInfo").is_none() && result.get("inputRequests").is_none() {
        add(Subject::Content, result);
    }
}

/// The surface of a message's subjects (of the first, where they differ).
pub fn surface(message: &Value) -> Surface {
    subjects(message)
        .first()
        .map_or(Surface::Content, |found| found.subject.surface())
}

/// Looks at every subject of a message; one report for all of them.
pub fn report(
    analyser: &mut Analyser,
    message: &Value,
    circumstances: Circumstances<'_>,
) -> Report {
    let mut whole = Report::clean();
    for found in subjects(message) {
        whole.absorb(analyse(analyser, found, circumstances));
    }
    whole
}

/// Looks at one subject.
pub fn analyse(
    analyser: &mut Analyser,
    found: Found<'_>,
    circumstances: Circumstances<'_>,
) -> Report {
    match found.subject {
        Subject::Tool => analyser.tool(found.value, circumstances),
        subject => analyser.value(found.value, subject, circumstances),
    }
}
