//! How many entries of a bounded table each user has, and whose entry goes when there are too many.
//!
//! One user's processes must not take the room of another's. So a table has two bounds: one per
//! user, and one for all. Above the first, the user gives up entries; above the second, the user with
//! the most does. Entries known to be of little use go first, and among equals the
//! oldest. An entry in use is never given up.

use std::collections::{BTreeMap, HashMap};

/// A user id.
pub type Uid = u32;

/// Stands for an unknown user: `(uid_t) -1`, which no user can have.
pub const NOBODY_KNOWN: Uid = Uid::MAX;

/// How much an entry is worth, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    /// It turned out to be of no interest.
    Ignored,
    /// It may turn out to be of interest.
    Undecided,
}

/// An entry's rank among those that may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionRank {
    worth: Worth,
    number: u64,
}

/// The entries of one user.
#[derive(Debug)]
struct Share<K> {
    entries: usize,
    /// Those that may go, in that order.
    spare: BTreeMap<EvictionRank, K>,
}

/// The entries of all users. An entry is added once, has at most one rank, and is removed with it.
#[derive(Debug)]
pub struct Shares<K> {
    per_user: usize,
    total: usize,
    users: HashMap<Uid, Share<K>>,
    entries: usize,
    next: u64,
}

impl<K: Copy> Shares<K> {
    /// Bounds of `per_user` entries for each user and `total` for all of them.
    pub fn new(per_user: usize, total: usize) -> Self {
        Self {
            per_user,
            total,
            users: HashMap::new(),
            entries: 0,
            next: 0,
        }
    }

    /// Adds an entry that may go when others are worth more.
    pub fn add(&mut self, user: Uid, worth: Worth, entry: K) -> EvictionRank {
        let share = self.users.entry(user).or_insert_with(|| Share {
            entries: 0,
            spare: BTreeMap::new(),
        });
        share.entries += 1;
        self.entries += 1;
        self.spare(user, worth, entry)
    }

    /// Removes an entry, with its rank if it has one.
    pub fn remove(&mut self, user: Uid, rank: Option<EvictionRank>) {
        let Some(share) = self.users.get_mut(&user) else {
            return;
        };
        if let Some(rank) = rank {
            share.spare.remove(&rank);
        }
        share.entries -= 1;
        self.entries -= 1;
        if share.entries == 0 {
            self.users.remove(&user);
        }
    }

    /// Lets a user's entry go when others are worth more; as the newest of its worth.
    pub fn spare(&mut self, user: Uid, worth: Worth, entry: K) -> EvictionRank {
        let rank = EvictionRank {
            worth,
            number: self.next,
        };
        self.next += 1;
        if let Some(share) = self.users.get_mut(&user) {
            share.spare.insert(rank, entry);
        }
        rank
    }

    /// Keeps an entry whatever others are worth.
    pub fn keep(&mut self, user: Uid, rank: EvictionRank) {
        if let Some(share) = self.users.get_mut(&user) {
            share.spare.remove(&rank);
        }
    }

    /// The user who has to give up an entry after `user` got one; `None` while there is room.
    pub fn over(&self, user: Uid) -> Option<Uid> {
        if self.of(user) > self.per_user {
            return Some(user);
        }
        if self.entries <= self.total {
            return None;
        }
        self.users
            .iter()
            .filter(|(_, share)| !share.spare.is_empty())
            .max_by_key(|(user, share)| (share.entries, **user))
            .map(|(user, _)| *user)
    }

    /// The entry that a user gives up first.
    pub fn next_to_evict(&self, user: Uid) -> Option<K> {
        let share = self.users.get(&user)?;
        share.spare.first_key_value().map(|(_, entry)| *entry)
    }

    /// How many entries a user has.
    pub fn of(&self, user: Uid) -> usize {
        self.users.get(&user).map_or(0, |share| share.entries)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives up the excess after `user` got an entry. Returns what went.
    fn settle(
        shares: &mut Shares<u64>,
        user: Uid,
        ranks: &mut HashMap<u64, (Uid, EvictionRank)>,
    ) -> Vec<u64> {
        let mut gone = Vec::new();
        while let Some(over) = shares.over(user) {
            let Some(entry) = shares.next_to_evict(over) else {
                break;
            };
            let (owner, rank) = ranks[&entry];
            assert_eq!(owner, over);
            shares.remove(owner, Some(rank));
            ranks.remove(&entry);
            gone.push(entry);
        }
        gone
    }

    #[test]
    fn a_user_gives_up_ignored_entries_first_and_then_the_oldest() {
        let mut shares = Shares::new(3, 100);
        let mut ranks = HashMap::new();
        for entry in 0..3 {
            ranks.insert(entry, (7, shares.add(7, Worth::Undecided, entry)));
        }
        assert!(settle(&mut shares, 7, &mut ranks).is_empty());
        let (_, rank) = ranks[&2];
        shares.keep(7, rank);
        ranks.insert(2, (7, shares.spare(7, Worth::Ignored, 2)));
        ranks.insert(3, (7, shares.add(7, Worth::Undecided, 3)));
        assert_eq!(settle(&mut shares, 7, &mut ranks), [2]);
        ranks.insert(4, (7, shares.add(7, Worth::Undecided, 4)));
        assert_eq!(settle(&mut shares, 7, &mut ranks), [0]);
        assert_eq!(shares.of(7), 3);
    }

    #[test]
    fn what_is_in_use_stays_however_much_it_is() {
        let mut shares = Shares::new(1, 1);
        for entry in 0..5 {
            let rank = shares.add(7, Worth::Undecided, entry);
            shares.keep(7, rank);
        }
        assert_eq!(shares.over(7), Some(7));
        assert_eq!(shares.next_to_evict(7), None);
        let rank = shares.add(8, Worth::Undecided, 9);
        assert_eq!(shares.over(8), Some(8), "the only one who can");
        shares.remove(8, Some(rank));
        assert_eq!(shares.of(8), 0);
    }

    proptest! {
        /// A user who has less than others never gives anything up for them, and the bounds hold.
        #[test]
        fn others_do_not_feel_a_user_who_has_too_much(
            arrivals in proptest::collection::vec((0..4u32, any::<bool>()), 1..400),
        ) {
            let mut shares = Shares::new(40, 100);
            let mut ranks = HashMap::new();
            for (entry, (user, ignored)) in arrivals.into_iter().enumerate() {
                let entry = entry as u64;
                let worth = if ignored { Worth::Ignored } else { Worth::Undecided };
                ranks.insert(entry, (user, shares.add(user, worth, entry)));
                let before: Vec<usize> = (0..4).map(|user| shares.of(user)).collect();
                let most = before.iter().copied().max().unwrap_or(0);
                settle(&mut shares, user, &mut ranks);
                for other in 0..4u32 {
                    let (was, is) = (before[other as usize], shares.of(other));
                    prop_assert!(is <= 40);
                    prop_assert!(is == was || was == most || was > 40, "{other}: {was} to {is}");
                }
                let sum: usize = (0..4).map(|user| shares.of(user)).sum();
                prop_assert!(sum <= 100);
                prop_assert_eq!(sum, ranks.len());
            }
        }
    }
}
