//! Carries out the plan by descriptor, so that no unrelated process is hit.
//!
//! A process that forks while its family is being stopped may have a child that was not seen, and
//! what still runs may wake up what was stopped. So the table is read, and signals are repeated, until
//! nothing new turns up and everything is stopped: a fork in progress completes before its process
//! stops, so from then on nothing is left that could start or wake another. What does not come to rest is
//! reported. For the same reason everything is stopped before anything is killed: the children of a
//! process that is gone cannot be told from others.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use mcpinspect_core::model::{ContainmentAction, Pid, Process};
use mcpinspect_process as process;
use mcpinspect_process::{ProcessHandle, ProcessRow, table};
use nix::errno::Errno;
use nix::libc;

use super::holders::left_holding;
use super::plan::{Plan, Refusal, Target, plan};
use super::{Contained, cgroup};

/// How long a family may take to come to rest; on a busy machine, a process has to wait for its turn to
/// stop.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long between two looks: longer than a fork takes.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(2);
/// After this many consecutive looks that find no new process and all at rest, none is expected.
const QUIET_ENOUGH: usize = 2;

/// Most processes of one server: beyond that, something is wrong with the picture.
const FAMILY_MAX: usize = 65_536;
/// Most processes to hold by a descriptor, since descriptors are limited.
const HANDLES_MAX: usize = 4096;

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum ContainError {
    /// There is no process to stop.
    #[error("none of its processes is running")]
    Nobody,
    /// It must not be stopped.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It is not in our power.
    #[error("cannot signal its processes ({0}); this requires CAP_KILL")]
    Powerless(String),
    /// It looks like half the machine.
    #[error("more than {FAMILY_MAX} processes seem to belong to it; none was touched")]
    TooMany,
}

