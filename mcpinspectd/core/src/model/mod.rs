//! The words that every module shares: plain values without behaviour of their own.
//!
//! Whatever two modules have to agree on is defined here, so that neither has to know the other:
//! time, names, processes, findings, hashes and counters. Nothing in here does I/O, except for
//! [`Timestamp::now`].

mod bytes;
mod choice;
mod containment;
mod counters;
mod direction;
mod executed;
mod finding;
mod hash;
mod id;
mod input;
mod item;
mod json;
mod process;
mod publisher;
mod server_side;
mod stream;
mod time;
mod tool;
mod transport;
mod word;

pub use choice::{HookChoice, TlsChoice};
pub use containment::ContainmentAction;
pub use counters::{Account, CaptureTotals, SinkTally, StreamLedger};
pub use direction::Direction;
pub use executed::{Executed, ExecutedBy, ticks};
pub use finding::{Action, Detection, Match, Severity};
pub use hash::{DefinitionHash, NotAHash};
pub use id::{EVERY_SERVER, FormerIdentity, ServerId, ServerIdentity, SessionId};
pub use input::{Input, InputSink, SessionStart};
pub use item::ItemKind;
pub use json::JsonText;
pub use process::{Party, Pid, Process};
pub use publisher::publisher;
pub use server_side::{InodeKey, ServerSide};
pub use stream::{Content, Segment, StreamEvent};
pub use time::{BootTime, Timestamp};
pub use tool::{FieldChange, ToolStatus};
pub use transport::{ServerEndpoint, Transport};
pub use word::{BlindMechanism, EndReason, GapReason, ServerPart};
