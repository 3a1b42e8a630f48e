//! When two ends are proven to count alike.
//!
//! While the counts may be wrong, equal bytes say little: messages begin alike and end alike, and in between
//! there may be one byte, repeated. Two ends that are a message apart can agree for a long time. No two
//! requests or answers are alike as a whole, because their ids differ. So the proof is two whole lines, one right
//! after the other, which are equal at both ends and differ from each other.

use std::hash::{DefaultHasher, Hasher as _};

/// What was equal at both ends, one byte after another.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The current line, if its beginning was equal.
    line: Option<DefaultHasher>,
    /// The whole line before it.
    before: Option<u64>,
    proven: bool,
}

impl Evidence {
    /// Whether the ends count alike.
    pub(super) fn is_proof(&self) -> bool {
        self.proven
    }

    /// Takes in the next bytes, which are equal.
    pub(super) fn equal(&mut self, bytes: &[u8]) {
        if self.proven {
            return;
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if let Some(line) = &mut self.line {
                line.write(part);
            }
            if part.ends_with(b"\n") {
                let whole = self.line.replace(DefaultHasher::new());
                let whole = whole.map(|line| line.finish());
                self.proven |= self.before.is_some() && whole.is_some() && self.before != whole;
                self.before = whole;
            }
        }
    }

    /// Notes that what comes next does not follow on what was equal.
    pub(super) fn interrupt(&mut self) {
        self.line = None;
        self.before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_proof(pieces: &[&[u8]]) -> bool {
        let mut evidence = Evidence::default();
        for piece in pieces {
            evidence.equal(piece);
        }
        evidence.is_proof()
    }

    #[test]
    fn two_whole_lines_that_differ_are_proof() {
        assert!(is_proof(&[b"rest\n", b"{\"id\":1}\n{\"id\":2}\n"]));
        assert!(is_proof(&[b"\n{\"id", b"\":1}\n{\"i", b"d\":2}", b"\n"]));
    }

    #[test]
    fn parts_and_repetitions_prove_nothing() {
        assert!(
            !is_proof(&[b"{\"id\":1}\n{\"id\":2}\n"]),
            "its beginning may be missing"
        );
        assert!(!is_proof(&[b"rest\n", b"{\"id\":1}\n{\"id\":2}"]));
        assert!(!is_proof(&[b"rest\n", b"{}\n{}\n{}\n{}\n"]));
        assert!(!is_proof(&[&[b'x'; 100_000]]));
    }

    #[test]
    fn the_lines_follow_on_each_other() {
        let mut evidence = Evidence::default();
        evidence.equal(b"\n{\"id\":1}\n");
        evidence.interrupt();
        evidence.equal(b"{\"id\":2}\n{\"id\":3}\n");
        assert!(!evidence.is_proof());
        evidence.equal(b"{\"id\":4}\n");
        assert!(evidence.is_proof());
        evidence.interrupt();
        assert!(evidence.is_proof());
    }
}
