//! Drops the privileges that the daemon does not need once its probes run.
//!
//! Loading and attaching programs takes more privileges than reading what they write. So there is a
//! point after which the daemon can do less, whatever a message does to its parsers: it can no longer
//! load a probe that reads memory, change its user, or start a program with more privileges than its
//! own.
//!
//! Each thread has its own capabilities and passes them on to the threads that it starts. So call
//! [`drop_unneeded`] when the probes are attached and before any other thread is started. One thread is
//! started earlier and keeps what attaching to TLS libraries takes ([`keep_attaching`]), which since Linux 6.6
//! is less than the others keep.

use rustix::io::{self, Errno};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use crate::priority::Priority;

/// What running takes. The unit's `CapabilityBoundingSet=` names these, and what loading takes.
///
/// - `CAP_SYS_PTRACE`: to read a process's executable, descriptors and environment, and how many bytes
///   wait in its pipes;
/// - `CAP_DAC_READ_SEARCH`: to read the directories of `/proc` and the MCP client configurations in
///   home directories;
/// - `CAP_BPF`: to use the probes' maps. Since Linux 5.19 their descriptors suffice; before, every use
///   requires it;
/// - `CAP_KILL`: to freeze and kill servers of other users.
pub const KEPT: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::KILL);

/// The substitute on kernels and in containers that do not grant `CAP_BPF`.
const BPF_SUBSTITUTE: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// The part of `permitted` that the daemon keeps.
fn kept(permitted: CapabilitySet) -> CapabilitySet {
    let keep = if permitted.contains(CapabilitySet::BPF) {
        KEPT
    } else {
        KEPT.union(BPF_SUBSTITUTE)
    };
    permitted.intersection(keep)
}

/// What the thread needs that finds TLS libraries as they appear: to read other processes' lists of mapped files,
/// and those files. Since Linux 6.6, attaching a program that is loaded takes nothing.
const LOOKING: CapabilitySet = CapabilitySet::SYS_PTRACE.union(CapabilitySet::DAC_READ_SEARCH);

/// What it needs in addition if probes are attached one by one: `CAP_PERFMON`, and since Linux 6.16
/// `CAP_SYS_ADMIN`. Of what processes have written, it reads only the tables of their programs and libraries.
const ATTACHING: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_ADMIN);

/// Drops all capabilities except those needed for running, for this thread and those that it starts from
/// now on. Returns the remaining ones.
///
/// # Errors
/// The kernel refuses; it is then unknown which capabilities remain.
pub fn drop_unneeded() -> io::Result<CapabilitySet> {
    let permitted = capabilities(None)?.permitted;
    drop_all_but(kept(permitted))
}

/// The same for the thread that attaches probes to TLS libraries, which calls this itself. `is_privileged`:
/// whether attaching takes privileges.
///
/// # Errors
/// The kernel refuses.
pub fn keep_attaching(is_privileged: bool) -> io::Result<CapabilitySet> {
    let permitted = capabilities(None)?.permitted;
    let keep = if is_privileged {
        LOOKING.union(ATTACHING)
    } else {
        LOOKING
    };
    drop_all_but(permitted.intersection(keep))
}

fn drop_all_but(keep: CapabilitySet) -> io::Result<CapabilitySet> {
    set_no_new_privs(true)?;
    Priority::HIGHEST.claim();
    for capability in CapabilitySet::all().difference(keep).iter() {
        match remove_capability_from_bounding_set(capability) {
            // Without CAP_SETPCAP (in the unit) the service manager has already bounded the set, and a
            // kernel rejects capabilities that are newer than itself.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    set_capabilities(
        None,
        CapabilitySets {
            effective: keep,
            permitted: keep,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_only_capabilities_that_were_there() {
        assert_eq!(kept(CapabilitySet::empty()), CapabilitySet::empty());
        assert_eq!(kept(CapabilitySet::SYS_PTRACE), CapabilitySet::SYS_PTRACE);
        let loading = CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN;
        assert_eq!(kept(KEPT | loading), KEPT);
        assert_eq!(
            kept(loading | CapabilitySet::SYS_PTRACE),
            CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE,
            "kernels and containers without CAP_BPF"
        );
    }

    #[test]
    fn a_thread_and_its_children_lose_the_other_capabilities() {
        let parent = capabilities(None).unwrap().permitted;
        let (left, inherited) = std::thread::spawn(|| {
            let left = drop_unneeded().unwrap();
            let child = std::thread::spawn(|| capabilities(None).unwrap().effective);
            (left, child.join().unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(left, kept(parent));
        assert_eq!(inherited, left);
        assert_eq!(
            capabilities(None).unwrap().permitted,
            parent,
            "other threads keep theirs"
        );
    }
}
