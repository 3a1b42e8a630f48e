//! Doing what was planned: by descriptor, so that no stranger is hit.
//!
//! A process that forks while its family is being stopped may have a child that was not seen. So
//! the table is read again until nothing new turns up. For the same reason everything is stopped
//! before anything is killed: the children of a process that is gone cannot be told from others.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;

use super::holders::left_holding;
use super::plan::{Plan, Refusal, Target, plan};
use super::{Contained, cgroup};
use crate::model::{ContainmentAction, Pid, Process};
use crate::process::{self, ProcessHandle, ProcessRow, table};

/// Looks at the process table; a family that grows for longer than that is told as missed.
const ROUNDS: usize = 12;
/// How long between two looks: longer than a fork takes.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(2);
/// Looks in a row that find nobody new, after which nobody is expected.
const QUIET_ENOUGH: usize = 2;

/// Processes of one server at the most: beyond it, something is wrong with the picture.
const FAMILY_MAX: usize = 4096;

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum ContainError {
    /// Nobody is there to be stopped.
    #[error("no process of it is running")]
    Nobody,
    /// It is not to be stopped.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It is not in our power.
    #[error(
        "its processes cannot be signalled ({0}); that takes the right to signal any process (CAP_KILL)"
    )]
    Powerless(String),
    /// It looks like half the machine.
    #[error("more than {FAMILY_MAX} processes belong to it; that cannot be right")]
    TooMany,
}

