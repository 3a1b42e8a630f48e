//! The kernel's side: loads the probes and empties their ring, without knowing what the bytes mean.
//!
//! The probes write records into the ring, the `drain` thread copies them out in batches, and
//! [`decode`] turns each record's bytes into a [`KernelRecord`]. In the other direction [`Probes`]
//! sets how much of each endpoint is watched and which processes are tracked. No other module uses aya.
//!
//! - `probes`, `object`, `loading`, `error`: loading, and the maps that the probes share with the daemon
//! - `hook`, `choice`, `preemption`, `switchover`: how the end of system calls is hooked, and which
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

#[cfg(feature = "kernel")]
mod btf;
mod choice;
mod clock;
#[cfg(feature = "kernel")]
mod error;
#[cfg(feature = "kernel")]
mod hook;
#[cfg(feature = "kernel")]
mod layout;
#[cfg(feature = "kernel")]
mod loading;
#[cfg(feature = "kernel")]
mod mapped;
#[cfg(feature = "kernel")]
mod object;
#[cfg(feature = "kernel")]
mod operations;
#[cfg(feature = "kernel")]
mod preemption;
#[cfg(feature = "kernel")]
mod probes;
mod record;
#[cfg(feature = "kernel")]
mod return_probes;
#[cfg(feature = "kernel")]
mod ring;
#[cfg(all(test, feature = "kernel"))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod stack_depth;
#[cfg(feature = "kernel")]
mod survey;
#[cfg(feature = "kernel")]
mod switchover;
#[cfg(feature = "kernel")]
mod tables;
#[cfg(feature = "kernel")]
mod tls;
#[cfg(feature = "kernel")]
mod tls_file;
#[cfg(feature = "kernel")]
mod tracked;
#[cfg(feature = "kernel")]
mod uprobe_multi;

#[cfg(feature = "kernel")]
pub use btf::BtfError;
pub use choice::{HookChoice, TlsChoice};
pub use clock::BootClock;
#[cfg(feature = "kernel")]
pub use error::ProbeError;
#[cfg(feature = "kernel")]
pub use hook::Hook;
#[cfg(feature = "kernel")]
pub use layout::Layout;
#[cfg(feature = "kernel")]
pub use preemption::release_numbers;
#[cfg(feature = "kernel")]
pub use probes::{KERNEL_BTF, Options, Probes, probes_missing};
pub use record::{DecodeError, KernelRecord, Origin, decode};
#[cfg(feature = "kernel")]
pub use return_probes::are_harmless as are_return_probes_harmless;
#[cfg(feature = "kernel")]
pub use ring::{Batch, Drain, Ring, start};
#[cfg(feature = "kernel")]
pub use survey::Survey;
#[cfg(feature = "kernel")]
pub use tls::{Attached, TlsFunctions, TlsLoader, TlsProbes};
#[cfg(feature = "kernel")]
pub use tls_file::{go_refusal, tls_functions, tls_places};
#[cfg(feature = "kernel")]
pub use tracked::TrackedProcesses;
#[cfg(feature = "kernel")]
pub use uprobe_multi::is_supported as has_probes_by_process;
