//! The kernel: loading the probes, emptying their ring, and nothing of what the bytes mean.

mod btf;
mod clock;
mod handover;
mod hook;
mod involved;
mod layout;
mod operations;
mod preemption;
mod probes;
mod record;
mod ring;

pub use btf::BtfError;
pub use clock::BootClock;
pub use hook::{Hook, HookChoice};
pub use involved::InvolvedTable;
pub use layout::Layout;
pub use preemption::release_numbers;
pub use probes::{KERNEL_BTF, Options, ProbeError, Probes, probes_missing, resolve_layout};
pub use record::{Actor, Record, RecordError, decode};
pub use ring::{Batch, Drain, start};
