//! Which of the daemon's signals become alerts for this user.

use mcpinspect_bus::rows::SignalRow;
use mcpinspect_core::model::Severity;
use serde::{Deserialize, Serialize};

/// An event worth a person's attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Its id, by which details are fetched.
    pub event_id: String,
    /// Its type, such as `mcp_tool_changed`.
    pub kind: String,
    /// How bad it is.
    pub severity: Severity,
    /// The server it is about.
    pub server: String,
    /// Its title, made of names only.
    pub title: String,
}

impl Alert {
    /// Whether it is about a definition or a server that a person can approve.
    pub fn is_decidable(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "mcp_tool_changed" | "mcp_server_changed"
        )
    }
}

/// Which alerts to show.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Only this user's servers; `None` for all users'.
    pub uid: Option<u32>,
    /// The lowest severity to show.
    pub min_severity: Severity,
}

impl Filter {
    /// Turns a signal into an alert if it passes the filter. Events without a severity are routine,
    /// and events without a known user are shown only to those who watch all users.
    pub fn alert(&self, signal: SignalRow) -> Option<Alert> {
        let severity = Severity::from_word(&signal.severity)?;
        let ours = self.uid.is_none_or(|own| own == signal.uid);
        (ours && severity >= self.min_severity).then_some(Alert {
            event_id: signal.event_id,
            kind: signal.kind,
            severity,
            server: signal.server,
            title: signal.title,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(severity: &str, uid: u32) -> SignalRow {
        SignalRow {
            kind: "mcp_detection".to_owned(),
            event_id: "1-1".to_owned(),
            severity: severity.to_owned(),
            server: "files".to_owned(),
            uid,
            title: "title".to_owned(),
        }
    }

    #[test]
    fn only_severe_events_of_our_servers_become_alerts() {
        let mine = Filter {
            uid: Some(1000),
            min_severity: Severity::Medium,
        };
        assert!(mine.alert(signal("medium", 1000)).is_some());
        assert!(mine.alert(signal("low", 1000)).is_none());
        assert!(mine.alert(signal("", 1000)).is_none());
        assert!(mine.alert(signal("critical", 1001)).is_none());
        assert!(mine.alert(signal("critical", u32::MAX)).is_none());
        let all = Filter {
            uid: None,
            min_severity: Severity::Low,
        };
        assert!(all.alert(signal("low", u32::MAX)).is_some());
        assert!(all.alert(signal("terrible", 0)).is_none());
    }
}
