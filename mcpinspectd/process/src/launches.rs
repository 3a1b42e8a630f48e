//! What the kernel saw each process start, for as long as the process runs.
//!
//! A launcher's own start is what says which package it was asked for: its command line in `/proc` may
//! have changed by now. So the starts are kept by process, until the kernel reports its exit. Users
//! share the room: a user who starts many processes displaces only their own.

use std::collections::HashMap;
use std::sync::Arc;

use mcpinspect_core::model::{Executed, Pid};

/// Most processes to remember for one user.
const PER_USER: usize = 512;
/// Most processes to remember for all users together.
const MAX: usize = 4096;

/// The programs of running processes, as the kernel saw them start.
#[derive(Debug, Default)]
pub struct Launches {
    by_pid: HashMap<Pid, Launch>,
    per_user: HashMap<u32, usize>,
    next: u64,
}

#[derive(Debug)]
struct Launch {
    executed: Arc<Executed>,
    /// Counts up: the oldest has the lowest number.
    order: u64,
}

impl Launches {
    /// Remembers what a process runs from now on.
    pub fn add(&mut self, pid: Pid, executed: Arc<Executed>) {
        self.forget(pid);
        let user = executed.uid;
        if self
            .per_user
            .get(&user)
            .is_some_and(|count| *count >= PER_USER)
        {
            self.forget_oldest_of(user);
        } else if self.by_pid.len() >= MAX {
            let most = self.per_user.iter().max_by_key(|(_, count)| **count);
            if let Some((&user, _)) = most {
                self.forget_oldest_of(user);
            }
        }
        let order = self.next;
        self.next += 1;
        self.by_pid.insert(pid, Launch { executed, order });
        *self.per_user.entry(user).or_default() += 1;
    }

    /// Forgets a process that has exited.
    pub fn forget(&mut self, pid: Pid) {
        let Some(Launch { executed, .. }) = self.by_pid.remove(&pid) else {
            return;
        };
        if let Some(count) = self.per_user.get_mut(&executed.uid) {
            *count -= 1;
            if *count == 0 {
                self.per_user.remove(&executed.uid);
            }
        }
    }

    /// What the process with this number was last seen to start.
    pub fn of(&self, pid: Pid) -> Option<&Arc<Executed>> {
        self.by_pid.get(&pid).map(|launch| &launch.executed)
    }

    fn forget_oldest_of(&mut self, user: u32) {
        let oldest = self
            .by_pid
            .iter()
            .filter(|(_, launch)| launch.executed.uid == user)
            .min_by_key(|(_, launch)| launch.order)
            .map(|(pid, _)| *pid);
        if let Some(pid) = oldest {
            self.forget(pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(uid: u32) -> Arc<Executed> {
        Arc::new(Executed {
            start_time: 1,
            uid,
            name: String::new(),
            executable: String::new(),
            executable_ino: 0,
            directory_ino: 0,
            arguments: None,
            ancestors: Vec::new(),
        })
    }

    #[test]
    fn a_process_that_exits_is_forgotten() {
        let mut launches = Launches::default();
        launches.add(Pid(7), executed(1));
        launches.add(Pid(7), executed(2));
        assert_eq!(launches.of(Pid(7)).map(|executed| executed.uid), Some(2));
        launches.forget(Pid(7));
        launches.forget(Pid(7));
        assert!(launches.of(Pid(7)).is_none());
        assert!(launches.by_pid.is_empty() && launches.per_user.is_empty());
    }

    #[test]
    fn a_user_who_starts_many_displaces_their_own() {
        let mut launches = Launches::default();
        launches.add(Pid(1), executed(1));
        for pid in 0..10 * MAX as u32 {
            launches.add(Pid(10 + pid), executed(2));
        }
        assert_eq!(launches.by_pid.len(), PER_USER + 1);
        assert!(launches.of(Pid(1)).is_some());
        assert!(launches.of(Pid(10)).is_none(), "the oldest goes first");
        assert!(launches.of(Pid(9 + 10 * MAX as u32)).is_some());
    }

    #[test]
    fn many_users_have_a_bound_as_well() {
        let mut launches = Launches::default();
        for user in 0..20 {
            for pid in 0..PER_USER as u32 {
                launches.add(Pid(1 + user * 10_000 + pid), executed(user));
            }
        }
        assert_eq!(launches.by_pid.len(), MAX);
        assert_eq!(launches.per_user.values().sum::<usize>(), MAX);
        assert!(launches.per_user.values().all(|count| *count > 100));
    }
}
