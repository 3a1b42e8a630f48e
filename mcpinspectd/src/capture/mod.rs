//! The kernel: loading the probes, emptying their ring, and nothing of what the bytes mean.

mod btf;
mod clock;
mod handover;
mod hook;
mod layout;
mod operations;
mod preemption;
mod probes;
mod record;
mod ring;
mod tracked;

pub use btf::BtfError;
pub use clock::BootClock;
pub use hook::{Hook, HookChoice};
pub use layout::Layout;
pub use preemption::release_numbers;
pub use probes::{KERNEL_BTF, Options, ProbeError, Probes, probes_missing, resolve_layout};
pub use record::{DecodeError, KernelRecord, Origin, decode};
pub use ring::{Batch, Drain, start};
pub use tracked::TrackedProcesses;
