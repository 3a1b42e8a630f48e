//! The canonical hash of bytes that were seen before.
//!
//! Servers list the same definitions again and again, byte for byte. Hashing the raw bytes first
//! avoids building their canonical form each time. This hash is SHA-256 too, because the author of
//! the bytes may be hostile.

use std::collections::HashMap;

use mcpinspect_core::model::DefinitionHash;
use serde_json::value::RawValue;

use super::canonical;

/// Hashes per generation; at most twice as many are remembered.
const MAX_REMEMBERED: usize = 8192;

/// Remembers hashes in two generations, so that those in use stay.
#[derive(Debug, Default)]
pub(super) struct HashMemory {
    young: HashMap<[u8; 32], DefinitionHash>,
    old: HashMap<[u8; 32], DefinitionHash>,
}

impl HashMemory {
    /// Returns the hash of a definition's canonical text.
    pub(super) fn hash(&mut self, definition: &RawValue) -> DefinitionHash {
        let bytes = DefinitionHash::of(definition.get().as_bytes()).0;
        if let Some(hash) = self.young.get(&bytes) {
            return *hash;
        }
        let hash = match self.old.remove(&bytes) {
            Some(hash) => hash,
            None => canonical::hash(definition),
        };
        if self.young.len() >= MAX_REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(bytes, hash);
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_known_need_no_second_look() {
        let mut memory = HashMemory::default();
        for index in 0..3 * MAX_REMEMBERED {
            let text = format!(r#"{{"b":{index},"a":1}}"#);
            let definition = RawValue::from_string(text).unwrap();
            let expected = DefinitionHash::of(&canonical::definition(&definition));
            assert_eq!(memory.hash(&definition), expected);
            assert_eq!(memory.hash(&definition), expected);
        }
        assert!(memory.young.len() <= MAX_REMEMBERED && memory.old.len() <= MAX_REMEMBERED);
    }
}
