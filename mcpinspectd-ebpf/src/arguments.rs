//! The arguments of a system call, read from its registers when they are needed.
//!
//! Cost to other processes: none. Each accessor is one load, and only calls that concern a tracked
//! process or may pass a descriptor get this far.

use crate::{kernel::Access, offsets::*};

/// The registers that a call was made with.
pub struct Arguments {
    regs: u64,
}

impl Arguments {
    /// The arguments in the `struct pt_regs` at `regs`.
    #[inline(always)]
    pub const fn new(regs: u64) -> Self {
        Self { regs }
    }

    /// The first argument.
    #[inline(always)]
    pub fn first<A: Access>(&self) -> u64 {
        A::load(self.regs, OFF_REGS_ARG0.load())
    }

    /// The second argument.
    #[inline(always)]
    pub fn second<A: Access>(&self) -> u64 {
        A::load(self.regs, OFF_REGS_ARG1.load())
    }

    /// The third argument.
    #[inline(always)]
    pub fn third<A: Access>(&self) -> u64 {
        A::load(self.regs, OFF_REGS_ARG2.load())
    }

    /// The fourth argument.
    #[inline(always)]
    pub fn fourth<A: Access>(&self) -> u64 {
        A::load(self.regs, OFF_REGS_ARG3.load())
    }

    /// The fifth argument.
    #[inline(always)]
    pub fn fifth<A: Access>(&self) -> u64 {
        A::load(self.regs, OFF_REGS_ARG4.load())
    }
}
