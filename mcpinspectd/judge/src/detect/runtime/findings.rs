//! Findings about behaviour: what no rule about text can find.

use mcpinspect_core::model::{Action, Detection, Match, Severity, Timestamp};
use mcpinspect_core::text::redact;

use super::data_flow::DataLeak;
use crate::detect::analysis::Report;
use crate::detect::behaviour::{ObeyedOrder, TextSource};
use crate::detect::category::Category;
use crate::detect::json::{Json, Members};
use crate::detect::text::sanitise::excerpt;

/// A kind of finding about behaviour.
pub(super) struct FindingKind {
    /// Its name; in text findings, that is the rule's.
    pub pattern: &'static str,
    /// What is being tried.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
    /// The action that it calls for.
    pub action: Action,
}

/// A report of one finding. `text` is an excerpt of what was found, if there is one.
pub(super) fn finding(kind: FindingKind, field: &str, text: &str, explanation: String) -> Report {
    let FindingKind {
        pattern,
        category,
        severity,
        action,
    } = kind;
    let quoted = excerpt(text, 160);
    let place = Match {
        text: quoted.clone(),
        position: 0,
        context: quoted,
    };
    Report {
        action,
        severity: Some(severity),
        score: 1.0,
        detections: vec![Detection {
            pattern: pattern.to_owned(),
            category: category.as_str().to_owned(),
            severity,
            matches: if text.is_empty() {
                Vec::new()
            } else {
                vec![place]
            },
            field: field.to_owned(),
            explanation,
        }],
        truncated: false,
        unread: false,
        undecided: false,
        questionable: None,
    }
}

/// The finding that some text of a message was not examined. It may be harmless, but must be reported:
/// anyone who wants to hide something puts it where no one looks.
pub(super) fn unread(severity: Severity, action: Action) -> Report {
    let kind = FindingKind {
        pattern: "too-much-to-read",
        category: Category::HiddenInstructions,
        severity,
        action,
    };
    let report = finding(
        kind,
        "",
        "",
        "Is so long that not all of it was examined.".into(),
    );
    Report {
        truncated: true,
        unread: true,
        ..report
    }
}

/// Adds a finding if a text carries a secret. Only text in the form of a key counts: a password is often
/// where it belongs.
pub(super) fn secrets(text: &str, pattern: &'static str, field: &str, report: &mut Report) {
    let Some(hit) = redact::find(text)
        .into_iter()
        .find(redact::SecretHit::has_known_format)
    else {
        return;
    };
    let severity = if hit.kind.contains("private_key") {
        Severity::High
    } else {
        Severity::Medium
    };
    let kind = FindingKind {
        pattern,
        category: Category::SecretExposure,
        severity,
        action: Action::Warn,
    };
    report.absorb(finding(
        kind,
        field,
        &redact::placeholder(hit.kind),
        format!(
            "Carries a secret in plain text: {}.",
            hit.kind.replace('_', " ")
        ),
    ));
}

/// Adds a finding if a server asks the user for a secret.
pub(super) fn elicited_secret(params: &Json<'_>, report: &mut Report) {
    let properties = params
        .get("requestedSchema")
        .and_then(|schema| schema.get("properties"))
        .and_then(Json::as_object);
    let asked = properties
        .into_iter()
        .flat_map(Members::iter)
        .find(|(name, property)| {
            let title = property
                .get("title")
                .and_then(Json::as_str)
                .unwrap_or_default();
            redact::secret_name(name).is_some() || redact::secret_name(title).is_some()
        });
    if let Some((name, _)) = asked {
        let kind = FindingKind {
            pattern: "elicits-secret",
            category: Category::ElicitationAbuse,
            severity: Severity::High,
            action: Action::Alert,
        };
        report.absorb(finding(
            kind,
            "params.requestedSchema",
            name,
            "Asks the user for a secret, which the protocol forbids.".into(),
        ));
    }
}

/// The finding that a call of `tool` does what a text ordered.
pub(super) fn obeyed(obeyed: &ObeyedOrder, server: &str, tool: &str, now: Timestamp) -> Report {
    let TextSource {
        server: from,
        tool: by,
        field,
        time,
        definition,
        ..
    } = &*obeyed.order.source;
    let order = &obeyed.order.order;
    let (severity, action) = match obeyed.certain {
        true => (Severity::Critical, Action::Block),
        false => (Severity::High, Action::Alert),
    };
    let kind = FindingKind {
        pattern: "injection-obeyed",
        category: Category::InjectionObeyed,
        severity,
        action,
    };
    let came = match (definition, by) {
        (true, Some(by)) => format!(
            "the definition of `{}`, a tool of `{}`",
            excerpt(by, 80),
            excerpt(from, 80)
        ),
        (_, Some(by)) => format!(
            "a text that `{}` of `{}` returned",
            excerpt(by, 80),
            excerpt(from, 80)
        ),
        (_, None) => format!("a text that `{}` returned", excerpt(from, 80)),
    };
    let explanation = format!(
        "Your agent called `{}` of `{}` with `{}`, as {came} {} had told it to. Nothing else that was seen \
         explains it.",
        excerpt(tool, 80),
        excerpt(server, 80),
        excerpt(&obeyed.value, 80),
        ago(now.nanos_since(*time) / 1_000_000_000),
    );
    let mut report = finding(kind, "params.arguments", &obeyed.value, explanation);
    let sentence = excerpt(&order.text, 400);
    for detection in &mut report.detections {
        // First what was said, then what was done.
        let said = Match {
            text: sentence.clone(),
            position: order.position,
            context: format!("{}: {sentence}", excerpt(field, 80)),
        };
        detection.matches.insert(0, said);
    }
    Report {
        score: obeyed.probability(),
        ..report
    }
}

/// How long ago something was, in words.
fn ago(seconds: u64) -> String {
    match seconds {
        0..=1 => "just before".to_owned(),
        2..=119 => format!("{seconds} seconds before"),
        _ => format!("{} minutes before", seconds / 60),
    }
}

/// The finding that a private value goes out. `told` says whether a text had asked for something to be sent;
/// without that, it is what an agent does when it answers a mail.
pub(super) fn leak(leak: &DataLeak, told: bool) -> Report {
    let DataLeak {
        untrusted,
        private,
        values,
    } = leak;
    let kind = FindingKind {
        pattern: "toxic-flow",
        category: Category::ToxicFlow,
        severity: if told { Severity::High } else { Severity::Low },
        action: if told { Action::Alert } else { Action::Warn },
    };
    let explanation = format!(
        "Sends {values} value(s) that `{}` of `{}` returned, after `{}` of `{}` brought in text of strangers.",
        excerpt(&private.tool, 80),
        excerpt(&private.server, 80),
        excerpt(&untrusted.tool, 80),
        excerpt(&untrusted.server, 80)
    );
    finding(kind, "params.arguments", "", explanation)
}
