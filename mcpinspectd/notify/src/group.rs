//! The alerts about one server, which share a card.
//!
//! The card tells of the worst of them in a sentence, and names the others. What another alert of the group
//! says as well is left out, so that one poisoned tool is one alert.

use std::collections::VecDeque;
use std::time::Instant;

use mcpinspect_core::model::Severity;
use serde::{Deserialize, Serialize};

use crate::alert::Alert;
use crate::evidence::Evidence;

/// Alerts that a group remembers; of older ones only the number.
pub const REMEMBERED: usize = 32;
/// Alerts that a card names.
const NAMED: usize = 5;

/// An alert, with what is known about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExplainedAlert {
    /// The alert.
    pub alert: Alert,
    /// What is behind it; nothing until it was asked for.
    pub evidence: Option<Evidence>,
    #[serde(skip)]
    is_shown: bool,
}

/// What is on the screen.
#[derive(Debug)]
pub struct OpenCard {
    /// The card's id.
    pub id: u32,
    /// Since when.
    pub at: Instant,
    /// The alert that it tells of, which its buttons act on.
    pub lead: ExplainedAlert,
}

/// A group on its way to the agent's next run.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedGroup {
    /// The id of its card, if it has one.
    card: Option<u32>,
    counted: u64,
    alerts: VecDeque<ExplainedAlert>,
}

/// Alerts about one server.
#[derive(Debug)]
pub struct Group {
    alerts: VecDeque<ExplainedAlert>,
    /// Alerts that are only counted, and those of them that no card has told of.
    counted: u64,
    untold: u64,
    /// The worst severity so far.
    pub severity: Severity,
    /// When the last alert was added.
    pub added: Instant,
    /// Its card.
    pub open_card: Option<OpenCard>,
}

impl Group {
    /// A group without a card.
    pub fn new(alert: Alert, now: Instant) -> Self {
        let mut group = Self {
            alerts: VecDeque::new(),
            counted: 0,
            untold: 0,
            severity: alert.severity,
            added: now,
            open_card: None,
        };
        group.add(alert, now);
        group
    }

    /// What the next run needs to go on with it.
    pub fn saved(&self) -> SavedGroup {
        SavedGroup {
            card: self.open_card.as_ref().map(|open_card| open_card.id),
            counted: self.counted,
            alerts: self.alerts.clone(),
        }
    }

    /// The group of an earlier run, and its server. All that it knows is news, because a card has to be shown
    /// again before its buttons work for this run.
    pub fn of(saved: SavedGroup, now: Instant) -> Option<(String, Self)> {
        let mut alerts = saved.alerts;
        alerts.truncate(REMEMBERED);
        let server = alerts.front()?.alert.server.clone();
        let mut group = Self {
            severity: alerts
                .iter()
                .map(|explained| explained.alert.severity)
                .max()?,
            alerts,
            counted: saved.counted,
            untold: 0,
            added: now,
            open_card: None,
        };
        let lead = group.lead()?.clone();
        group.open_card = saved.card.map(|id| OpenCard { id, at: now, lead });
        Some((server, group))
    }

    /// Adds an alert.
    pub fn add(&mut self, alert: Alert, now: Instant) {
        self.severity = self.severity.max(alert.severity);
        self.added = now;
        self.alerts.push_back(ExplainedAlert {
            alert,
            evidence: None,
            is_shown: false,
        });
        if self.alerts.len() > REMEMBERED
            && let Some(oldest) = self.alerts.pop_front()
        {
            self.counted += 1;
            self.untold += u64::from(!oldest.is_shown);
        }
    }

    /// Whether there is something that its card does not tell yet.
    pub fn is_news(&self) -> bool {
        self.untold > 0 || self.alerts.iter().any(|explained| !explained.is_shown)
    }

    /// The events whose evidence is not known.
    pub fn unexplained(&self) -> impl Iterator<Item = &str> {
        let unknown = self
            .alerts
            .iter()
            .filter(|explained| explained.evidence.is_none());
        unknown.map(|explained| explained.alert.event_id.as_str())
    }

    /// Takes in the evidence of an event, and lets go of alerts that another one covers.
    pub fn explain(&mut self, event_id: &str, evidence: &Evidence) {
        for explained in &mut self.alerts {
            if explained.alert.event_id == event_id {
                explained.evidence = Some(evidence.clone());
            }
        }
        let all: Vec<Evidence> = self
            .alerts
            .iter()
            .filter_map(|explained| explained.evidence.clone())
            .collect();
        self.alerts.retain(|explained| {
            let covered = |own: &Evidence| all.iter().any(|other| other.covers(own));
            !explained.evidence.as_ref().is_some_and(covered)
        });
    }