/// Freezes, thaws or kills the servers in `targets`, sparing the `clients` of any session.
///
/// # Errors
/// Where nothing at all was done; what was done in part says so itself.
pub fn contain(
    targets: &[Target],
    clients: &[Process],
    measure: ContainmentAction,
) -> Result<Contained, ContainError> {
    let mut family = Family::default();
    let mut refused = None;
    let first = table();
    let mut any = false;
    for target in targets {
        match family.take(&first, target, clients, measure) {
            Ok(()) => any = true,
            Err(ContainError::Refused(refusal)) => refused = Some(refusal),
            Err(error) => return Err(error),
        }
    }
    if !any {
        return Err(refused.map_or(ContainError::Nobody, ContainError::Refused));
    }
    // Whom the first look missed. A group that was taken as a whole needs no second look. A fork that
    // was nearly done when its process got the signal shows a moment later: one quiet look is not enough.
    let mut quiet = 0;
    for _ in 1..ROUNDS {
        let known = family.members.len();
        std::thread::sleep(BETWEEN_ROUNDS);
        let rows = table();
        for target in targets {
            match family.take(&rows, target, clients, measure) {
                Ok(()) | Err(ContainError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        quiet = if family.members.len() == known {
            quiet + 1
        } else {
            0
        };
        if quiet == QUIET_ENOUGH {
            break;
        }
    }
    if quiet < QUIET_ENOUGH {
        let missed = "processes that are started faster than they can be stopped";
        family.missed.push(missed.to_owned());
    }
    if measure != ContainmentAction::Thaw {
        family.miss_holders(targets, clients);
    }
    family.finish(measure)
}

/// The processes of a server, each held by a descriptor.
#[derive(Debug, Default)]
struct Family {
    members: HashMap<Process, Member>,
    cgroups: Vec<String>,
    missed: Vec<String>,
}

#[derive(Debug)]
enum Member {
    /// In a control group that was taken as a whole.
    InGroup,
    /// Held, and signalled.
    Held(ProcessHandle),
    /// Gone by itself before it could be held.
    Gone,
    /// Not ours to signal.
    Refused,
}

impl Family {
    fn take(
        &mut self,
        rows: &[ProcessRow],
        target: &Target,
        clients: &[Process],
        measure: ContainmentAction,
    ) -> Result<(), ContainError> {
        let own = process::own();
        let Plan {
            processes,
            cgroup,
            of_others,
        } = plan(rows, target, clients, own)?;
        for process in of_others {
            self.members.entry(process).or_insert_with(|| {
                let missed = format!("process {}: it runs as another user", process.pid);
                self.missed.push(missed);
                Member::Refused
            });
        }
        if processes.len() > FAMILY_MAX {
            return Err(ContainError::TooMany);
        }
        let by_group = self.take_group(rows, target, cgroup, measure);
        for process in processes {
            if self.members.contains_key(&process) {
                continue;
            }
            let row = rows.iter().find(|row| row.pid == process.pid);
            let in_group = by_group
                .as_deref()
                .is_some_and(|group| row.is_some_and(|row| super::plan::is_in(row, group)));
            let member = match in_group {
                true => Member::InGroup,
                false => self.hold(process, row.map_or('S', |row| row.state), measure),
            };
            self.members.insert(process, member);
        }
        Ok(())
    }

    /// Takes the server's control group as a whole, where that can be done.
    fn take_group(
        &mut self,
        rows: &[ProcessRow],
        target: &Target,
        own: Option<String>,
        measure: ContainmentAction,
    ) -> Option<String> {
        let group = match measure {
            // What was frozen is thawed, even if other processes have joined it since.
            ContainmentAction::Thaw => {
                let server = rows.iter().find(|row| row.pid == target.server.pid);
                let group = server.and_then(|row| row.cgroup.clone())?;
                cgroup::is_frozen(&group).then_some(group)?
            }
            ContainmentAction::Freeze | ContainmentAction::Kill => own?,
        };
        if self.cgroups.contains(&group) {
            return Some(group);
        }
        match cgroup::apply(&group, measure) {
            Ok(()) => {
                self.cgroups.push(group.clone());
                Some(group)
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                self.missed.push(format!("{group}: {error}"));
                self.cgroups.push(group.clone());
                Some(group)
            }
            Err(error) => {
                tracing::debug!(group, %error, "a control group cannot be used; signals instead");
                None
            }
        }
    }

    /// Takes hold of one process and gives it the first signal.
    fn hold(&mut self, process: Process, state: char, measure: ContainmentAction) -> Member {
        let held = match hold(process) {
            Ok(Some(held)) => held,
            Ok(None) => return Member::Gone,
            Err(error) => return self.miss(process, error),
        };
        let signal = match measure {
            // One that is not stopped needs no push, and may be under a debugger.
            ContainmentAction::Thaw if state != 'T' => return Member::Held(held),
            ContainmentAction::Thaw => libc::SIGCONT,
            ContainmentAction::Freeze | ContainmentAction::Kill => libc::SIGSTOP,
        };
        match held.signal(signal) {
            Ok(()) => Member::Held(held),
            Err(Errno::ESRCH) => Member::Gone,
            Err(error) => self.miss(process, error),
        }
    }

    /// Reports the processes that can go on serving the session: those that hold the server's end of it,
    /// and are not of the family as far as can be shown.
    fn miss_holders(&mut self, targets: &[Target], clients: &[Process]) {
        let known: HashSet<Pid> = (self.members.keys())
            .chain(clients)
            .chain(targets.iter().filter_map(|target| target.client.as_ref()))
            .map(|process| process.pid)
            .chain([process::own()])
            .collect();
        for pid in left_holding(targets) {
            if !known.contains(&pid) {
                self.missed.push(format!(
                    "process {pid}: it holds the server's end of the session"
                ));
            }
        }
    }

    fn miss(&mut self, process: Process, error: Errno) -> Member {
        self.missed
            .push(format!("process {}: {}", process.pid, error.desc()));
        Member::Refused
    }

    fn finish(mut self, measure: ContainmentAction) -> Result<Contained, ContainError> {
        let mut reached: Vec<Pid> = Vec::new();
        for (process, member) in &self.members {
            match member {
                Member::InGroup => reached.push(process.pid),
                Member::Held(held) => {
                    let killed = match measure {
                        ContainmentAction::Kill => held.signal(libc::SIGKILL),
                        ContainmentAction::Freeze | ContainmentAction::Thaw => Ok(()),
                    };
                    match killed {
                        Ok(()) | Err(Errno::ESRCH) => reached.push(process.pid),
                        Err(error) => {
                            self.missed
                                .push(format!("process {}: {}", process.pid, error.desc()))
                        }
                    }
                }
                Member::Gone | Member::Refused => {}
            }
        }
        if reached.is_empty() {
            return Err(match self.missed.is_empty() {
                true => ContainError::Nobody,
                false => ContainError::Powerless(self.missed.join("; ")),
            });
        }
        reached.sort_unstable();
        self.missed.sort_unstable();
        Ok(Contained {
            cgroups: self.cgroups,
            processes: reached,
            missed: self.missed,
        })
    }
}

/// A hold on exactly this process; `None` where it is gone.
fn hold(process: Process) -> Result<Option<ProcessHandle>, Errno> {
    let held = ProcessHandle::open(process.pid)?;
    Ok(held.filter(|held| held.start_time() == Some(process.start_time)))
}
