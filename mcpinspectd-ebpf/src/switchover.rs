//! The switchover from the tracepoint to function exits: two hooks at a time, each call handled
//! by exactly one.
//!
//! A call that was in progress when the function exits were attached ends at the tracepoint alone.
//! Any later call ends at both, at the function exit first. So the function exit claims the call for
//! its thread, and the tracepoint skips a claimed call. A thread that is in the table has left the
//! call that it was in at the start; once that holds for every thread that waits at a watched
//! stream, user space detaches the tracepoint.
//!
//! Cost to other processes: none. Tracked processes pay for one array look-up per call, and during
//! the switchover for one or two hash look-ups.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;

use crate::maps::{SWITCHING_OVER, THREADS_SEEN};

/// The function exit has handled the call that is about to end.
const CLAIMED: u8 = 1;
/// The call has ended.
const OVER: u8 = 0;

/// At a function exit: claims the call. Returns false if the table is full, so that the tracepoint
/// handles the call.
#[inline(always)]
pub fn claim() -> bool {
    !is_under_way()
        || THREADS_SEEN
            .insert(bpf_get_current_pid_tgid(), CLAIMED, 0)
            .is_ok()
}

/// At the tracepoint: whether no function exit has claimed the call.
#[inline(always)]
pub fn is_unclaimed() -> bool {
    if !is_under_way() {
        return true;
    }
    let thread = bpf_get_current_pid_tgid();
    match THREADS_SEEN.get_ptr_mut(thread) {
        // SAFETY: the running thread's own entry; no other thread writes it.
        Some(state) => unsafe { core::ptr::replace(state, OVER) != CLAIMED },
        None => {
            // If the table is full, the tracepoint stays longer.
            let _ = THREADS_SEEN.insert(thread, OVER, 0);
            true
        }
    }
}

#[inline(always)]
fn is_under_way() -> bool {
    // SAFETY: reads an aligned word of a map that lives as long as the program.
    SWITCHING_OVER
        .get_ptr(0)
        .is_some_and(|flag| unsafe { flag.read_volatile() } != 0)
}
