//! The output formats of a scan: for people, for scripts, and for code scanning.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use mcpinspect_core::model::{Action, Detection, Severity};
use mcpinspect_core::text::escape;
use mcpinspect_judge::detect::WeightedRules;
use mcpinspect_judge::detect::scan::LineReport;
use serde_json::{Value, json};

/// Maximum number of findings for one line in the human form.
const SHOWN: usize = 6;

/// Writes one JSON object per line.
pub fn jsonl(out: &mut dyn Write, outcomes: &[LineReport]) -> io::Result<()> {
    for outcome in outcomes {
        serde_json::to_writer(&mut *out, outcome)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes each finding with its place and reason for people, then the totals.
pub fn human(out: &mut dyn Write, outcomes: &[LineReport], colour: bool) -> io::Result<()> {
    let paint = |style: Style, text: &str| {
        if colour {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    };
    for outcome in outcomes
        .iter()
        .filter(|outcome| outcome.verdict != Action::None)
    {
        let (word, style) = verdict(outcome.verdict);
        let name = name(outcome);
        writeln!(
            out,
            "{} line {}: {}  (score {:.2})",
            paint(style, word),
            outcome.line,
            escape::printable(&name, 80),
            outcome.score
        )?;
        // Show what matters most first: in a session it may have happened last.
        let mut worst_first: Vec<&Detection> = outcome.detections.iter().collect();
        worst_first.sort_by_key(|one| std::cmp::Reverse(one.severity));
        for detection in worst_first.into_iter().take(SHOWN) {
            finding(out, detection, &paint)?;
        }
        if outcome.detections.len() > SHOWN {
            writeln!(
                out,
                "    and {} more; see --format jsonl",
                outcome.detections.len() - SHOWN
            )?;
        }
    }
    let count = |action: Action| {
        outcomes
            .iter()
            .filter(|outcome| outcome.verdict == action)
            .count()
    };
    writeln!(
        out,
        "{} scanned: {} block, {} alert, {} warn, {} clean",
        outcomes.len(),
        count(Action::Block),
        count(Action::Alert),
        count(Action::Warn),
        count(Action::None)
    )
}

/// What people know a line by: its tool, its id, or the server with the tools that stand out.
fn name(outcome: &LineReport) -> String {
    if let Some(name) = outcome.tool.as_deref().or_else(|| outcome.id.as_str()) {
        return name.to_owned();
    }
    let Some(server) = outcome.extra.get("server").and_then(Value::as_str) else {
        return "message".to_owned();
    };
    let tools = outcome.tools.iter();
    let worst: Vec<&str> = tools
        .filter(|tool| tool.verdict == outcome.verdict)
        .map(|tool| tool.name.as_str())
        .take(3)
        .collect();
    match worst.is_empty() {
        true => server.to_owned(),
        false => format!("{server}: {}", worst.join(", ")),
    }
}

/// Writes one finding, with its place.
pub fn finding(
    out: &mut dyn Write,
    detection: &Detection,
    paint: &dyn Fn(Style, &str) -> String,
) -> io::Result<()> {
    let dim = Style::new().dimmed();
    writeln!(
        out,
        "  {:<8} {:<24} {}",
        detection.severity.as_str(),
        detection.category,
        detection.explanation
    )?;
    for matched in detection.matches.iter().take(1) {
        writeln!(
            out,
            "           {} {}",
            paint(dim, &format!("{}:{}", detection.field, matched.position)),
            paint(dim, &matched.context)
        )?;
    }
    Ok(())
}

fn verdict(action: Action) -> (&'static str, Style) {
    match action {
        Action::None => ("clean", Style::new()),
        Action::Warn => ("warn ", AnsiColor::Yellow.on_default()),
        Action::Alert => ("ALERT", AnsiColor::Red.on_default().bold()),
        Action::Block => ("BLOCK", AnsiColor::Red.on_default().bold().invert()),
    }
}

/// Writes SARIF 2.1.0: one result per finding, located at its input line.
pub fn sarif(
    out: &mut dyn Write,
    outcomes: &[LineReport],
    knowledge: &WeightedRules,
    source: &str,
) -> io::Result<()> {
    let results: Vec<Value> = outcomes
        .iter()
        .flat_map(|outcome| {
            outcome
                .detections
                .iter()
                .map(move |detection| result(outcome, detection, source))
        })
        .collect();
    // Not every finding comes from a rule of the pack: what a sentence means and what an agent did have ids too.
    let used: BTreeMap<&str, &Detection> = outcomes
        .iter()
        .flat_map(|outcome| &outcome.detections)
        .map(|detection| (detection.pattern.as_str(), detection))
        .collect();
    let packed: BTreeMap<&str, &str> = knowledge
        .rules
        .rules()
        .iter()
        .map(|rule| (rule.id.as_str(), rule.explanation.as_str()))
        .collect();
    let rules: Vec<Value> = used
        .into_iter()
        .map(|(id, detection)| {
            let explanation = packed.get(id).copied();
            json!({
                "id": id,
                "shortDescription": { "text": explanation.unwrap_or(&detection.explanation) },
                "properties": { "category": detection.category, "severity": detection.severity },
            })
        })
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "mcpinspect", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results,
        }],
    });
    serde_json::to_writer_pretty(&mut *out, &log)?;
    out.write_all(b"\n")
}

/// Percent-encodes a name as a URI reference by RFC 3986.
fn uri(source: &str) -> String {
    let mut uri = String::new();
    for byte in source.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = std::fmt::Write::write_fmt(&mut uri, format_args!("%{byte:02X}"));
        }
    }
    if uri.is_empty() { "-".to_owned() } else { uri }
}

fn result(outcome: &LineReport, detection: &Detection, source: &str) -> Value {
    let context = detection
        .matches
        .first()
        .map_or("", |matched| matched.context.as_str());
    let name = name(outcome);
    json!({
        "ruleId": detection.pattern,
        "level": match (outcome.verdict, detection.severity) {
            (Action::Alert | Action::Block, Severity::High | Severity::Critical) => "error",
            (Action::None, _) => "note",
            _ => "warning",
        },
        "message": { "text": format!("{}: {} ({})", escape::printable(&name, 80), detection.explanation, context) },
        "locations": [{
            "physicalLocation": { "artifactLocation": { "uri": uri(source) }, "region": { "startLine": outcome.line } },
            "logicalLocations": [{ "fullyQualifiedName": detection.field }],
        }],
        "properties": { "verdict": outcome.verdict, "score": outcome.score, "category": detection.category },
    })
}
