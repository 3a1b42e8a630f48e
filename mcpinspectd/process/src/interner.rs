//! The processes that started programs, each kept once.
//!
//! A program is described with its ancestors, and most programs of a user have the same ones. So equal
//! descriptions are shared. They may be long: a command line has up to 64 KiB, and a user can start many
//! processes below a chain of such ones. So the bytes of each user are counted, for as long as anything uses
//! them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::info::{ProcessInfo, ProcessSnapshot};

/// The descriptions, by the user who started the program.
#[derive(Debug)]
pub struct ProcessInterner {
    per_user: usize,
    total: usize,
    users: HashMap<u32, Share>,
    in_use: InUse,
}

#[derive(Debug, Default)]
struct Share {
    known: HashSet<Arc<ProcessSnapshot>>,
    bytes: usize,
    in_use: InUse,
}

/// How many bytes were found to be in use, if that was too much. Another walk over all that is known finds
/// the same, until something is given up: one for each program that is started would be dear.
#[derive(Clone, Copy, Debug, Default)]
struct InUse(Option<usize>);

impl InUse {
    /// Whether `bytes` of at most `most` may be less after a walk.
    fn is_walk_due(self, bytes: usize, most: usize) -> bool {
        self.0.is_none_or(|in_use| bytes > in_use + most / 16)
    }

    /// Notes what a walk has left. Returns whether it is too much.
    fn note(&mut self, bytes: usize, most: usize) -> bool {
        let is_over = bytes > most;
        self.0 = is_over.then_some(bytes);
        is_over
    }
}

impl Share {
    /// Whether what is in use is more than `most` bytes.
    fn is_over(&mut self, most: usize) -> bool {
        if self.bytes > most && self.in_use.is_walk_due(self.bytes, most) {
            self.drop_unused();
            return self.in_use.note(self.bytes, most);
        }
        self.bytes > most
    }

    fn intern(&mut self, process: Arc<ProcessSnapshot>) -> Arc<ProcessSnapshot> {
        if let Some(known) = self.known.get(&process) {
            return Arc::clone(known);
        }
        self.bytes += process.memory();
        self.known.insert(Arc::clone(&process));
        process
    }

    fn drop_unused(&mut self) {
        let bytes = &mut self.bytes;
        self.in_use = InUse::default();
        self.known.retain(|process| {
            let is_used = Arc::strong_count(process) > 1;
            if !is_used {
                *bytes -= process.memory();
            }
            is_used
        });
        if self.known.capacity() > 4 * self.known.len() {
            self.known.shrink_to_fit();
        }
    }
}

impl ProcessInterner {
    /// Bounds in bytes, for each user and for all of them.
    pub fn new(per_user: usize, total: usize) -> Self {
        Self {
            per_user,
            total,
            users: HashMap::new(),
            in_use: InUse::default(),
        }
    }

    /// Shares what is already known of a process and its ancestors, and counts the rest.
    pub fn intern(&mut self, user: u32, info: ProcessInfo) -> ProcessInfo {
        let share = self.users.entry(user).or_default();
        info.map(|process| share.intern(process))
    }

    /// The user who has to give something up after `user` got more; `None` while there is room.
    pub fn over(&mut self, user: u32) -> Option<u32> {
        if let Some(share) = self.users.get_mut(&user)
            && share.is_over(self.per_user)
        {
            return Some(user);
        }
        if self.sum() <= self.total {
            return None;
        }
        if self.in_use.is_walk_due(self.sum(), self.total) {
            self.drop_unused();
            if !self.in_use.note(self.sum(), self.total) {
                return None;
            }
        }
        let most = self
            .users
            .iter()
            .max_by_key(|(user, share)| (share.bytes, **user));
        most.map(|(user, _)| *user)
    }

    /// Forgets what nothing uses any more.
    pub fn drop_unused(&mut self) {
        self.in_use = InUse::default();
        self.users.values_mut().for_each(Share::drop_unused);
        self.users.retain(|_, share| !share.known.is_empty());
    }

    /// Notes that a user has given something up, so that it is worth looking at what they still use.
    pub fn given_up(&mut self, user: u32) {
        self.in_use = InUse::default();
        if let Some(share) = self.users.get_mut(&user) {
            share.in_use = InUse::default();
        }
    }

    #[cfg(test)]
    fn of(&self, user: u32) -> usize {
        self.users.get(&user).map_or(0, |share| share.bytes)
    }

    fn sum(&self) -> usize {
        self.users.values().map(|share| share.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::{Executed, ExecutedBy, Pid};

    use super::*;

    /// A process that was started with this command line, below a common parent.
    fn process(pid: u32, line: &str) -> ProcessInfo {
        let parent = ExecutedBy {
            pid: Pid(9),
            start_time: u64::MAX,
            uid: 1000,
            name: "parent".to_owned(),
        };
        let executed = Executed {
            start_time: u64::MAX,
            uid: 1000,
            name: "x".to_owned(),
            executable: "/bin/x".to_owned(),
            executable_ino: 0,
            directory_ino: 0,
            arguments: Some(line.as_bytes().into()),
            ancestors: vec![parent],
        };
        ProcessInfo::recorded(Pid(pid), &executed)
    }

    #[test]
    fn what_processes_have_in_common_is_kept_once() {
        let mut interner = ProcessInterner::new(1 << 20, 1 << 20);
        let [first, second] = [1, 2].map(|pid| interner.intern(7, process(pid, "x")));
        assert!(Arc::ptr_eq(&first.ancestors()[0], &second.ancestors()[0]));
        assert_eq!(first, process(1, "x"));
        let both = interner.of(7);
        let again = interner.intern(7, process(1, "x"));
        assert_eq!((again, interner.of(7)), (first.clone(), both));
        interner.intern(7, process(1, "another program"));
        assert!(interner.of(7) > both);
        interner.drop_unused();
        assert_eq!(interner.of(7), both);
        drop(first);
        interner.drop_unused();
        assert!(interner.of(7) < both, "the parent is still in use");
        drop(second);
        interner.drop_unused();
        assert!(interner.users.is_empty());
    }

    #[test]
    fn the_user_who_is_over_a_share_gives_up() {
        let long = "x".repeat(10_000);
        let mut interner = ProcessInterner::new(25_000, 35_000);
        let mut used = vec![
            interner.intern(7, process(1, &long)),
            interner.intern(8, process(2, &long)),
        ];
        assert_eq!(interner.over(7), None);
        // What was dropped again makes room by itself.
        for pid in 10..20 {
            interner.intern(7, process(pid, &long));
        }
        assert_eq!(interner.over(7), None);
        used.push(interner.intern(7, process(3, &long)));
        assert_eq!(interner.over(7), None, "two fit");
        used.push(interner.intern(8, process(4, &long)));
        used.push(interner.intern(7, process(5, &long)));
        assert_eq!(interner.over(7), Some(7), "its share");
        used.pop();
        assert_eq!(interner.over(7), Some(7), "not examined again yet");
        interner.given_up(7);
        assert_eq!(
            interner.over(7),
            Some(8),
            "all shares: the last of those with the most"
        );
        used.pop();
        interner.given_up(8);
        assert_eq!(interner.over(7), None);
    }
}
