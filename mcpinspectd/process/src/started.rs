//! A process as the kernel saw it start its program.
//!
//! `/proc` shows a process as it is now: it may have overwritten its command line, changed
//! its directory, or be gone. The kernel's record of the start is older than anything the program
//! did, so it takes precedence. `/proc` adds what the record leaves out (directories and control groups), as
//! long as the process is the same one by its start time, and what it adds is the same by its inode.

use mcpinspect_core::model::{Executed, ExecutedBy, Pid};

use super::cgroup;
use super::info::{
    MAX_ANCESTORS, MAX_ARGUMENTS, MAX_COMMAND_BYTES, ProcessInfo, ProcessSnapshot, executable, link,
};
use super::launches::Launches;
use super::procfs::{Proc, ProcDir, Stat, split_arguments};

impl ProcessInfo {
    /// Reads a process and its ancestors; `None` if it is gone.
    pub fn read(pid: Pid) -> Option<Self> {
        Self::read_from(&Proc::system().ok()?, pid)
    }

    pub(super) fn read_from(proc: &Proc, pid: Pid) -> Option<Self> {
        read(&Sources::new(Some(proc), &Launches::default()), pid)
    }

    /// What is known about a process and its ancestors: what the kernel saw them start, or else what
    /// `/proc` says. `None` if it was not seen to start and is gone.
    pub fn known(pid: Pid, launches: &Launches) -> Option<Self> {
        let proc = Proc::system().ok();
        known(&Sources::new(proc.as_ref(), launches), pid)
    }

    /// A process that has just started a program.
    pub fn started(pid: Pid, executed: &Executed, launches: &Launches) -> Self {
        let proc = Proc::system().ok();
        started(&Sources::new(proc.as_ref(), launches), pid, executed)
    }

    /// A process according to the record of its start alone.
    pub fn recorded(pid: Pid, executed: &Executed) -> Self {
        started(&Sources::new(None, &Launches::default()), pid, executed)
    }
}

/// Where processes are looked up.
struct Sources<'a> {
    proc: Option<&'a Proc>,
    launches: &'a Launches,
}

impl<'a> Sources<'a> {
    fn new(proc: Option<&'a Proc>, launches: &'a Launches) -> Self {
        Self { proc, launches }
    }

    /// The process that has this number now.
    fn open(&self, pid: Pid) -> Option<(ProcDir, Stat)> {
        let dir = self.proc?.open(pid).ok()?;
        let stat = Stat::parse(&dir.read("stat", 4096).ok()?)?;
        Some((dir, stat))
    }

    /// The process that has this number and started at this time, if it still runs.
    fn same(&self, pid: Pid, start_time: u64) -> Option<ProcDir> {
        let (dir, stat) = self.open(pid)?;
        (stat.start_time == start_time).then_some(dir)
    }

    /// What a process started last, if it is the one that started at this time.
    fn launch(&self, pid: Pid, start_time: u64) -> Option<&'a Executed> {
        let executed = self.launches.of(pid)?;
        (executed.start_time == start_time).then_some(&**executed)
    }
}

/// A process that has just started a program, and its ancestors.
fn started(sources: &Sources<'_>, pid: Pid, executed: &Executed) -> ProcessInfo {
    let mut process = recorded(sources, pid, executed);
    let above = &executed.ancestors;
    let mut ancestors: Vec<ProcessSnapshot> = above
        .iter()
        .map(|ancestor| recorded_ancestor(sources, ancestor))
        .collect();
    for (ancestor, next) in ancestors.iter_mut().zip(above.iter().skip(1)) {
        ancestor.parent = next.pid;
    }
    if above.len() >= mcpinspect_common::EXEC_ANCESTORS {
        follow(sources, &process, &mut ancestors);
    }
    if process.cwd.is_none() {
        // It was inherited from a process that is still in that directory.
        process.cwd = above.iter().find_map(|ancestor| {
            let dir = sources.same(ancestor.pid, ancestor.start_time)?;
            directory(&dir, executed.directory_ino)
        });
    }
    ProcessInfo::new(process, ancestors)
}

/// What is known about a process; `None` if it was not seen to start and is gone.
fn known(sources: &Sources<'_>, pid: Pid) -> Option<ProcessInfo> {
    let Some(executed) = sources.launches.of(pid) else {
        return read(sources, pid);
    };
    match sources.open(pid) {
        // Another process has the number by now.
        Some((_, stat)) if stat.start_time != executed.start_time => read(sources, pid),
        _ => Some(started(sources, pid, executed)),
    }
}

