//! Which subjects a JSON-RPC message holds.
//!
//! A message is looked at by what it is for: the definitions in a list are subjects each, a result
//! is one, the server's questions to model and user are another kind. The method of the request is
//! not needed: a result tells what it is by its members, in all five revisions.

use super::analyse::{Analyser, Circumstances, Report};
use super::category::Surface;
use super::extract::Subject;
use super::tree::{Members, Tree};

/// A subject in a message.
#[derive(Clone, Debug)]
pub struct Found<'a> {
    /// What it is.
    pub subject: Subject,
    /// Its value.
    pub value: &'a Tree<'a>,
    /// Where it stands in the message, such as `result.tools[2]`.
    pub place: String,
    /// The tool that it is about, where it is not the tool itself.
    pub tool: Option<&'a str>,
}

/// Most subjects of one message.
const SUBJECTS: usize = 4096;

/// The subjects of a message (or of a batch of them), in order; at most 4,096.
pub fn subjects<'a>(message: &'a Tree<'a>) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    match message {
        Tree::Array(batch) => {
            for (index, message) in batch.iter().enumerate().take(SUBJECTS) {
                one(message, &format!("[{index}]."), &mut found);
            }
        }
        _ => one(message, "", &mut found),
    }
    found.truncate(SUBJECTS);
    found
}

fn one<'a>(message: &'a Tree<'a>, at: &str, found: &mut Vec<Found<'a>>) {
    let method = message.get("method").and_then(Tree::as_str);
    let tool = message
        .get("params")
        .filter(|_| method == Some("tools/call"))
        .and_then(|params| params.get("name"))
        .and_then(Tree::as_str);
    let mut add = |subject, value: &'a Tree<'a>, place: String| {
        found.push(Found {
            subject,
            value,
            place: format!("{at}{place}"),
            tool,
        })
    };
    if let Some(error) = message.get("error") {
        add(Subject::Error, error, "error".into());
    }
    if let (Some(method), Some(params)) = (method, message.get("params")) {
        let (subject, value, place) = match method {
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
        add(subject, value, place.into());
    }
    let Some(result) = message.get("result") else {
        return;
    };
    let before = found.len();
    result_subjects(result, &mut |subject, value, place: String| {
        found.push(Found {
            subject,
            value,
            place: format!("{at}result{place}"),
            tool: None,
        });
    });
    // What is shown to a model is looked at, whatever else the result says it is.
    let shown = ["content", "structuredContent", "contents", "messages"]
        .iter()
        .any(|member| result.get(member).is_some());
    if shown || (found.len() == before && result.get("supportedVersions").is_none()) {
        let subject =
            if result.get("content").is_some() || result.get("structuredContent").is_some() {
                Subject::ToolResult
            } else {
                Subject::Content
            };
        found.push(Found {
            subject,
            value: result,
            place: format!("{at}result"),
            tool: None,
        });
    }
}

/// Subjects inside a result that stand for themselves: definitions, and questions of the server.
fn result_subjects<'a>(result: &'a Tree<'a>, add: &mut dyn FnMut(Subject, &'a Tree<'a>, String)) {
    const LISTS: [(&str, Subject); 4] = [
        ("tools", Subject::Tool),
        ("prompts", Subject::Declaration),
        ("resources", Subject::Declaration),
        ("resourceTemplates", Subject::Declaration),
    ];
    for (list, subject) in LISTS {
        for (index, value) in result
            .get(list)
            .and_then(Tree::as_array)
            .into_iter()
            .flatten()
            .enumerate()
            .take(SUBJECTS)
        {
            add(subject, value, format!(".{list}[{index}]"));
        }
    }
    for own in ["instructions", "serverInfo"] {
        if let Some(said) = result.get(own) {
            add(Subject::Declaration, said, format!(".{own}"));
        }
    }
    for (key, request) in result
        .get("inputRequests")
        .and_then(Tree::as_object)
        .into_iter()
        .flat_map(Members::iter)
    {
        let sampling =
            request.get("method").and_then(Tree::as_str) == Some("sampling/createMessage");
        let subject = if sampling {
            Subject::Sampling
        } else {
            Subject::Elicitation
        };
        add(
            subject,
            request.get("params").unwrap_or(request),
            format!(".inputRequests.{}.params", crate::text::bound(key, 60)),
        );
    }
}

/// The surface of a message's subjects (of the first, where they differ).
pub fn surface(message: &Tree<'_>) -> Surface {
    subjects(message)
        .first()
        .map_or(Surface::Content, |found| found.subject.surface())
}

/// Looks at every subject of a message; one report for all of them, with paths from the message's
/// root.
pub fn report(
    analyser: &mut Analyser,
    message: &Tree<'_>,
    circumstances: Circumstances<'_>,
) -> Report {
    let mut whole = Report::clean();
    for found in subjects(message) {
        let mut report = analyse(analyser, &found, circumstances);
        for detection in &mut report.detections {
            let dot = if detection.field.is_empty() || detection.field.starts_with('[') {
                ""
            } else {
                "."
            };
            detection.field = format!("{}{dot}{}", found.place, detection.field);
        }
        whole.absorb(report);
    }
    whole
}

/// Looks at one subject.
pub fn analyse(
    analyser: &mut Analyser,
    found: &Found<'_>,
    circumstances: Circumstances<'_>,
) -> Report {
    match found.subject {
        Subject::Tool => analyser.tool(found.value, circumstances),
        subject => analyser.value(
            found.value,
            subject,
            Circumstances {
                tool: found.tool.or(circumstances.tool),
                ..circumstances
            },
        ),
    }
}
