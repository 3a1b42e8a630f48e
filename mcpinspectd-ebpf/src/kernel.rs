//! Reads kernel memory: by typed loads where BTF vouches for the pointer, otherwise through a
//! helper; and user memory through a helper.
//!
//! Cost: a typed load takes about a nanosecond. A helper call takes several, which is why the path
//! that every process takes uses typed loads wherever the kernel admits them.
//!
//! Minimum kernel version: 5.5 (`bpf_probe_read_kernel`, `bpf_probe_read_user`); [`Typed`]: 5.11.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::{
    bpf_get_current_task,
    generated::{bpf_get_current_task_btf, bpf_probe_read_kernel, bpf_probe_read_kernel_str},
};

/// How a program may follow the pointers that the kernel passes to it.
pub trait Access {
    /// The running task, in the form that this access needs.
    fn current_task() -> u64;
    /// Reads a `T` at `base + offset`; zero if the memory is not there.
    fn load<T: Copy + Default>(base: u64, offset: u32) -> T;
}

/// Plain loads, for pointers whose type the verifier knows. Minimum kernel version: 5.11.
pub struct Typed;

impl Access for Typed {
    #[inline(always)]
    fn current_task() -> u64 {
        // SAFETY: no arguments; programs that call it are loaded only on kernels that have it.
        unsafe { bpf_get_current_task_btf() as u64 }
    }

    #[inline(always)]
    fn load<T: Copy + Default>(base: u64, offset: u32) -> T {
        // SAFETY: the verifier admits the load only if it knows the pointer `base` and the field lies
        // within its type; a stale pointer reads zero (the kernel's exception table).
        unsafe { ((base + u64::from(offset)) as *const T).read_volatile() }
    }
}

/// Checked reads, for any pointer.
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

/// Reads a `T` at `base + offset` through the helper; zero if the memory is not there.
#[inline(always)]
pub fn probe<T: Copy + Default>(base: u64, offset: u32) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // The helper's result is ignored: each branch doubles the paths that the verifier explores.
    // SAFETY: the helper writes size_of::<T>() bytes to `value`, zeroes if it fails
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

/// Makes the verifier forget what it knows about a value, which stays the same. If two paths meet with different
/// constants, the verifier checks everything that follows twice; without them, once. It knows nothing about what a
/// helper writes.
#[inline(always)]
pub fn forget<T: Copy>(value: &mut T) {
    let address = core::ptr::from_mut(value);
    // SAFETY: the value is copied onto itself, word by word; it stays valid.
    unsafe {
        bpf_probe_read_kernel(
            address.cast(),
            size_of::<T>() as u32,
            address.cast_const().cast(),
        );
    }
}

/// Copies a `T` from `base + offset` to `target`; zeroes if the memory is not there.
///
/// # Safety
/// `target` is valid for a write of a `T`.
#[inline(always)]
pub unsafe fn copy<T>(target: *mut T, base: u64, offset: u32) {
    // SAFETY: the helper writes size_of::<T>() bytes, for which the caller vouches.
    unsafe {
        bpf_probe_read_kernel(
            target.cast(),
            size_of::<T>() as u32,
            (base + u64::from(offset)) as *const _,
        );
    }
}

/// Copies text that ends with a zero from `address` to `target`, as much of it as fits.
///
/// # Safety
/// `target` is valid for a write of an array.
#[inline(always)]
pub unsafe fn copy_text<const N: usize>(target: *mut [u8; N], address: u64) {
    // SAFETY: the helper writes at most N bytes, for which the caller vouches.
    unsafe {
        bpf_probe_read_kernel_str(target.cast(), N as u32, address as *const _);
    }
}

/// Reads a `T` from the running process's memory; `None` if the page is not resident.
#[inline(always)]
pub fn user<T: Copy>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address.
    unsafe { aya_ebpf::helpers::bpf_probe_read_user(address as *const T).ok() }
}
