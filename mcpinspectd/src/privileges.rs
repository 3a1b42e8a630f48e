//! What the process keeps of root, once its probes run.
//!
//! Loading programs into the kernel and attaching them takes more than reading what they write. So
//! there is a point after which the daemon can do less than before, whatever a message may do to its
//! parsers: it can load no probe any more that reads memory, become nobody else, and give no
//! program that it might start anything that it has not itself.
//!
//! Capabilities are a thread's own and are inherited by those that it starts. [`give_up`] is
//! therefore for the time when the probes are attached and no other thread has been started.

use rustix::io::{self, Errno};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use crate::priority::Priority;

/// What running takes. The unit's `CapabilityBoundingSet=` names these and what loading takes.
///
/// - `CAP_SYS_PTRACE`: whose executable, descriptors and environment a process has, and how much
///   waits in its pipes;
/// - `CAP_DAC_READ_SEARCH`: the directories of `/proc` and the MCP client configurations in homes;
/// - `CAP_BPF`: the probes' maps. From Linux 5.19 on, their descriptors suffice; before, every use
///   of them asks for it;
/// - `CAP_KILL`: freezing and killing a server that runs as somebody else.
pub const KEPT: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::KILL);

/// What stands for `CAP_BPF` where that is not to be had.
const INSTEAD_OF_BPF: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// What remains of `permitted`.
fn kept(permitted: CapabilitySet) -> CapabilitySet {
    let keep = if permitted.contains(CapabilitySet::BPF) {
        KEPT
    } else {
        KEPT.union(INSTEAD_OF_BPF)
    };
    permitted.intersection(keep)
}

/// Gives up all but what running takes, for this thread and those that it starts from now on;
/// returns what it has left.
///
/// # Errors
/// The kernel refuses; then nothing can be said of what is left.
pub fn give_up() -> io::Result<CapabilitySet> {
    let permitted = capabilities(None)?.permitted;
    let keep = kept(permitted);
    set_no_new_privs(true)?;
    Priority::HIGHEST.claim();
    for capability in CapabilitySet::all().difference(keep).iter() {
        match remove_capability_from_bounding_set(capability) {
            // Without CAP_SETPCAP (in the unit) the set is as whoever started this wanted it, and
            // a kernel knows no capability that is newer than itself.
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
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_that_was_not_there() {
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
    fn a_thread_and_its_children_lose_the_rest() {
        let parent = capabilities(None).unwrap().permitted;
        let (left, inherited) = std::thread::spawn(|| {
            let left = give_up().unwrap();
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
            "others keep theirs"
        );
    }
}
