//! What can happen: one struct per type of event, grouped by topic.
//!
//! A type of event is described in one place: its fields, which are its JSON; how bad it is; its title
//! and its sentence; and the fields by which readers of the journal filter. A new one takes a struct
//! with its `Describe`, a variant here, and a row in [`EventKind`].

mod capture;
mod containment;
mod definition;
mod exchange;
mod finding;
mod policy;
mod room;
mod rule;
mod session;
mod store;

use mcpinspect_core::model::{Detection, FieldChange};
use serde::Serialize;

pub use capture::{BlindSpot, CaptureGap, DropReason, EventsDropped, InvalidMessage};
pub use containment::Contained;
pub use definition::{ServerChanged, ToolChanged, ToolSeen};
pub use exchange::{CallHung, ServerOrphaned};
pub use finding::Detected;
pub use policy::{Policy, PolicyDecision, PolicyItem};
pub use room::RegistryFull;
pub use rule::{MatchedRule, RuleMatched};
pub use session::{SessionEnded, SessionIdentified, SessionStarted};
pub use store::{StoreNotice, StoreTrouble};

use super::kind::EventKind;
use super::vocabulary::Describe;

impl Body {
    /// Bytes of memory that it takes, roughly: of the largest bodies, those about definitions and
    /// findings.
    pub fn size(&self) -> usize {
        let findings = |found: &[Detection]| found.iter().map(Detection::size).sum::<usize>();
        let changes =
            |changed: &[FieldChange]| changed.iter().map(FieldChange::size).sum::<usize>();
        let inside = match self {
            Self::ToolSeen(body) => body.description.len() + findings(&body.detections),
            Self::ToolChanged(body) => changes(&body.changes) + findings(&body.detections),
            Self::ServerChanged(body) => changes(&body.changes) + findings(&body.detections),
            Self::Detection(body) => body.detection.size() + findings(&body.related),
            Self::RuleMatched(body) => body.size(),
            _ => 0,
        };
        size_of::<Self>() + inside
    }
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $kind:ident($body:ty),)*) => {
        /// What happened.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Body {
            $($(#[$doc])* $kind($body),)*
        }

        impl Body {
            /// Its type.
            pub fn kind(&self) -> EventKind {
                match self {
                    $(Self::$kind(_) => EventKind::$kind,)*
                }
            }

            /// How it reads.
            pub(super) fn describe(&self) -> &dyn Describe {
                match self {
                    $(Self::$kind(body) => body,)*
                }
            }
        }

        $(impl From<$body> for Body {
            fn from(body: $body) -> Self {
                Self::$kind(body)
            }
        })*
    };
}

bodies! {
    /// A tool was listed: new, or as pinned.
    ToolSeen(ToolSeen),
    /// A tool is not what was pinned, or a pinned tool is gone.
    ToolChanged(ToolChanged),
    /// What a server says of itself, or the program behind it, is not what was pinned.
    ServerChanged(ServerChanged),
    /// Detection found something in a definition or a message.
    Detection(Detected),
    /// A session was recognised.
    SessionStarted(SessionStarted),
    /// The parties told each other who they are.
    SessionIdentified(SessionIdentified),
    /// A session is over.
    SessionEnded(SessionEnded),
    /// A request has waited too long for its answer.
    CallHung(CallHung),
    /// A server goes on running after its client is gone.
    ServerOrphaned(ServerOrphaned),
    /// Bytes of a stream were lost.
    CaptureGap(CaptureGap),
    /// A party moves bytes in a way that the probes cannot copy.
    BlindSpot(BlindSpot),
    /// Bytes on the wire that are not a valid message.
    InvalidMessage(InvalidMessage),
    /// A person or the configuration decided something.
    Policy(Policy),
    /// A rule of the policy matched a message.
    RuleMatched(RuleMatched),
    /// A server's processes were frozen, thawed or killed.
    Contained(Contained),
    /// There was no room to pin definitions.
    RegistryFull(RegistryFull),
    /// The daemon itself left events out.
    EventsDropped(EventsDropped),
    /// Messages are not recorded, or are again.
    Store(StoreNotice),
}