    /// Records that its card is on the screen.
    pub fn set_shown(&mut self, id: u32, now: Instant) {
        self.untold = 0;
        for explained in &mut self.alerts {
            explained.is_shown = true;
        }
        let lead = self.lead().cloned();
        self.open_card = lead.map(|lead| OpenCard { id, at: now, lead });
    }

    /// The heading and the lines of its card, and the alert that its buttons act on.
    pub fn card(&self, server: &str) -> Option<(String, Vec<String>, &Alert)> {
        let lead = self.lead()?;
        let evidence_lines = lead.evidence.as_ref().map(Evidence::lines);
        let mut lines = evidence_lines.unwrap_or_default();
        let count = self.counted + self.alerts.len() as u64;
        if count == 1 {
            lines.push(format!("Severity: {}", self.severity.as_str()));
            return Some((lead.alert.title.clone(), lines, &lead.alert));
        }
        let about = if server.is_empty() {
            "mcpinspectd"
        } else {
            server
        };
        lines.extend(self.titles());
        Some((format!("{count} alerts about {about}"), lines, &lead.alert))
    }

    /// The latest of the worst. Of alerts that are equally bad, one about a definition: a person can decide on it.
    fn lead(&self) -> Option<&ExplainedAlert> {
        self.alerts
            .iter()
            .max_by_key(|explained| (explained.alert.severity, explained.alert.is_decidable()))
    }

    /// The latest titles, each once in a row, the latest last.
    fn titles(&self) -> Vec<String> {
        let mut titles: Vec<&String> = self
            .alerts
            .iter()
            .map(|explained| &explained.alert.title)
            .collect();
        titles.dedup();
        let skipped = titles.len().saturating_sub(NAMED);
        titles.into_iter().skip(skipped).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn alert(event_id: &str, kind: &str, title: &str) -> Alert {
        Alert {
            event_id: event_id.to_owned(),
            kind: kind.to_owned(),
            severity: Severity::High,
            server: "notes".to_owned(),
            title: title.to_owned(),
        }
    }

    fn found(category: &str) -> Value {
        json!({"pattern": category, "category": category, "severity": "high", "field": "description",
            "explanation": "One sentence.", "matches": []})
    }

    #[test]
    fn one_poisoned_tool_is_one_alert() {
        let now = Instant::now();
        let mut group = Group::new(alert("1", "mcp_tool_changed", "Tool has changed"), now);
        let definition = json!({"session_id": "s", "tool_name": "read",
            "detections": [found("concealment"), found("credential_access")]});
        group.explain("1", &Evidence::of(&definition));
        group.set_shown(7, now);
        for (id, category) in [("2", "concealment"), ("3", "credential_access")] {
            group.add(alert(id, "mcp_detection", category), now);
            assert!(group.is_news());
            assert_eq!(group.unexplained().collect::<Vec<_>>(), [id]);
            let detection =
                json!({"session_id": "s", "tool_name": "read", "detection": found(category)});
            group.explain(id, &Evidence::of(&detection));
            assert!(!group.is_news(), "{id} is on the card already");
        }
        let (summary, lines, lead) = group.card("notes").unwrap();
        assert_eq!(summary, "Tool has changed");
        assert_eq!(lead.event_id, "1");
        insta::assert_snapshot!(lines.join("\n"), @r"
        Its text tells your agent to read keys, passwords or the like and to keep that from you.
        Severity: high
        ");
    }

    #[test]
    fn what_can_be_decided_leads() {
        let now = Instant::now();
        let mut group = Group::new(alert("1", "mcp_tool_changed", "a"), now);
        group.add(alert("2", "mcp_detection", "b"), now);
        assert_eq!(group.card("notes").unwrap().2.event_id, "1");
        let mut worse = alert("3", "mcp_detection", "c");
        worse.severity = Severity::Critical;
        group.add(worse, now);
        let (summary, lines, lead) = group.card("notes").unwrap();
        assert_eq!(
            (summary.as_str(), lead.event_id.as_str()),
            ("3 alerts about notes", "3")
        );
        assert_eq!(lines, ["a", "b", "c"]);
    }

    #[test]
    fn what_is_forgotten_is_counted() {
        let now = Instant::now();
        let mut group = Group::new(alert("0", "mcp_detection", "t"), now);
        for id in 1..1_000 {
            group.add(
                alert(&id.to_string(), "mcp_detection", &format!("title {id}")),
                now,
            );
        }
        assert_eq!(group.alerts.len(), REMEMBERED);
        let (summary, lines, _) = group.card("notes").unwrap();
        assert_eq!(summary, "1000 alerts about notes");
        assert_eq!(lines.len(), NAMED);
        group.set_shown(7, now);
        assert!(!group.is_news());
    }
}
