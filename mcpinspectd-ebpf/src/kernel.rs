//! Reading kernel memory: by typed loads where BTF vouches for the pointer, else by the helper.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::{
    bpf_get_current_task,
    generated::{bpf_get_current_task_btf, bpf_probe_read_kernel},
};

/// How a program may follow the pointers that it was given.
pub trait Access {
    /// The running task, as this way of access needs it.
    fn current_task() -> u64;
    /// Reads a `T` at `base + offset`; zero where the memory is not there.
    fn load<T: Copy + Default>(base: u64, offset: u32) -> T;
}

/// Pointers that the verifier knows the type of: plain loads, a nanosecond each.
pub struct Typed;

impl Access for Typed {
    #[inline(always)]
    fn current_task() -> u64 {
        // SAFETY: no arguments; available since 5.11, and programs that use it are loaded only there.
        unsafe { bpf_get_current_task_btf() as u64 }
    }

    #[inline(always)]
    fn load<T: Copy + Default>(base: u64, offset: u32) -> T {
        // SAFETY: the verifier admits the load only where `base` is a pointer that it knows and the
        // field lies in its type; a stale pointer reads zero (the kernel's exception table).
        unsafe { ((base + u64::from(offset)) as *const T).read_volatile() }
    }
}

/// Any pointers: the helper checks each read.
pub struct Probed;

impl Access for Probed {
    #[inline(always)]
    fn current_task() -> u64 {
        // SAFETY: no arguments.
        unsafe { bpf_get_current_task() }
    }

    #[inline(always)]
    fn load<T: Copy + Default>(base: u64, offset: u32) -> T {
        probe(base, offset)
    }
}

/// Reads a `T` at `base + offset` through the helper; zero where the memory is not there.
#[inline(always)]
pub fn probe<T: Copy + Default>(base: u64, offset: u32) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // Its result is not looked at: each branch doubles the ways that the verifier has to follow.
    // SAFETY: the helper writes size_of::<T>() bytes to `value`: zeroes where it fails
    // (`bpf_probe_read_kernel_common`).
    unsafe {
        bpf_probe_read_kernel(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            (base + u64::from(offset)) as *const _,
        );
        value.assume_init()
    }
}

/// Reads a `T` of the running process's memory; `None` where the page is not resident.
#[inline(always)]
pub fn user<T: Copy>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address.
    unsafe { aya_ebpf::helpers::bpf_probe_read_user(address as *const T).ok() }
}