/// Freezes, thaws or kills the servers in `targets`, sparing the `clients` of any session.
///
/// # Errors
/// If nothing at all was done; a partial result says so itself.
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
    // Processes that the first look missed. A group taken as a whole needs no second look.
    let begun = Instant::now();
    let mut quiet = 0;
    while quiet < QUIET_ENOUGH && begun.elapsed() < PATIENCE {
        let known = family.members.len();
        std::thread::sleep(BETWEEN_ROUNDS);
        family.unsettled = false;
        let rows = table();
        for target in targets {
            match family.take(&rows, target, clients, measure) {
                Ok(()) | Err(ContainError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let at_rest = measure == ContainmentAction::Thaw || family.still(&rows).is_empty();
        let is_quiet = at_rest && !family.unsettled && family.members.len() == known;
        quiet = if is_quiet { quiet + 1 } else { 0 };
    }
    family.finish(targets, clients, measure, quiet >= QUIET_ENOUGH)
}

/// The processes of a server.
#[derive(Debug, Default)]
struct Family {
    members: HashMap<Process, Member>,
    handles: usize,
    /// Whether the last look met a process whose parent has changed since: the next one will tell whose it
    /// is.
    unsettled: bool,
    cgroups: Vec<String>,
    missed: Vec<String>,
}

#[derive(Debug)]
enum Member {
    /// In a control group that was taken as a whole.
    InGroup,
    /// Signalled, and held unless there were too many.
    Signalled(Option<ProcessHandle>),
    /// Exited on its own before it could be signalled.
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
        let by_pid: HashMap<Pid, &ProcessRow> = rows.iter().map(|row| (row.pid, row)).collect();
        for (index, process) in processes.into_iter().enumerate() {
            if self.members.contains_key(&process) {
                continue;
            }
            let row = by_pid.get(&process.pid);
            let parent = row.and_then(|row| by_pid.get(&row.parent));
            let parent = parent.map(|parent| Process {
                pid: parent.pid,
                start_time: parent.start_time,
            });
            let in_group = by_group
                .as_deref()
                .is_some_and(|group| row.is_some_and(|row| super::plan::is_in(row, group)));
            let member = match in_group {
                true => Member::InGroup,
                // The first is the family's root, which is known by itself.
                false => match row
                    .and_then(|row| self.hold(process, row, parent.filter(|_| index > 0), measure))
                {
                    Some(member) => member,
                    None => {
                        self.unsettled = true;
                        continue;
                    }
                },
            };
            self.members.insert(process, member);
        }
        Ok(())
    }

    /// Takes the server's control group as a whole, if possible.
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
                tracing::debug!(group, %error, "cannot use a control group; using signals instead");
                None
            }
        }
    }

    /// Takes hold of one process, and sends it the first signal. `None` if it is not the process that its row
    /// describes, or not the child of `parent`, where that is given.
    fn hold(
        &mut self,
        process: Process,
        row: &ProcessRow,
        parent: Option<Process>,
        measure: ContainmentAction,
    ) -> Option<Member> {
        let held = match ProcessHandle::open(process.pid) {
            Ok(Some(held)) => held,
            Ok(None) => return Some(Member::Gone),
            Err(error) => return Some(self.miss(process, error)),
        };
        // Start times are in hundredths of a second, within which a number may be reused. It is not a stranger's if
        // the parent is the same.
        match held.start() {
            None => return Some(Member::Gone),
            Some(start) if start != (process.start_time, row.parent) => return None,
            Some(_) => {}
        }
        // The parent's number may be a stranger's by now as well.
        if parent.is_some_and(|parent| !self.has_kept_its_number(parent)) {
            return None;
        }
        let signal = match measure {
            // One that is not stopped needs no push, and may be under a debugger.
            ContainmentAction::Thaw if row.state != 'T' => {
                return Some(Member::Signalled(None));
            }
            ContainmentAction::Thaw => libc::SIGCONT,
            ContainmentAction::Freeze | ContainmentAction::Kill => libc::SIGSTOP,
        };
        Some(match held.signal(signal) {
            Ok(()) => {
                self.handles += 1;
                Member::Signalled((self.handles <= HANDLES_MAX).then_some(held))
            }
            Err(Errno::ESRCH) => Member::Gone,
            Err(error) => self.miss(process, error),
        })
    }

    /// Whether a member is there still, so that its number has meant no other process since it was taken.
    fn has_kept_its_number(&self, process: Process) -> bool {
        match self.members.get(&process) {
            Some(Member::Signalled(Some(held))) => held.start_time().is_some(),
            // Not held: this leaves the hundredth of a second in which a number may come back.
            Some(Member::Signalled(None) | Member::InGroup | Member::Refused) => {
                process::start_time(process.pid) == Some(process.start_time)
            }
            Some(Member::Gone) | None => false,
        }
    }

    /// The members that are not stopped, in a table that was read after they were signalled. They are
    /// signalled again: a process still running may have continued them.
    fn still(&self, rows: &[ProcessRow]) -> Vec<Process> {
        let restless = super::rest::restless(rows, |row| {
            let process = Process {
                pid: row.pid,
                start_time: row.start_time,
            };
            matches!(self.members.get(&process), Some(Member::Signalled(_)))
        });
        for process in &restless {
            if let Some(Member::Signalled(held)) = self.members.get(process) {
                // One that is gone by now is at rest.
                let _ = signal(*process, held.as_ref(), libc::SIGSTOP);
            }
        }
        restless
    }

    /// Reports the processes that can go on serving the session: those that hold the server's end of it
    /// and cannot be shown to be part of the family.
    fn miss_holders(&mut self, targets: &[Target], clients: &[Process]) {
        let of_targets = targets.iter().filter_map(|target| target.client.as_ref());
        let mut known: HashMap<Pid, Vec<u64>> = HashMap::new();
        for process in self.members.keys().chain(clients).chain(of_targets) {
            let known = known.entry(process.pid).or_default();
            known.push(process.start_time);
        }
        for pid in left_holding(targets) {
            // A number alone says nothing: it may be that of a member that is gone.
            let is_known = known.get(&pid).is_some_and(|known| {
                process::start_time(pid).is_none_or(|start_time| known.contains(&start_time))
            });
            if !is_known && pid != process::own() {
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

    /// Completes the measure, and reports what was not reached. `at_rest` says that everything known is
    /// stopped.
    fn finish(
        mut self,
        targets: &[Target],
        clients: &[Process],
        measure: ContainmentAction,
        at_rest: bool,
    ) -> Result<Contained, ContainError> {
        if measure == ContainmentAction::Freeze && !at_rest {
            for process in self.still(&table()) {
                let missed = format!("process {}: it was resumed by something else", process.pid);
                self.missed.push(missed);
            }
        }
        if measure != ContainmentAction::Thaw {
            self.miss_holders(targets, clients);
        }
        let mut reached: Vec<Pid> = Vec::new();
        for (process, member) in &self.members {
            match member {
                Member::InGroup => reached.push(process.pid),
                Member::Signalled(held) => {
                    let killed = match measure {
                        ContainmentAction::Kill => signal(*process, held.as_ref(), libc::SIGKILL),
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
        if measure != ContainmentAction::Thaw && !at_rest {
            // Whatever was started meanwhile.
            self.miss_holders(targets, clients);
            let missed = "processes that were started faster than they could be stopped";
            self.missed.push(missed.to_owned());
        }
        if reached.is_empty() {
            return Err(match self.missed.is_empty() {
                true => ContainError::Nobody,
                false => ContainError::Powerless(self.missed.join("; ")),
            });
        }
        reached.sort_unstable();
        self.missed.sort_unstable();
        self.missed.dedup();
        Ok(Contained {
            cgroups: self.cgroups,
            processes: reached,
            missed: self.missed,
        })
    }
}

/// Signals exactly this process, through `held` if present; one that is gone yields `ESRCH`, whichever process has
/// its number now.
fn signal(
    process: Process,
    held: Option<&ProcessHandle>,
    signal: libc::c_int,
) -> Result<(), Errno> {
    match held {
        Some(held) => held.signal(signal),
        None => {
            let held = ProcessHandle::open(process.pid)?;
            let held = held.filter(|held| held.start_time() == Some(process.start_time));
            held.ok_or(Errno::ESRCH)?.signal(signal)
        }
    }
}
