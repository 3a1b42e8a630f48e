//! How much memory may be spent on a message besides its own bytes.
//!
//! A text of 64 MiB contains 32 million numbers, and each takes more memory than its two bytes. So
//! code that builds something from the parts of a message first pays for each part from a budget, and
//! goes without the rest when it is spent. It then says so: see the callers of [`Budget::is_spent`].

/// Bytes of memory that may still be taken.
#[derive(Clone, Debug)]
pub struct Budget {
    left: usize,
    spent: bool,
}

impl Budget {
    /// A budget of `bytes`.
    pub fn of(bytes: usize) -> Self {
        Self {
            left: bytes,
            spent: false,
        }
    }

    /// Takes `bytes`, if that many are left. If not, the budget is spent: smaller parts that
    /// follow get nothing either, so that what is left out is one part and not many holes.
    pub fn take(&mut self, bytes: usize) -> bool {
        match self.left.checked_sub(bytes) {
            Some(left) if !self.spent => self.left = left,
            _ => self.spent = true,
        }
        !self.spent
    }

    /// Bytes left; none once it was spent.
    pub fn left(&self) -> usize {
        if self.spent { 0 } else { self.left }
    }

    /// Whether something was left out.
    pub fn is_spent(&self) -> bool {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_the_end_gets_nothing() {
        let mut budget = Budget::of(10);
        assert!(budget.take(4) && budget.take(6) && budget.take(0));
        assert!(!budget.is_spent());
        let mut budget = Budget::of(10);
        assert!(!budget.take(11) && !budget.take(1));
        assert!(budget.is_spent() && budget.left() == 0);
    }
}
