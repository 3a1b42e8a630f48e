//! One process and its ancestors.

use std::fmt;
use std::sync::Arc;

use mcpinspect_core::model::{Party, Pid};
use mcpinspect_core::text::{escape, redact};
use serde::{Deserialize, Serialize};

use super::cgroup;
use super::launcher::{file_name, program, script_launcher};
use super::procfs::{Proc, ProcDir, Stat, real_uid, split_arguments};

/// Most bytes of a command line to read. Longer ones exist (2 MiB and more), but what identifies a
/// server is at the beginning.
pub const MAX_COMMAND_BYTES: usize = 64 * 1024;
/// Most arguments to keep.
pub const MAX_ARGUMENTS: usize = 1024;
/// Most ancestors to follow.
pub const MAX_ANCESTORS: usize = 16;

/// Longest argument to show, in characters.
const SHOWN_ARGUMENT: usize = 256;
/// Most arguments to show.
const SHOWN_ARGUMENTS: usize = 64;
/// Longest path to show, in characters.
const SHOWN_PATH: usize = 512;
/// Longest name to show, in characters.
const SHOWN_NAME: usize = 32;

/// A process as it was when it started its program, or as `/proc` describes it at some point. All text is
/// raw: neither escaped nor redacted.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessSnapshot {
    /// Its pid.
    pub pid: Pid,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
    /// Its parent; 0 if there is none.
    pub parent: Pid,
    /// Its short name (`comm`).
    pub name: String,
    /// The path of its executable according to the kernel, without the kernel's mark for a deleted file;
    /// empty if it cannot be read.
    pub exe: String,
    /// Whether the executable's file was deleted or replaced since the process started.
    pub exe_deleted: bool,
    /// Its arguments: at most [`MAX_ARGUMENTS`] from at most [`MAX_COMMAND_BYTES`]. **Secret.**
    pub argv: Vec<String>,
    /// Its working directory, if it can be read.
    pub cwd: Option<String>,
    /// Its real user id.
    pub uid: u32,
    /// Its cgroup path.
    pub cgroup: String,
}

impl fmt::Debug for ProcessSnapshot {
    /// Masks the arguments: logs have readers other than the process' owner.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessSnapshot")
            .field("pid", &self.pid)
            .field("start_time", &self.start_time)
            .field("parent", &self.parent)
            .field("exe", &self.exe)
            .field("argv", &shown_command(&self.argv))
            .field("uid", &self.uid)
            .finish_non_exhaustive()
    }
}

impl ProcessSnapshot {
    pub(super) fn read(pid: Pid, dir: &ProcDir) -> Option<Self> {
        let Stat {
            comm,
            state: _,
            parent,
            threads: _,
            start_time,
        } = Stat::parse(&dir.read("stat", 4096).ok()?)?;
        let uid = real_uid(&dir.read("status", 4096).ok()?)?;
        let argv = dir.read("cmdline", MAX_COMMAND_BYTES).unwrap_or_default();
        let (exe, exe_deleted) = executable(dir).unwrap_or_default();
        Some(Self {
            pid,
            start_time,
            parent,
            name: comm,
            exe,
            exe_deleted,
            argv: split_arguments(&argv, MAX_ARGUMENTS),
            cwd: link(dir, "cwd"),
            uid,
            cgroup: cgroup::path(&dir.read("cgroup", 16 * 1024).unwrap_or_default()),
        })
    }

    /// The memory it takes in bytes, roughly.
    pub(super) fn memory(&self) -> usize {
        let text = |text: &String| size_of::<String>() + text.capacity();
        let arguments: usize = self.argv.iter().map(text).sum();
        let others = [&self.name, &self.exe, &self.cgroup].map(text);
        let cwd = self.cwd.as_ref().map_or(0, text);
        size_of::<Self>() + arguments + others.iter().sum::<usize>() + cwd
    }

    /// The name to show: that of the command (`npm exec`, `node`, `uvx`), or else the short name. Escaped
    /// and bounded.
    pub fn display_name(&self) -> String {
        let name = match self.argv.as_slice() {
            // A title in place of the arguments: its first one or two words.
            [title] if title.contains(' ') && !title.starts_with('/') => {
                let mut words = title.split(' ');
                let first = words.next().unwrap_or_default();
                match words.next() {
                    Some(second) if second.bytes().all(|b| b.is_ascii_lowercase()) => {
                        title.get(..first.len() + 1 + second.len()).unwrap_or(first)
                    }
                    _ => first,
                }
            }
            // npm before it has set its title.
            [node, script, arguments @ ..]
                if program(node) == "node" && script_launcher(script).is_some() =>
            {
                match (script_launcher(script), arguments) {
                    (Some("npm"), [exec, ..]) if exec == "exec" || exec == "x" => "npm exec",
                    (launcher, _) => launcher.unwrap_or_default(),
                }
            }
            [first, ..] => file_name(first).trim_start_matches('-'),
            [] => "",
        };
        let name = if name.is_empty() { &self.name } else { name };
        escape::printable(&redact::secrets(name), SHOWN_NAME)
    }
}

/// A process with its ancestors.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessInfo {
    process: Arc<ProcessSnapshot>,
    /// From the parent upwards.
    ancestors: Vec<Arc<ProcessSnapshot>>,
}

impl ProcessInfo {
    pub(super) fn new(process: ProcessSnapshot, ancestors: Vec<ProcessSnapshot>) -> Self {
        Self {
            process: Arc::new(process),
            ancestors: ancestors.into_iter().map(Arc::new).collect(),
        }
    }

