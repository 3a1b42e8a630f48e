//! The kernel's side: loads the probes, empties their ring, and knows nothing of what the bytes mean.
//!
//! The probes write records into the ring, the `drain` thread copies them out in batches, and
//! [`decode`] turns each record's bytes into a [`KernelRecord`]. In the other direction [`Probes`]
//! sets how far each endpoint is watched and which processes are tracked. No other module uses aya.
//!
//! - `probes`, `object`, `error`: loading, and the maps that the probes share with the daemon
//! - `hook`, `choice`, `preemption`, `switchover`: how the end of system calls is hooked, and which
//!   hook is exact on this kernel
//! - `layout`, `btf`, `operations`: what the probes must know about this kernel and architecture
//! - `tracked`: the table of processes whose calls are captured
//! - `ring`, `record`, `clock`: what comes back
//!
//! The module depends on `process` for one purpose: during a switchover from one hook to another,
//! `/proc` shows which threads are still in a call that began before it.

mod btf;
mod choice;
mod clock;
mod error;
mod hook;
mod layout;
mod object;
mod operations;
mod preemption;
mod probes;
mod record;
mod ring;
mod switchover;
mod tracked;

pub use btf::BtfError;
pub use choice::HookChoice;
pub use clock::BootClock;
pub use error::ProbeError;
pub use hook::Hook;
pub use layout::Layout;
pub use preemption::release_numbers;
pub use probes::{KERNEL_BTF, Options, Probes, probes_missing};
pub use record::{DecodeError, KernelRecord, Origin, decode};
pub use ring::{Batch, Drain, start};
pub use tracked::TrackedProcesses;
