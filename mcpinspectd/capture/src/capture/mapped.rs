//! An array of the probes, mapped as memory: words that both sides change at any time.
//!
//! A map update replaces a value, whatever happened to it since it was read. In memory, a value is
//! changed by one atomic operation, without a system call.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// The mapped words.
pub struct MappedWords {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory is shared with the kernel anyway, and every access is atomic.
unsafe impl Send for MappedWords {}

impl MappedWords {
    /// Maps the first `words` words of the array behind `map`. A value has one or more consecutive ones.
    ///
    /// # Errors
    /// The kernel refuses the mapping.
    pub fn new(map: impl AsFd, words: u32) -> nix::Result<Self> {
        let words = words as usize;
        let bytes = NonZeroUsize::new(words * size_of::<u64>()).ok_or(Errno::EINVAL)?;
        // SAFETY: a new mapping, which lives until it is unmapped.
        let base = unsafe {
            mmap(
                None,
                bytes,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                map,
                0,
            )?
        };
        Ok(Self {
            base: base.cast(),
            words,
        })
    }

    /// All of them.
    pub fn all(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is aligned to pages, has this many words, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        // SAFETY: unmaps the memory that `new` mapped; nothing borrows it any more.
        let unmapped = unsafe { munmap(self.base.cast(), self.words * size_of::<u64>()) };
        if let Err(error) = unmapped {
            tracing::debug!(%error, "cannot unmap an array of the probes");
        }
    }
}
