//! What was not seen, not understood, or not delivered.

use mcpinspect_core::model::{BlindMechanism, Direction, GapReason, Pid, ServerId, Severity};
use mcpinspect_core::text::escape::printable;
use serde::Serialize;

use crate::event::vocabulary::{Describe, Details, MAX_NAME, Sentence};

/// Bytes of a stream were lost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaptureGap {
    /// The stream's direction.
    pub direction: Direction,
    /// How many bytes.
    pub bytes_lost: u64,
    /// Where the gap starts, bytes from the stream's start.
    pub position: u64,
    /// Why.
    pub reason: GapReason,
}

impl Describe for CaptureGap {
    fn severity(&self) -> Option<Severity> {
        Some(match self.reason {
            // Requested by a person.
            GapReason::MonitoringPaused => Severity::Low,
            GapReason::RingFull
            | GapReason::PageNotResident
            | GapReason::NotCopied
            | GapReason::FrameTooLarge
            | GapReason::NeverRead
            | GapReason::PositionJump
            | GapReason::SessionBudget
            | GapReason::WrittenByReader
            | GapReason::JudgedNotMcp
            | GapReason::Excluded => Severity::Medium,
        })
    }

    fn title(&self, server: &str) -> String {
        format!("{} bytes of {server} were lost", self.bytes_lost)
    }

    fn particulars(&self, sentence: &mut Sentence) {
        let (direction, position) = (self.direction.as_str(), self.position);
        sentence.add(format!("{direction} from byte {position}: {}", self.reason));
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_DIRECTION", self.direction.as_str());
        details.add("MCPINSPECT_BYTES_LOST", &self.bytes_lost.to_string());
        details.add("MCPINSPECT_REASON", self.reason.as_str());
    }
}

/// A party moves bytes in a way that the probes cannot copy, or there is no room to follow it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlindSpot {
    /// The system call or mechanism, or the budget that is used up.
    pub mechanism: BlindMechanism,
    /// The process that uses it.
    pub pid: Pid,
    /// The user whose budget is used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// What was found of a library that is not looked into, escaped and bounded; or how much was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Always false, and kept for the programs that read it: where the other end of the stream has the
    /// bytes, nothing is lost, and no event is made.
    pub covered_by_other_end: bool,
}

impl Describe for BlindSpot {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::High)
    }

    fn title(&self, server: &str) -> String {
        let mechanism = self.mechanism;
        match (self.uid, mechanism) {
            (Some(uid), _) => format!("User {uid} holds more than can be watched ({mechanism})"),
            (None, BlindMechanism::WrittenByReader) => format!("{server} writes to its own input"),
            (None, BlindMechanism::JudgedNotMcp) => {
                format!("{server} did not look like MCP at first")
            }
            (None, BlindMechanism::Excluded) => {
                format!("{server} replaced an excluded program")
            }
            (None, BlindMechanism::HttpUpgraded) => {
                format!("A connection with {server} is no longer HTTP")
            }
            (None, BlindMechanism::HttpAmbiguous) => {
                format!("A connection with {server} can be read in two ways")
            }
            (None, BlindMechanism::RecordLost) => "The kernel's ring buffer was full".to_owned(),
            (None, BlindMechanism::TlsUnpaired) => "A TLS connection cannot be followed".to_owned(),
            (None, BlindMechanism::TlsLibrary) => "A TLS library is not watched".to_owned(),
            (None, _) => format!("{server} moves data by {mechanism}"),
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        if let Some(found) = &self.found {
            sentence.add(found.clone());
        }
        sentence.add(match self.uid {
            Some(_) => format!(
                "pid {} was the latest; some of it is not captured",
                self.pid
            ),
            None => match self.mechanism {
                BlindMechanism::WrittenByReader => {
                    format!("pid {}; these bytes do not come from its client", self.pid)
                }
                BlindMechanism::JudgedNotMcp | BlindMechanism::Excluded => {
                    format!("pid {}; earlier bytes are not captured", self.pid)
                }
                BlindMechanism::HttpUpgraded | BlindMechanism::HttpAmbiguous => {
                    format!("pid {}; later bytes are not captured", self.pid)
                }
                BlindMechanism::RecordLost => {
                    "lost; processes, streams and connections that began meanwhile may be missed"
                        .to_owned()
                }
                BlindMechanism::TlsUnpaired => {
                    format!("pid {}; it is captured once it is opened again", self.pid)
                }
                BlindMechanism::TlsLibrary => {
                    format!("pid {}; its TLS traffic is not captured", self.pid)
                }
                _ => format!("pid {}; its bytes are not captured", self.pid),
            },
        });
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_MECHANISM", self.mechanism.as_str());
        details.add_some("MCPINSPECT_FOUND", self.found.as_deref());
    }
}

/// Bytes on the wire that are not a valid message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InvalidMessage {
    /// The stream's direction.
    pub direction: Direction,
    /// What is wrong with it, such as `not_json`.
    pub reason: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its beginning, escaped, redacted and bounded.
    pub excerpt: String,
    /// How many others of this session were suppressed since the one before.
    pub suppressed: u64,
}

impl Describe for InvalidMessage {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Low)
    }

    fn title(&self, server: &str) -> String {
        format!("Invalid message in a session with {server}")
    }

    fn particulars(&self, sentence: &mut Sentence) {
        let direction = self.direction.as_str();
        sentence.add(format!(
            "{direction}: {}, {} bytes",
            self.reason, self.bytes
        ));
        if self.suppressed > 0 {
            sentence.add(format!(
                "{} more before it were not reported",
                self.suppressed
            ));
        }
        sentence.add(format!("begins {}", self.excerpt));
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_DIRECTION", self.direction.as_str());
        details.add("MCPINSPECT_REASON", &self.reason);
    }
}

/// Why events were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// A sink was too slow for them.
    QueueFull,
    /// A server caused more than its rate allows.
    Flood,
}

impl DropReason {
    /// The word used on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Flood => "flood",
        }
    }
}

/// The daemon itself left events out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventsDropped {
    /// The sink that missed them, such as `journal`; `null` where all of them did.
    pub sink: Option<String>,
    /// The server that they were about; `null` where they were about several.
    pub server_id: Option<ServerId>,
    /// Why.
    pub reason: DropReason,
    /// How many events, since the last such event.
    pub dropped: u64,
}

impl Describe for EventsDropped {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Medium)
    }

    fn title(&self, server: &str) -> String {
        let dropped = self.dropped;
        match (&self.sink, &self.server_id) {
            (Some(sink), _) => {
                let sink = printable(sink, MAX_NAME);
                format!("{dropped} events did not reach the {sink} sink")
            }
            (None, Some(_)) => format!("{dropped} events about {server} were left out"),
            (None, None) => format!("{dropped} events were left out"),
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        sentence.add(match self.reason {
            DropReason::Flood => "there were too many in too short a time",
            DropReason::QueueFull => "its queue was full",
        });
    }

    fn details(&self, details: &mut Details) {
        details.add_some("MCPINSPECT_SINK", self.sink.as_deref());
        details.add("MCPINSPECT_REASON", self.reason.as_str());
        details.add("MCPINSPECT_DROPPED", &self.dropped.to_string());
    }
}
