//! Frees the spare capacity of tables.

use std::collections::HashMap;
use std::hash::Hash;

/// Entries for which a table may always have room.
const SMALL: usize = 64;

/// Shrinks a table that was once much fuller, so that one busy minute does not cost memory for the
/// rest of the year.
pub(super) fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.capacity() > 4 * table.len().max(SMALL) {
        table.shrink_to(2 * table.len().max(SMALL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_much_fuller_shrinks_and_others_do_not() {
        let mut table: HashMap<u32, u32> = (0..10_000).map(|key| (key, key)).collect();
        let full = table.capacity();
        shrink(&mut table);
        assert_eq!(table.capacity(), full);
        table.retain(|key, _| *key < 10);
        shrink(&mut table);
        assert!(table.capacity() < 4 * SMALL);
        assert_eq!(table.len(), 10);
    }
}
