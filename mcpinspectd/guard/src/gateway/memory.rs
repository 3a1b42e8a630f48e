//! Memory for messages in transit, shared by all connections: each may be large, and there are many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Free bytes.
#[derive(Debug)]
pub struct MemoryPool(AtomicUsize);

/// Reserved bytes.
#[derive(Debug)]
pub struct MemoryReservation {
    memory: Arc<MemoryPool>,
    bytes: usize,
}

impl MemoryPool {
    /// This many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(bytes)))
    }

    /// Holds nothing yet.
    pub fn hold(self: &Arc<Self>) -> MemoryReservation {
        MemoryReservation {
            memory: Arc::clone(self),
            bytes: 0,
        }
    }
}

impl MemoryReservation {
    /// Reserves this many bytes from now on. Returns whether there are as many.
    pub fn set(&mut self, bytes: usize) -> bool {
        if bytes <= self.bytes {
            self.memory
                .0
                .fetch_add(self.bytes - bytes, Ordering::Relaxed);
        } else {
            let more = bytes - self.bytes;
            let free = &self.memory.0;
            let taken = free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
                free.checked_sub(more)
            });
            if taken.is_err() {
                return false;
            }
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_given_back() {
        let memory = MemoryPool::new(10);
        let (mut one, mut other) = (memory.hold(), memory.hold());
        assert!(one.set(6) && !other.set(5) && other.set(4));
        assert!(one.set(2) && other.set(8) && !one.set(3));
        drop(other);
        assert!(one.set(10));
    }
}
