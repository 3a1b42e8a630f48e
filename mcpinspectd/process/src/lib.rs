//! The processes behind a session.
//!
//! A session's two parties are processes, and people want to know which: the executable, the
//! command, the user, the unit or container, and the chain of wrappers that started it. What the kernel
//! saw when a process started its program takes precedence. `/proc` has the rest, and everything for processes
//! that were not seen to start. The process itself controls its contents, and may end at any moment;
//! so every read is bounded, every failure means *unknown*, and nothing here panics. Raw command lines stay
//! private (they contain secrets, and identity needs them unaltered); what is shown is masked, escaped
//! and bounded.
//!
//! - [`info`]: one process and its ancestors
//! - `launches`, `started`: what the kernel saw processes start, which takes precedence over `/proc`
//! - `interner`: what is kept of processes, each once and within bounds
//! - `launcher`: programs by the last part of their paths
//! - `mapped`: the program and the libraries of a process
//! - [`fds`]: which processes hold which pipe or socket
//! - [`calls`]: the system call that a thread is in
//! - [`cgroup`]: the unit or container that a cgroup path names
//! - [`program`]: the file and the package behind a server
//! - `root`, `walk`: the files that a process names, looked up with no more rights than its user has
//! - [`sockets`]: which process holds a TCP socket
//! - `table`: parents, states and cgroups of all processes
//! - [`identity`]: the stable name and fingerprint of a server

pub mod calls;
pub mod cgroup;
pub mod fds;
mod found_file;
mod handle;
pub mod identity;
pub mod info;
mod interner;
mod launcher;
mod launches;
mod mapped;
mod procfs;
pub mod program;
mod reader;
mod root;
pub mod sockets;
mod started;
mod table;
mod walk;

pub use handle::ProcessHandle;
pub use info::{ProcessInfo, ProcessSnapshot, snapshot, start_time};
pub use interner::ProcessInterner;
pub use launcher::is_guard;
pub use launches::Launches;
pub use mapped::Mapped;
pub use table::{ProcessRow, own, pids, table, tracer};
