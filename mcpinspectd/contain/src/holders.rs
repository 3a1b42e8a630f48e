//! Who else could go on serving a session.
//!
//! A server may have detached a child, or passed its streams to another process. Such a process cannot
//! be shown to be the server's own, so it is not touched; but someone who reads that a server is
//! frozen must learn of it too. It may also be on the run: a process that keeps handing over to a child is
//! gone before a walk through the process table reaches its number. So new processes
//! are looked at again and again, until there are none.

use std::collections::BTreeSet;

use mcpinspect_core::model::Pid;
use mcpinspect_process::fds::HoldersWalk;

use super::plan::Target;

/// Most rounds of checking for new processes.
const ATTEMPTS: usize = 40;

/// The processes that can read what the clients write, or write what they read. Walks the descriptor
/// tables of all processes. Descriptors in flight are not found.
pub(super) fn left_holding(targets: &[Target]) -> BTreeSet<Pid> {
    let is_known = |target: &Target| target.side.reads.or(target.side.writes).is_some();
    if !targets.iter().any(is_known) {
        return BTreeSet::new();
    }
    let mut walk = HoldersWalk::default();
    for _ in 0..ATTEMPTS {
        if walk.look() == 0 {
            break;
        }
    }
    let holders = walk.holders();
    let holders_of = |stream| holders.get(&stream).into_iter().flatten();
    let mut found = BTreeSet::new();
    for side in targets.iter().map(|target| &target.side) {
        let readers = side.reads.into_iter().flat_map(holders_of);
        let writing = side.writes.into_iter().flat_map(holders_of);
        let at_end = (readers.filter(|holder| holder.access.reads()))
            .chain(writing.filter(|holder| holder.access.writes()));
        found.extend(at_end.map(|holder| holder.pid));
    }
    found
}
