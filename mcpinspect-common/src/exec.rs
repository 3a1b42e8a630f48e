//! What the kernel knows about a program when a process starts it.
//!
//! Later the process can change all of it: its arguments are its own memory, and it may be gone by the
//! time user space looks.

use crate::EndpointReport;

/// Ancestors to report. A launcher such as `npx` puts three processes between a client and its
/// server.
pub const EXEC_ANCESTORS: usize = 8;

/// Bytes of the executable's path to report, including the final zero.
pub const EXEC_PATH_MAX: usize = 256;

/// Bytes of the executable's name to report, including the final zero.
pub const EXEC_NAME_MAX: usize = 64;

/// Bytes of a process's short name (`comm`), including the final zero.
pub const SHORT_NAME_MAX: usize = 16;

/// Capacities for the arguments that follow an [`ExecReport`]. Powers of two. A record takes the
/// smallest one that the arguments fit into; what does not fit into the largest is cut off.
pub const ARGUMENT_CLASSES: [u32; 3] = [512, 4 * 1024, 16 * 1024];

/// The payload of [`crate::RecordKind::Exec`]. The arguments follow it, each followed by a zero, as
/// they are in the process's memory. Text ends at the first zero.
///
/// On a kernel that lacks one of the fields, the payload ends after [`Self::stdio`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecReport {
    /// Standard input and output.
    pub stdio: [EndpointReport; 2],
    /// When the process started, in nanoseconds on `CLOCK_BOOTTIME`.
    pub start_time: u64,
    /// The inode number of the executable; 0 if unknown.
    pub executable_ino: u64,
    /// The inode number of the working directory; 0 if unknown.
    pub directory_ino: u64,
    /// The length of the arguments in bytes, whether or not all of them follow.
    pub arguments_length: u64,
    /// The short name that the kernel gave the process, after the file that was executed.
    pub name: [u8; SHORT_NAME_MAX],
    /// The last component of the executable's path, with all links resolved.
    pub executable_name: [u8; EXEC_NAME_MAX],
    /// The executable's path as the caller or a script's first line gave it, links included.
    pub executable_path: [u8; EXEC_PATH_MAX],
    /// The parent, its parent and so on. Anything after pid 1 is zero.
    pub ancestors: [AncestorReport; EXEC_ANCESTORS],
}

/// One ancestor of a process that starts a program.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AncestorReport {
    /// When it started, in nanoseconds on `CLOCK_BOOTTIME`.
    pub start_time: u64,
    /// Its process id in the initial pid namespace; 0 if there is none.
    pub tgid: u32,
    /// Its real user id.
    pub uid: u32,
    /// Its short name, which it may have chosen itself.
    pub name: [u8; SHORT_NAME_MAX],
}