/// Reads a process that was not seen to start, or that was forked since.
fn read(sources: &Sources<'_>, pid: Pid) -> Option<ProcessInfo> {
    let process = ProcessSnapshot::read(pid, &sources.proc?.open(pid).ok()?)?;
    let mut ancestors = Vec::new();
    follow(sources, &process, &mut ancestors);
    Some(ProcessInfo::new(process, ancestors))
}

/// Adds the ancestors that are still missing, if they still run.
fn follow(sources: &Sources<'_>, process: &ProcessSnapshot, ancestors: &mut Vec<ProcessSnapshot>) {
    while ancestors.len() < MAX_ANCESTORS {
        let last = ancestors.last().unwrap_or(process);
        let next = last.parent;
        if next.0 == 0 {
            return;
        }
        match running(sources, next) {
            // A parent that is younger than its child only has the real one's number.
            Some(found) if found.start_time <= last.start_time => ancestors.push(found),
            _ => return,
        }
    }
}

/// A process running now.
fn running(sources: &Sources<'_>, pid: Pid) -> Option<ProcessSnapshot> {
    if let Some(executed) = sources.launches.of(pid)
        && let Some((_, stat)) = sources.open(pid)
        && stat.start_time == executed.start_time
    {
        let parent = stat.parent;
        return Some(ProcessSnapshot {
            parent,
            ..recorded(sources, pid, executed)
        });
    }
    ProcessSnapshot::read(pid, &sources.proc?.open(pid).ok()?)
}

/// An ancestor: by its own start, by `/proc`, or by what its descendant's start says about it.
fn recorded_ancestor(sources: &Sources<'_>, ancestor: &ExecutedBy) -> ProcessSnapshot {
    let ExecutedBy {
        pid,
        start_time,
        uid,
        name,
    } = ancestor;
    if let Some(executed) = sources.launch(*pid, *start_time) {
        return recorded(sources, *pid, executed);
    }
    let read = sources
        .same(*pid, *start_time)
        .and_then(|dir| ProcessSnapshot::read(*pid, &dir));
    read.unwrap_or_else(|| ProcessSnapshot {
        pid: *pid,
        start_time: *start_time,
        parent: Pid(0),
        name: name.clone(),
        exe: String::new(),
        exe_deleted: false,
        argv: Vec::new(),
        cwd: None,
        uid: *uid,
        cgroup: cgroup::path(b""),
    })
}

/// A process by the program it started, and what `/proc` adds to that.
fn recorded(sources: &Sources<'_>, pid: Pid, executed: &Executed) -> ProcessSnapshot {
    let Executed {
        start_time,
        uid,
        name,
        executable: recorded_executable,
        executable_ino,
        directory_ino,
        arguments,
        ancestors,
    } = executed;
    let dir = sources.same(pid, *start_time);
    let dir = dir.as_ref();
    let (exe, exe_deleted) = dir
        .filter(|dir| dir.inode("exe") == Ok(*executable_ino))
        .and_then(executable)
        .unwrap_or_else(|| (recorded_executable.clone(), false));
    let read = |name, max| dir.and_then(|dir| dir.read(name, max).ok());
    let argv = match arguments {
        Some(arguments) => split_arguments(arguments, MAX_ARGUMENTS),
        None => split_arguments(
            &read("cmdline", MAX_COMMAND_BYTES).unwrap_or_default(),
            MAX_ARGUMENTS,
        ),
    };
    ProcessSnapshot {
        pid,
        start_time: *start_time,
        parent: ancestors.first().map_or(Pid(0), |parent| parent.pid),
        name: name.clone(),
        exe,
        exe_deleted,
        argv,
        cwd: dir.and_then(|dir| directory(dir, *directory_ino)),
        uid: *uid,
        cgroup: cgroup::path(&read("cgroup", 16 * 1024).unwrap_or_default()),
    }
}

/// A process' working directory, if that is the one with this inode number.
fn directory(dir: &ProcDir, ino: u64) -> Option<String> {
    (dir.inode("cwd") == Ok(ino)).then(|| link(dir, "cwd"))?
}

#[cfg(test)]
mod tests;
