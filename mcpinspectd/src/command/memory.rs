//! How memory goes back to the system.
//!
//! Messages are now a few bytes and now many megabytes, and they are handed from thread to thread.
//! By default glibc raises its thresholds with the largest block that it has seen, and gives every
//! thread a heap of its own: after one large message a daemon that idles for the rest of the day
//! would keep tens of megabytes that it does not use.

/// From this size on, a block is the kernel's own mapping, gone when it is freed; and this much may lie
/// unused at the end of the heap.
#[cfg(target_env = "gnu")]
const THRESHOLD: nix::libc::c_int = 128 << 10;

/// Keeps the thresholds where they are and all threads on one heap. To be called before any thread
/// is started.
#[cfg(target_env = "gnu")]
pub fn return_promptly() {
    use nix::libc::{M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, mallopt};

    for (parameter, value) in [
        (M_MMAP_THRESHOLD, THRESHOLD),
        (M_TRIM_THRESHOLD, THRESHOLD),
        (M_ARENA_MAX, 1),
    ] {
        // SAFETY: no other thread runs yet that could allocate meanwhile. A refusal changes nothing.
        unsafe {
            mallopt(parameter, value);
        }
    }
}

/// Other libraries do so by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn return_promptly() {}
