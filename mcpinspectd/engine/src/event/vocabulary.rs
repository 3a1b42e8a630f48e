//! The vocabulary that titles, sentences and journal fields share. Whatever comes from the other side
//! is escaped and bounded here.

use mcpinspect_core::model::{Detection, FieldChange, Pid, Severity};
use mcpinspect_core::text::escape::printable;

use super::orders::orders;

/// Longest name in either, characters.
pub(super) const MAX_NAME: usize = 64;
/// Longest value of a detail, characters.
const MAX_DETAIL: usize = 256;

/// How a type of event reads, and what readers filter it by.
pub(super) trait Describe {
    /// How bad it is; `None` for the ordinary course of things.
    fn severity(&self) -> Option<Severity> {
        None
    }

    /// One line that names what happened and to which `server`, and reveals no content.
    fn title(&self, server: &str) -> String;

    /// What the sentence says beyond the title.
    fn particulars(&self, sentence: &mut Sentence);

    /// What readers filter by beyond server, session and severity.
    fn details(&self, details: &mut Details);
}

/// A sentence that grows by clauses.
pub(super) struct Sentence(String);

impl Sentence {
    /// A sentence that begins with this clause.
    pub(super) fn of(first: String) -> Self {
        Self(first)
    }

    /// What it says so far.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Adds a clause.
    pub(super) fn add(&mut self, clause: impl AsRef<str>) {
        self.0.push_str("; ");
        self.0.push_str(clause.as_ref());
    }
}

/// Details that are collected: escaped and bounded as they come.
#[derive(Default)]
pub(super) struct Details(Vec<(&'static str, String)>);

impl Details {
    /// What was collected.
    pub(super) fn into_vec(self) -> Vec<(&'static str, String)> {
        self.0
    }

    /// Adds a detail.
    pub(super) fn add(&mut self, name: &'static str, value: &str) {
        self.0.push((name, printable(value, MAX_DETAIL)));
    }

    /// Adds a detail that may be absent.
    pub(super) fn add_some(&mut self, name: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds the category of the worst finding, where there is one.
    pub(super) fn category(&mut self, detections: &[Detection]) {
        self.add_some(
            "MCPINSPECT_CATEGORY",
            worst(detections).map(|found| &*found.category),
        );
    }
}

/// The first pids of a list, and how many more there are.
pub(super) fn listed(pids: &[Pid]) -> String {
    const SHOWN: usize = 16;
    let mut text: Vec<String> = pids.iter().take(SHOWN).map(Pid::to_string).collect();
    if pids.len() > SHOWN {
        text.push(format!("and {} more", pids.len() - SHOWN));
    }
    text.join(" ")
}

/// The finding that decides: the first of the worst.
pub(super) fn worst(detections: &[Detection]) -> Option<&Detection> {
    detections.iter().rev().max_by_key(|found| found.severity)
}

/// What was found, where something was: what the text wants, or the worst finding.
pub(super) fn findings(detections: &[Detection]) -> Option<String> {
    let worst = worst(detections)?;
    let what = orders(detections).unwrap_or_else(|| worst.explanation.clone());
    Some(match detections.len() {
        1 => format!("{}: {what}", category(worst)),
        n => format!("{n} findings, the worst {}: {what}", category(worst)),
    })
}

/// The names of the fields that differ.
pub(super) fn changed_fields(changes: &[FieldChange]) -> String {
    const SHOWN: usize = 5;
    let names: Vec<String> = changes
        .iter()
        .take(SHOWN)
        .map(|change| printable(&change.field, MAX_NAME))
        .collect();
    match changes.len() {
        0 => "fields unknown".to_owned(),
        n if n > SHOWN => format!("fields {} and {} more", names.join(", "), n - SHOWN),
        1 => format!("field {}", names.join("")),
        _ => format!("fields {}", names.join(", ")),
    }
}

/// `hidden_instructions` as `Hidden instructions`.
pub(super) fn category(detection: &Detection) -> String {
    let mut words = printable(&detection.category, MAX_NAME).replace('_', " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}

/// A tool's name in quotes.
pub(super) fn name(text: &str) -> String {
    format!("\"{}\"", printable(text, MAX_NAME))
}
