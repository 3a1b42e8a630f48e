//! The table of event types: one row per type, with everything about it that never changes.
//!
//! A journal `MESSAGE_ID` is a promise: once shipped, queries, alerts and catalogs in the field
//! depend on it. So the ids are in one place, next to the type's external name, and a test checks
//! the shipped message catalog against this table.

/// The type of an [`Event`](super::Event), without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// `mcp_tool_seen`
    ToolSeen,
    /// `mcp_tool_changed`
    ToolChanged,
    /// `mcp_server_changed`
    ServerChanged,
    /// `mcp_detection`
    Detection,
    /// `mcp_session_started`
    SessionStarted,
    /// `mcp_session_identified`
    SessionIdentified,
    /// `mcp_session_ended`
    SessionEnded,
    /// `mcp_call_hung`
    CallHung,
    /// `mcp_server_orphaned`
    ServerOrphaned,
    /// `mcp_capture_gap`
    CaptureGap,
    /// `mcp_blind_spot`
    BlindSpot,
    /// `mcp_invalid_message`
    InvalidMessage,
    /// `mcp_policy`
    Policy,
    /// `mcp_rule_matched`
    RuleMatched,
    /// `mcp_contained`
    Contained,
    /// `mcp_registry_full`
    RegistryFull,
    /// `mcp_events_dropped`
    EventsDropped,
    /// `mcp_store`
    Store,
}

impl EventKind {
    /// Every type there is.
    pub const ALL: [Self; 18] = [
        Self::ToolSeen,
        Self::ToolChanged,
        Self::ServerChanged,
        Self::Detection,
        Self::SessionStarted,
        Self::SessionIdentified,
        Self::SessionEnded,
        Self::CallHung,
        Self::ServerOrphaned,
        Self::CaptureGap,
        Self::BlindSpot,
        Self::InvalidMessage,
        Self::Policy,
        Self::RuleMatched,
        Self::Contained,
        Self::RegistryFull,
        Self::EventsDropped,
        Self::Store,
    ];

    /// The type's external name: the `type` of its JSON and the journal's `MCPINSPECT_EVENT`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The journal's `MESSAGE_ID`: 128 bits, lower-case hex, fixed forever.
    pub fn message_id(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> (&'static str, &'static str) {
        match self {
            Self::ToolSeen => ("mcp_tool_seen", "872b669e62594390ba02ae62562675de"),
            Self::ToolChanged => ("mcp_tool_changed", "85b36284872b46bd8bac7b16f9834dd7"),
            Self::ServerChanged => ("mcp_server_changed", "c41a1b650327409b8b33bbdbf28ec4a2"),
            Self::Detection => ("mcp_detection", "23c2f50e38724ad6ba0a4634dcada349"),
            Self::SessionStarted => ("mcp_session_started", "33f1c0ebdd1f4913a9187c8d672ed0cf"),
            Self::SessionIdentified => {
                ("mcp_session_identified", "512d2d94920d46bbb89d1c19c46bb7d9")
            }
            Self::SessionEnded => ("mcp_session_ended", "33f2fbbb8a9e4f60897f16986b7b3e96"),
            Self::CallHung => ("mcp_call_hung", "fbc1a19ce809495ca65e81b6017ec1c3"),
            Self::ServerOrphaned => ("mcp_server_orphaned", "37a848b515654b758bebed34a12d4014"),
            Self::CaptureGap => ("mcp_capture_gap", "1551cbf79b3d4e99b1b6ec99e42738e8"),
            Self::BlindSpot => ("mcp_blind_spot", "dac2852c733445ae8d662bfa26114b21"),
            Self::InvalidMessage => ("mcp_invalid_message", "c792d67ac6ff4c9599da4b2c4793672c"),
            Self::Policy => ("mcp_policy", "cc284d2090ff48729fd7ed52593a95c8"),
            Self::RuleMatched => ("mcp_rule_matched", "d73a9515fead4d8ea7942681e3d96d11"),
            Self::Contained => ("mcp_contained", "e1a3c92f6d0b4c57a84f27d5b9036e1c"),
            Self::RegistryFull => ("mcp_registry_full", "6c1f0e7a94d2480fb3a5d7290c8be416"),
            Self::Store => ("mcp_store", "b7d7cde3b4fe4c1e9686aa390238b2f5"),
            Self::EventsDropped => ("mcp_events_dropped", "bf74147c45de46e8aa1ab895870a809f"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::EventKind;

    #[test]
    fn names_and_message_ids_are_unique_and_well_formed() {
        let mut names = HashSet::new();
        let mut ids = HashSet::new();
        for kind in EventKind::ALL {
            assert!(names.insert(kind.name()), "{} is listed twice", kind.name());
            assert!(
                ids.insert(kind.message_id()),
                "{} shares its id",
                kind.name()
            );
            assert!(kind.name().starts_with("mcp_"));
            assert_eq!(kind.message_id().len(), 32);
            assert!(
                kind.message_id()
                    .bytes()
                    .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            );
        }
    }
}
