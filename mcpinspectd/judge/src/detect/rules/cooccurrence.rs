//! Rules about words that occur together, arranged so that most of them need no test.
//!
//! Each sentence has a set of concepts (word lists and tokens), as bits. There are hundreds of rules and
//! many sentences, but a sentence has few concepts. So the rules are indexed by the concepts of their
//! rarest element: a rule is tested only in a sentence that has one of those.

use super::rule::RuleId;
use super::vocabulary::Scope;
use crate::detect::category::Surface;

/// Words and tokens that occur together.
#[derive(Clone, Debug)]
pub(in crate::detect) struct Cooccurrence {
    /// The element of `all` that is rarest in ordinary text.
    pub rarest: u128,
    /// Concepts that must all be absent.
    pub none: u128,
    /// Elements, each a set of concepts of which at least one must be present.
    pub all: Box<[u128]>,
    /// Concepts that count only if they are not denied.
    pub asserted: u128,
    /// Concepts that do not count if they are denied twice, which asserts them.
    pub denied: u128,
    /// The rule that holds if all of this does.
    pub rule: RuleId,
    /// Whether the elements must come in order.
    pub ordered: bool,
    /// The greatest distance from the first to the last element, in bytes.
    pub within: u32,
}

/// The co-occurrences of one surface and scope.
#[derive(Debug, Default)]
pub(in crate::detect) struct CooccurrenceIndex {
    all: Vec<Cooccurrence>,
    /// For each group of 64: for each concept, a bit for each member that has it in its rarest element.
    having: Vec<[u64; u128::BITS as usize]>,
}

impl CooccurrenceIndex {
    /// How many indexes a rule set has.
    pub(super) const COUNT: usize = Surface::ALL.len() * Scope::ALL.len();

    /// The position of a surface and scope's index in the list of all [`COUNT`](Self::COUNT).
    pub(super) fn place(surface: Surface, scope: Scope) -> usize {
        surface as usize * Scope::ALL.len() + scope as usize
    }

    /// Adds one.
    pub(super) fn push(&mut self, one: Cooccurrence) {
        let place = self.all.len() % 64;
        if place == 0 {
            self.having.push([0; u128::BITS as usize]);
        }
        if let Some(having) = self.having.last_mut() {
            for concept in ones(one.rarest) {
                having[concept] |= 1 << place;
            }
        }
        self.all.push(one);
    }

    /// Those that may hold if exactly these concepts are `present`.
    pub fn possible(&self, present: u128) -> impl Iterator<Item = &Cooccurrence> {
        let groups = self.having.iter().zip(self.all.chunks(64));
        groups.flat_map(move |(having, members)| {
            let possible = ones(present).fold(0, |all, concept| all | having[concept]);
            ones(possible.into()).map(|place| &members[place])
        })
    }
}

/// The positions of the one bits of a number.
fn ones(mut number: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (number != 0).then_some(number.trailing_zeros() as usize);
        number &= number.wrapping_sub(1);
        next
    })
}
