//! Whether return probes are safe for processes that filter their system calls.
//!
//! Since Linux 6.11, a function with a return probe returns through a system call for that (`uretprobe`, x86-64
//! only). A seccomp filter that did not know it, as in container engines and browsers, killed the process
//! there. Linux 6.14 and updates of older kernels exempt the call from filters
//! (`kernel/seccomp.c`, `seccomp_uprobe_exception`). Versions do not tell which kernels have that, so a child
//! of this process tries it: it makes the call, with and without a filter, from where the kernel refuses it.

use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use super::preemption::running_release;

/// The release that first had the call.
const WITH_THE_CALL: (u32, u32) = (6, 11);
/// The first release in which it passes filters.
#[cfg(test)]
const WITH_THE_EXEMPTION: (u32, u32) = (6, 14);

/// Whether they are harmless on this kernel. Forks this process.
pub fn are_harmless() -> bool {
    if !cfg!(target_arch = "x86_64") {
        return true;
    }
    // SAFETY: the child calls nothing but system calls until it ends.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => child::try_it(),
        Ok(ForkResult::Parent { child }) => loop {
            match waitpid(child, None) {
                Err(Errno::EINTR) => {}
                Ok(WaitStatus::Exited(_, child::HARMLESS)) => return true,
                // There is no such call, or a filter inherited by this process forbids it.
                Ok(WaitStatus::Exited(_, child::NOT_EXECUTED)) => {
                    return running_release().is_some_and(|version| version < WITH_THE_CALL);
                }
                _ => return false,
            }
        },
        Err(error) => {
            tracing::warn!(%error, "cannot determine whether return probes are safe");
            false
        }
    }
}

/// What the child does. Other threads may have been running at the fork, so it neither allocates nor locks.
mod child {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::libc;

    /// How the child ends if return probes are harmless.
    pub(super) const HARMLESS: i32 = 0;
    const HARMFUL: i32 = 1;
    /// And if the kernel has not executed the call at all.
    pub(super) const NOT_EXECUTED: i32 = 2;

    /// `__NR_uretprobe` (`arch/x86/entry/syscalls/syscall_64.tbl`).
    const URETPROBE: libc::c_long = 335;
    /// Where a filter's view (`struct seccomp_data`) holds the call's number.
    const NUMBER_AT: u32 = 0;

    /// The kernel has executed the call, and refused it.
    static REFUSED: AtomicBool = AtomicBool::new(false);

    extern "C" fn on_refusal(_signal: libc::c_int) {
        REFUSED.store(true, Ordering::SeqCst);
    }

    pub(super) fn try_it() -> ! {
        let handler: extern "C" fn(libc::c_int) = on_refusal;
        // SAFETY: the handler stores one word.
        unsafe { libc::signal(libc::SIGILL, handler as libc::sighandler_t) };
        let status = if !is_executed() {
            NOT_EXECUTED
        } else if forbid() && is_executed() {
            HARMLESS
        } else {
            HARMFUL
        };
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(status) }
    }

    /// Whether the call reaches the kernel, which then sends a signal.
    fn is_executed() -> bool {
        REFUSED.store(false, Ordering::SeqCst);
        // SAFETY: the kernel does nothing but send SIGILL if a call comes from anywhere but its own code.
        unsafe { libc::syscall(URETPROBE) };
        REFUSED.load(Ordering::SeqCst)
    }

    /// Installs a filter that lets this one call fail.
    fn forbid() -> bool {
        let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        let compare = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let end = (libc::BPF_RET | libc::BPF_K) as u16;
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut steps = [
            step(load, 0, 0, NUMBER_AT),
            step(compare, 0, 1, URETPROBE as u32),
            step(end, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(end, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        // SAFETY: the filter and its steps outlive the calls.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const filter,
                ) == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gives_an_answer() {
        let release = running_release();
        let in_between = WITH_THE_CALL..WITH_THE_EXEMPTION;
        // There, it depends on the kernel's updates.
        if release.is_some_and(|release| !in_between.contains(&release)) {
            assert!(are_harmless());
        }
    }
}
