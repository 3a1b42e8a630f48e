//! What the daemon's signals tell, and whom it concerns.

use mcpinspectd::model::Severity;

/// The arguments of an `Event` signal.
pub type Arguments = (String, String, String, String, u32, String);

/// One event worth a person's attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its id, by which details are fetched.
    pub event_id: String,
    /// Its type, such as `mcp_tool_changed`.
    pub kind: String,
    /// How bad it is.
    pub severity: Severity,
    /// The server it is about.
    pub server: String,
    /// What it says, in names only.
    pub title: String,
}

/// Which alerts to show.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// This user's servers alone; `None` for everyone's.
    pub uid: Option<u32>,
    /// Nothing less bad than this.
    pub least: Severity,
}

impl Filter {
    /// The alert in a signal, where it is one that concerns us. An event without a severity is the
    /// ordinary course of things, and one without a known owner concerns whoever watches everyone.
    pub fn alert(
        &self,
        (kind, event_id, severity, server, uid, title): Arguments,
    ) -> Option<Alert> {
        let severity = Severity::from_word(&severity)?;
        let ours = self.uid.is_none_or(|own| own == uid);
        (ours && severity >= self.least).then_some(Alert {
            event_id,
            kind,
            severity,
            server,
            title,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(severity: &str, uid: u32) -> Arguments {
        let own = str::to_owned;
        (
            own("mcp_detection"),
            own("1-1"),
            own(severity),
            own("files"),
            uid,
            own("title"),
        )
    }

    #[test]
    fn only_what_is_ours_and_bad_enough_is_an_alert() {
        let mine = Filter {
            uid: Some(1000),
            least: Severity::Medium,
        };
        assert!(mine.alert(arguments("medium", 1000)).is_some());
        assert!(mine.alert(arguments("low", 1000)).is_none());
        assert!(mine.alert(arguments("", 1000)).is_none());
        assert!(mine.alert(arguments("critical", 1001)).is_none());
        assert!(mine.alert(arguments("critical", u32::MAX)).is_none());
        let all = Filter {
            uid: None,
            least: Severity::Low,
        };
        assert!(all.alert(arguments("low", u32::MAX)).is_some());
        assert!(all.alert(arguments("terrible", 0)).is_none());
    }
}
