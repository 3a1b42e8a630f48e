//! The kernel's side: loads the probes and empties their ring, without knowing what the bytes mean.
//!
//! The probes write records into the ring, the `drain` thread copies them out in batches, and
//! [`decode`] turns each record's bytes into a [`KernelRecord`]. In the other direction [`Probes`]
//! sets how much of each endpoint is watched and which processes are tracked. No other module uses aya.
//!
//! - `probes`, `object`, `loading`, `error`: loading, and the maps that the probes share with the daemon
//! - `hook`, `preemption`, `switchover`: how the end of system calls is hooked, and which
//!   hook is exact on this kernel
//! - `layout`, `btf`, `operations`: what the probes must know about this kernel and architecture
//! - `tables`: how many endpoints the kernel's tables have room for
//! - `tracked`: the table of processes whose calls are captured
//! - `tls`, `tls_file`, `uprobe_multi`, `return_probes`: probes in TLS libraries, one process at a time or all
//! - `ring`, `record`, `clock`: what comes back
//!
//! It asks `golang` where the functions in Go programs are.
//!
//! The module depends on `process` for one thing: during a switchover from one hook to another,
//! `/proc` shows which threads are still in a call that began before it.

mod btf;
mod clock;
mod error;
mod hook;
mod layout;
mod loading;
mod mapped;
mod object;
mod operations;
mod preemption;
mod probes;
mod record;
mod return_probes;
mod ring;
#[cfg(test)]
mod stack_depth;
mod survey;
mod switchover;
mod tables;
mod tls;
mod tls_file;
mod tracked;
mod uprobe_multi;

pub use btf::BtfError;

pub use clock::BootClock;
pub use error::ProbeError;
pub use hook::Hook;
pub use layout::Layout;
pub use preemption::release_numbers;
pub use probes::{KERNEL_BTF, Options, Probes, probes_missing};
pub use record::{DecodeError, KernelRecord, Origin, decode};
pub use return_probes::are_harmless as are_return_probes_harmless;
pub use ring::{Batch, Drain, Ring, start};
pub use survey::Survey;
pub use tls::{Attached, TlsFunctions, TlsLoader, TlsProbes};
pub use tls_file::{go_refusal, tls_functions, tls_places};
pub use tracked::TrackedProcesses;
pub use uprobe_multi::is_supported as has_probes_by_process;
