//! The subjects in a JSON-RPC message.
//!
//! Each part of a message is judged by its purpose: every definition in a list is a subject of its own, a
//! result is one, and so is a server's request to the model or the user. The method of the request is not
//! needed for that: in all five revisions of the protocol, the members of a result show what it is.

use super::analyser::Analyser;
use super::context::AnalysisContext;
use super::report::Report;
use super::subject::Subject;
use crate::detect::category::Surface;
use crate::detect::json::{Json, Members};

/// A subject in a message.
#[derive(Clone, Debug)]
pub struct MessageSubject<'a> {
    /// What it is.
    pub subject: Subject,
    /// Its value.
    pub value: &'a Json<'a>,
    /// Its path in the message, such as `result.tools[2]`.
    pub path: String,
    /// The tool that it is about, unless it is the tool itself.
    pub tool: Option<&'a str>,
}

/// Most subjects of one message.
pub const SUBJECTS: usize = 4096;

/// The subjects of a message (or of a batch of them), in order; at most 4,096.
pub fn subjects<'a>(message: &'a Json<'a>) -> Vec<MessageSubject<'a>> {
    let mut found = Vec::new();
    match message {
        Json::Array(batch) => {
            for (index, message) in batch.iter().enumerate().take(SUBJECTS) {
                one(message, &format!("[{index}]."), &mut found);
            }
        }
        _ => one(message, "", &mut found),
    }
    found.truncate(SUBJECTS);
    found
}

/// Finds the subjects of a message that is not a batch. `at` is its path.
fn one<'a>(message: &'a Json<'a>, at: &str, found: &mut Vec<MessageSubject<'a>>) {
    let method = message.get("method").and_then(Json::as_str);
    let tool = message
        .get("params")
        .filter(|_| method == Some("tools/call"))
        .and_then(|params| params.get("name"))
        .and_then(Json::as_str);
    let mut add = |subject, value: &'a Json<'a>, path: String| {
        found.push(MessageSubject {
            subject,
            value,
            path: format!("{at}{path}"),
            tool,
        })
    };
    if let Some(error) = message.get("error") {
        add(Subject::Error, error, "error".into());
    }
    if let (Some(method), Some(params)) = (method, message.get("params")) {
        let (subject, value, path) = match method {
            "tools/call" => (
                Subject::Arguments,
                params.get("arguments").unwrap_or(params),
                "params.arguments",
            ),
            "sampling/createMessage" => (Subject::Sampling, params, "params"),
            "elicitation/create" => (Subject::Elicitation, params, "params"),
            _ if method.starts_with("notifications/") => (Subject::Notification, params, "params"),
            _ => (Subject::Arguments, params, "params"),
        };
        add(subject, value, path.into());
    }
    let Some(result) = message.get("result") else {
        return;
    };
    let before = found.len();
    result_subjects(result, &mut |subject, value, path: String| {
        found.push(MessageSubject {
            subject,
            value,
            path: format!("{at}result{path}"),
            tool: None,
        });
    });
    // Whatever reaches the model is judged, no matter what else the result claims to be.
    let for_model = ["content", "structuredContent", "contents", "messages"]
        .iter()
        .any(|member| result.get(member).is_some());
    if for_model || (found.len() == before && result.get("supportedVersions").is_none()) {
        let subject =
            if result.get("content").is_some() || result.get("structuredContent").is_some() {
                Subject::ToolResult
            } else {
                Subject::Content
            };
        found.push(MessageSubject {
            subject,
            value: result,
            path: format!("{at}result"),
            tool: None,
        });
    }
}

/// Finds the subjects inside a result: definitions, and requests of the server.
fn result_subjects<'a>(result: &'a Json<'a>, add: &mut dyn FnMut(Subject, &'a Json<'a>, String)) {
    const LISTS: [(&str, Subject); 4] = [
        ("tools", Subject::Tool),
        ("prompts", Subject::Declaration),
        ("resources", Subject::Declaration),
        ("resourceTemplates", Subject::Declaration),
    ];
    for (list, subject) in LISTS {
        for (index, value) in result
            .get(list)
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .enumerate()
            .take(SUBJECTS)
        {
            add(subject, value, format!(".{list}[{index}]"));
        }
    }
    for member in ["instructions", "serverInfo"] {
        if let Some(value) = result.get(member) {
            add(Subject::Declaration, value, format!(".{member}"));
        }
    }
    for (key, request) in result
        .get("inputRequests")
        .and_then(Json::as_object)
        .into_iter()
        .flat_map(Members::iter)
        .take(SUBJECTS)
    {
        let sampling =
            request.get("method").and_then(Json::as_str) == Some("sampling/createMessage");
        let subject = if sampling {
            Subject::Sampling
        } else {
            Subject::Elicitation
        };
        add(
            subject,
            request.get("params").unwrap_or(request),
            format!(
                ".inputRequests.{}.params",
                mcpinspect_core::text::bound(key, 60)
            ),
        );
    }
}

/// The surface of a message's first subject.
pub fn surface(message: &Json<'_>) -> Surface {
    subjects(message)
        .first()
        .map_or(Surface::Content, |found| found.subject.surface())
}

/// Analyses every subject of a message. The paths in the report start at the message.
pub fn report(analyser: &mut Analyser, message: &Json<'_>, context: AnalysisContext<'_>) -> Report {
    let mut all = Report::clean();
    for found in subjects(message) {
        all.absorb(part(analyser, &found, context));
    }
    all
}

/// Analyses one subject of a message. The paths in the report start at the message.
pub fn part(
    analyser: &mut Analyser,
    found: &MessageSubject<'_>,
    context: AnalysisContext<'_>,
) -> Report {
    let mut report = analyse(analyser, found, context);
    for detection in &mut report.detections {
        let dot = if detection.field.is_empty() || detection.field.starts_with('[') {
            ""
        } else {
            "."
        };
        detection.field = format!("{}{dot}{}", found.path, detection.field);
    }
    report
}

/// Analyses one subject of a message.
pub fn analyse(
    analyser: &mut Analyser,
    found: &MessageSubject<'_>,
    context: AnalysisContext<'_>,
) -> Report {
    match found.subject {
        Subject::Tool => analyser.tool(found.value, context),
        subject => analyser.value(
            found.value,
            subject,
            AnalysisContext {
                tool: found.tool.or(context.tool),
                ..context
            },
        ),
    }
}