    /// The same with other copies of each description.
    pub(super) fn map(
        self,
        mut of: impl FnMut(Arc<ProcessSnapshot>) -> Arc<ProcessSnapshot>,
    ) -> Self {
        Self {
            process: of(self.process),
            ancestors: self.ancestors.into_iter().map(of).collect(),
        }
    }

    /// One of its ancestors, with that one's ancestors.
    pub fn ancestor(&self, pid: Pid) -> Option<Self> {
        let at = self.ancestors.iter().position(|one| one.pid == pid)?;
        let (process, ancestors) = self.ancestors.get(at..)?.split_first()?;
        Some(Self {
            process: Arc::clone(process),
            ancestors: ancestors.to_vec(),
        })
    }

    /// The process itself, neither escaped nor redacted.
    pub fn process(&self) -> &ProcessSnapshot {
        &self.process
    }

    /// Its ancestors from the parent upwards, neither escaped nor redacted.
    pub fn ancestors(&self) -> &[Arc<ProcessSnapshot>] {
        &self.ancestors
    }

    /// The systemd unit or container that its cgroup names, escaped.
    pub fn unit(&self) -> Option<String> {
        cgroup::unit(&self.process.cgroup).map(|unit| escape::printable(&unit, SHOWN_PATH))
    }

    /// The process as events show it: masked, escaped and bounded.
    pub fn to_party(&self) -> Party {
        let process = &self.process;
        Party {
            pid: process.pid,
            start_time: process.start_time,
            exe: shown_path(&process.exe, process.exe_deleted),
            command: match process.argv.as_slice() {
                // Nothing else is known about a process that was gone too early.
                [] => vec![process.display_name()],
                argv => shown_command(argv),
            },
            uid: process.uid,
            cgroup: escape::printable(&process.cgroup, SHOWN_PATH),
            unit: self.unit(),
            parents: self
                .ancestors
                .iter()
                .map(|process| numbered_name(process))
                .collect(),
        }
    }

    /// The chain of its ancestors, eldest first, without init: `npm exec(12) → sh(13) → node(14)`.
    pub fn chain(&self) -> String {
        let mut names: Vec<String> = self
            .ancestors
            .iter()
            .take_while(|ancestor| ancestor.pid.0 != 1)
            .map(|process| numbered_name(process))
            .collect();
        names.reverse();
        names.push(numbered_name(&self.process));
        names.join(" → ")
    }
}

/// Reads one process; `None` if it is gone.
pub fn snapshot(pid: Pid) -> Option<ProcessSnapshot> {
    ProcessSnapshot::read(pid, &Proc::system().ok()?.open(pid).ok()?)
}

/// When a process started, in clock ticks since boot; `None` if it is gone.
pub fn start_time(pid: Pid) -> Option<u64> {
    let dir = Proc::system().ok()?.open(pid).ok()?;
    Some(Stat::parse(&dir.read("stat", 4096).ok()?)?.start_time)
}

/// A process, without what its user can make long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    /// Its pid.
    pub pid: Pid,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
    /// Its parent; 0 if there is none.
    pub parent: Pid,
}

/// Every process running now. A process that ends meanwhile is left out.
pub fn all() -> Vec<RunningProcess> {
    let Ok(proc) = Proc::system() else {
        return Vec::new();
    };
    let running = |pid| {
        let stat = Stat::parse(&proc.open(pid).ok()?.read("stat", 4096).ok()?)?;
        Some(RunningProcess {
            pid,
            start_time: stat.start_time,
            parent: stat.parent,
        })
    };
    let pids = proc.pids().unwrap_or_default();
    pids.into_iter().filter_map(running).collect()
}

/// The path of a process' executable, and whether its file was deleted.
pub(super) fn executable(dir: &ProcDir) -> Option<(String, bool)> {
    let exe = link(dir, "exe")?;
    Some(match exe.strip_suffix(" (deleted)") {
        Some(exe) => (exe.to_owned(), true),
        None => (exe, false),
    })
}

/// Where a link in a process' directory points.
pub(super) fn link(dir: &ProcDir, name: &str) -> Option<String> {
    Some(dir.link(name).ok()?.to_string_lossy().into_owned())
}

fn numbered_name(process: &ProcessSnapshot) -> String {
    format!("{}({})", process.display_name(), process.pid)
}

fn shown_path(path: &str, deleted: bool) -> String {
    let mut shown = escape::printable(path, SHOWN_PATH);
    if deleted {
        shown.push_str(" (deleted)");
    }
    shown
}

/// A command line in a form that may be shown: masked, escaped and bounded.
pub fn shown_command(argv: &[String]) -> Vec<String> {
    // A title in place of the arguments is a command line in one string.
    if let [title] = argv
        && title.contains(' ')
    {
        let words: Vec<String> = title.split(' ').map(str::to_owned).collect();
        let masked = redact::command_line(&words).join(" ");
        return vec![escape::printable(&redact::secrets(&masked), SHOWN_PATH)];
    }
    let first = &argv[..argv.len().min(SHOWN_ARGUMENTS)];
    let mut shown: Vec<String> = redact::command_line(first)
        .iter()
        .map(|arg| escape::printable(arg, SHOWN_ARGUMENT))
        .collect();
    if argv.len() > SHOWN_ARGUMENTS {
        shown.push("…".to_owned());
    }
    shown
}

#[cfg(test)]
mod tests;
