//! Two hooks at one time, and each call looked at through one of them.
//!
//! While function exits take over from the tracepoint, both are attached. A call that was under way
//! before the function exits came is seen ending by the tracepoint alone; any later one by both, by the
//! function's exit first. That one therefore claims the call for its thread, and the tracepoint leaves
//! a claimed call alone. A thread that is in the table at all has left the call that it was in: when
//! this is so of all that wait at a watched stream, user space takes the tracepoint away.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;

use crate::maps::{HANDING_OVER, THREADS};

/// The function's exit has looked at the call that is about to end.
const CLAIMED: u8 = 1;
/// The call is over.
const OVER: u8 = 0;

/// For a function's exit: whether it is to look at the call. Where there is no room to say so, the
/// tracepoint does.
#[inline(always)]
pub fn claims() -> bool {
    !is_under_way()
        || THREADS
            .insert(bpf_get_current_pid_tgid(), CLAIMED, 0)
            .is_ok()
}

/// For the tracepoint: whether the call is left to it.
#[inline(always)]
pub fn is_unclaimed() -> bool {
    if !is_under_way() {
        return true;
    }
    let thread = bpf_get_current_pid_tgid();
    match THREADS.get_ptr_mut(thread) {
        // SAFETY: the entry is of the running thread, and nobody else writes it.
        Some(state) => unsafe { core::ptr::replace(state, OVER) != CLAIMED },
        None => {
            // Without room for it, the tracepoint stays longer.
            let _ = THREADS.insert(thread, OVER, 0);
            true
        }
    }
}

#[inline(always)]
fn is_under_way() -> bool {
    // SAFETY: reads an aligned word of a map that lives as long as the program.
    HANDING_OVER
        .get_ptr(0)
        .is_some_and(|flag| unsafe { flag.read_volatile() } != 0)
}
