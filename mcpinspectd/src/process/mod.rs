//! Who is it: the processes behind a session, read from `/proc`.
//!
//! A session's two parties are processes, and a person wants to know which: the executable, the
//! command, the user, the unit or container, and through which chain of wrappers it was started. All
//! of it is read from `/proc`, which the process itself can fill with anything, at a moment when it
//! may be about to vanish; so every read is bounded, every failure means *unknown*, and nothing here
//! panics or waits. Command lines stay private in raw form (they hold secrets, and identity needs
//! them unaltered); what is shown is masked, escaped and bounded.
//!
//! - [`info`]: one process and its ancestors
//! - [`fds`]: which processes hold which pipe or socket
//! - [`cgroup`]: what a cgroup path tells
//! - [`program`]: the file and the package behind a server
//! - [`table`]: all processes, as far as their kinship and their cgroups go
//! - [`identity`]: the stable name and fingerprint of a server

pub mod calls;
pub mod cgroup;
pub mod fds;
mod handle;
pub mod identity;
pub mod info;
mod procfs;
pub mod program;
mod table;

pub use handle::Handle;
pub use info::{ProcessInfo, ProcessSnapshot, snapshot, start_time};
pub use table::{Row, own, pids, table};
