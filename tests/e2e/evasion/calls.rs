//! Servers that move their bytes in ways that an observer of system calls may not follow.
//!
//! Their client is honest, so its end of each stream has all that there is. What both ends hide is the matter
//! of the tests of system calls.

use anyhow::Result;

use super::server::Wire;
use super::{Evasion, Family, each_is_reported, fully_reported, loss_reported, on_both};

fn evasions() -> Vec<Evasion> {
    let mut all = on_both(&[
        "splice-out",
        "sendfile-out",
        "uring-out",
        "foreign-memory",
        "bad-vectors",
        "straddling",
        "bytes",
        "vectors",
        "filtered",
        "feigned-write",
        "lent-memory",
    ]);
    all.extend(["tee-out", "vmsplice-out"].map(|how| fully_reported(how, Wire::Pipes)));
    all.extend(
        ["urgent", "peeking", "peek-offset", "with-descriptors"]
            .map(|how| fully_reported(how, Wire::Socket)),
    );
    if cfg!(target_arch = "x86_64") {
        all.extend(on_both(&["injected", "compat-out"]));
    }
    for wire in [Wire::Pipes, Wire::Socket] {
        // Where functions can be hooked, calls that do not happen are not seen.
        all.push(loss_reported("feigned-read", wire, &["seccomp_notify"]));
        // The probes copy what is written only where they know that its reader is not seen, so the requests
        // around the first such call are missing.
        all.push(loss_reported("splice-in", wire, &["splice"]));
        all.push(loss_reported("uring-in", wire, &["io_uring"]));
        if cfg!(target_arch = "x86_64") {
            all.push(loss_reported("compat-in", wire, &["32bit_syscall"]));
        }
    }
    all
}

fn hold(busy: usize) -> Result<()> {
    let family = Family::new("calls.py")?;
    each_is_reported(&evasions(), &|evasion| family.start(evasion), busy)
}

#[test]
fn calls_that_are_hard_to_follow() -> Result<()> {
    hold(0)
}

#[test]
fn calls_that_are_hard_to_follow_beside_busy_loops() -> Result<()> {
    hold(6)
}
