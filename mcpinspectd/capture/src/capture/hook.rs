//! How the end of system calls is hooked. Every hook produces the same records.
//!
//! - **The tracepoint** that every call passes: always available, but every call on the machine pays
//!   for it.
//! - **Function exits**: programs on only those kernel functions that carry bytes cost other calls
//!   nothing. They miss the end of a call that was in progress when they were attached, so they take
//!   over from the tracepoint step by step (see [`super::switchover`]).
//! - **A kprobe** on the function that calls the tracepoint: for kernels that preempt the others.
//!
//! Preemption matters because the kernel skips a program that is already running on the same CPU: if
//! one is preempted, the next task on that CPU goes unseen. Where the kernel may preempt itself
//! anywhere (see [`super::preemption`]), that can happen to programs on function exits, and since 7.2
//! to programs on the tracepoint (`__BPF_DECLARE_TRACE_SYSCALL`). A kprobe's programs run with
//! preemption disabled.
//!
//! Minimum kernel versions: raw tracepoint 5.8 (ring buffer), typed tracepoint and function exits
//! 5.11; the probes as a whole need 5.17.

use std::path::Path;

use aya::programs::{BtfTracePoint, FExit, KProbe};
use aya::{Btf, Ebpf};
use mcpinspect_core::model::HookChoice;

use super::error::ProbeError;
use super::loading::{Target, load};
use super::object::{attach_raw, program};
use super::preemption;
use super::switchover::Switchover;

/// The hook in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The exits of the functions behind the calls that carry bytes.
    FunctionExit,
    /// A kprobe on the function that calls the tracepoint.
    Kprobe,
    /// The `sys_exit` tracepoint with typed arguments, for kernels with BTF of their own.
    TypedTracepoint,
    /// The `sys_exit` tracepoint with raw arguments, where BTF comes from a file.
    RawTracepoint,
}

/// The programs on function exits, and their functions without the architecture's prefix.
const EXITS: [(&str, &str); 25] = [
    ("exit_read", "read"),
    ("exit_write", "write"),
    ("exit_readv", "readv"),
    ("exit_preadv2", "preadv2"),
    ("exit_writev", "writev"),
    ("exit_pwritev2", "pwritev2"),
    ("exit_recvfrom", "recvfrom"),
    ("exit_sendto", "sendto"),
    ("exit_recvmsg", "recvmsg"),
    ("exit_sendmsg", "sendmsg"),
    ("exit_recvmmsg", "recvmmsg"),
    ("exit_sendmmsg", "sendmmsg"),
    ("exit_splice", "splice"),
    ("exit_tee", "tee"),
    ("exit_vmsplice", "vmsplice"),
    ("exit_sendfile64", "sendfile64"),
    ("exit_io_uring_setup", "io_uring_setup"),
    ("exit_io_uring_enter", "io_uring_enter"),
    ("exit_io_submit", "io_submit"),
    ("exit_pidfd_getfd", "pidfd_getfd"),
    ("exit_socket", "socket"),
    ("exit_accept", "accept"),
    ("exit_accept4", "accept4"),
    ("exit_mmap", "mmap"),
    ("exit_getsockopt", "getsockopt"),
];
/// The programs that notice calls of another system call table, if the architecture has one beside
/// its own. Kernels may be built without it.
const COMPAT_EXITS: &[(&str, &str)] = if cfg!(target_arch = "x86_64") {
    &[
        ("exit_compat_read", "__ia32_sys_read"),
        ("exit_compat_write", "__ia32_sys_write"),
    ]
} else {
    &[]
};
const TYPED: &str = "syscall_exit";
const RAW: &str = "syscall_exit_raw";
const PROBE: &str = "syscall_exit_probe";
/// The program that keeps the tracepoint active while the kprobe is used.
const WANTED: &str = "syscall_exit_wanted";
/// The function that calls the tracepoint (`kernel/entry/syscall-common.c`).
const CALLER: &str = "trace_syscall_exit";

const PREFIX: &str = if cfg!(target_arch = "aarch64") {
    "__arm64_sys_"
} else {
    "__x64_sys_"
};

impl Hook {
    /// Its name in `mcpinspectd check` and in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FunctionExit => "function exits (fexit)",
            Self::Kprobe => "kprobe (trace_syscall_exit)",
            Self::TypedTracepoint => "typed tracepoint (tp_btf/sys_exit)",
            Self::RawTracepoint => "raw tracepoint (raw_tp/sys_exit)",
        }
    }

    /// A warning, if this hook is not exact on this kernel.
    pub fn warning(self) -> Option<&'static str> {
        let preempted = match self {
            Self::Kprobe => false,
            Self::FunctionExit => preemption::is_possible(),
            Self::TypedTracepoint | Self::RawTracepoint => {
                preemption::reaches_tracepoints() && preemption::is_possible()
            }
        };
        preempted.then_some(
            "this kernel may preempt the probes and then skips calls (counted, and reported in the log); \
             boot with `preempt=none` or `preempt=voluntary` if the kernel has them, or use a kernel with CONFIG_KPROBES=y",
        )
    }

    /// The names of its programs.
    fn programs(self) -> impl Iterator<Item = &'static str> {
        let (exits, compat_exits, others) = match self {
            Self::FunctionExit => (&EXITS[..], COMPAT_EXITS, &[][..]),
            Self::Kprobe => (&[][..], &[][..], &[PROBE, WANTED][..]),
            Self::TypedTracepoint => (&[][..], &[][..], &[TYPED][..]),
            Self::RawTracepoint => (&[][..], &[][..], &[RAW][..]),
        };
        let exits = exits.iter().chain(compat_exits);
        exits
            .map(|(program, _)| *program)
            .chain(others.iter().copied())
    }

    /// The hook that `choice` starts with on this kernel. `has_types`: it describes its own types.
    pub(super) fn first(choice: HookChoice, has_types: bool) -> Self {
        if !has_types {
            Self::RawTracepoint
        } else if choice == HookChoice::Kprobe || (is_preempted(choice) && has_kprobes()) {
            Self::Kprobe
        } else {
            Self::TypedTracepoint
        }
    }

    /// What to use if the kernel refuses this one.
    pub(super) fn fallback(self, choice: HookChoice) -> Option<Self> {
        (self == Self::Kprobe && choice == HookChoice::Auto).then_some(Self::TypedTracepoint)
    }

    /// What to load before attaching it.
    pub(super) fn targets(self) -> Vec<(&'static str, Target)> {
        match self {
            Self::Kprobe => vec![(PROBE, Target::Any), (WANTED, Target::Any)],
            // Exits are loaded once the kernel has admitted the first of them.
            Self::TypedTracepoint | Self::FunctionExit => {
                vec![(TYPED, Target::Tracepoint("sys_exit"))]
            }
            Self::RawTracepoint => vec![(RAW, Target::Any)],
        }
    }

    /// Attaches it, as loaded, or falls back as `choice` says on this kernel: returns what is in use. For
    /// function exits, also returns the switchover: the tracepoint stays attached until it is complete. `types`: as
    /// the running kernel describes them.
    ///
    /// # Errors
    /// The kernel refuses the programs.
    pub(super) fn attach(
        self,
        choice: HookChoice,
        types: Option<&Btf>,
        ebpf: &mut Ebpf,
    ) -> Result<(Self, Option<Switchover>), ProbeError> {
        let Some(types) = types else {
            attach_raw(ebpf, RAW, "sys_exit")?;
            return Ok((Self::RawTracepoint, None));
        };
        if self == Self::Kprobe {
            let error = match attach_probe(ebpf) {
                Ok(()) => return Ok((Self::Kprobe, None)),
                Err(error) => error,
            };
            let Some(fallback) = self.fallback(choice) else {
                return Err(error);
            };
            tracing::debug!(%error, "cannot attach the kprobe; using the tracepoint");
            self.detach(ebpf);
            load(ebpf, &fallback.targets(), Some(types))?;
        }
        let tracepoint: &mut BtfTracePoint = program(ebpf, TYPED)?;
        tracepoint
            .attach()
            .map_err(|error| ProbeError::refused(TYPED, error))?;
        if choice == HookChoice::Tracepoint || is_preempted(choice) {
            return Ok((Self::TypedTracepoint, None));
        }
        let mut switchover = Switchover::new(ebpf)?;
        switchover.set(true)?;
        match attach_exits(ebpf, types) {
            Ok(()) => Ok((Self::FunctionExit, Some(switchover))),
            Err(error) if choice == HookChoice::Auto => {
                tracing::debug!(%error, "cannot hook function exits; keeping the tracepoint");
                Self::FunctionExit.detach(ebpf);
                switchover.set(false)?;
                Ok((Self::TypedTracepoint, None))
            }
            // The kernel has admitted other programs by now, so this is not a lack of permission.
            Err(ProbeError::NotPermitted) => Err(ProbeError::NoFunctionExits),
            Err(error) => Err(error),
        }
    }

    /// Detaches its programs. Records that they wrote stay in the ring.
    pub(super) fn detach(self, ebpf: &mut Ebpf) {
        use aya::programs::Program;
        for name in self.programs() {
            let result = match ebpf.program_mut(name) {
                Some(Program::BtfTracePoint(program)) => program.unload(),
                Some(Program::RawTracePoint(program)) => program.unload(),
                Some(Program::FExit(program)) => program.unload(),
                Some(Program::KProbe(program)) => program.unload(),
                _ => continue,
            };
            // After a refusal, some programs were never loaded.
            if let Err(error) = result {
                tracing::trace!(name, %error, "cannot detach a probe");
            }
        }
    }

    /// Calls that its programs missed because one was already running on the same CPU.
    pub(super) fn calls_missed(self, ebpf: &Ebpf) -> u64 {
        use std::os::fd::{AsFd as _, AsRawFd as _};
        self.programs()
            .filter_map(|name| {
                let fd = ebpf.program(name)?.fd().ok()?.as_fd().as_raw_fd();
                let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
                misses(&info)
            })
            .sum()
    }
}

/// The runs that the kernel skipped, from a program's `/proc/PID/fdinfo/FD` (since 5.12).
fn misses(fdinfo: &str) -> Option<u64> {
    let line = fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("recursion_misses:"))?;
    line.trim().parse().ok()
}

/// Whether the kernel has kprobes at all (since 4.17, it says so). Trying to attach one would make the kernel
/// verify the program first, which takes time.
fn has_kprobes() -> bool {
    Path::new("/sys/bus/event_source/devices/kprobe").exists()
}

/// Whether the daemon may choose, and the kernel preempts itself.
fn is_preempted(choice: HookChoice) -> bool {
    choice == HookChoice::Auto && preemption::is_possible()
}

fn attach_probe(ebpf: &mut Ebpf) -> Result<(), ProbeError> {
    let probe: &mut KProbe = program(ebpf, PROBE)?;
    probe
        .attach(CALLER, 0)
        .map_err(|error| ProbeError::refused(PROBE, error))?;
    attach_raw(ebpf, WANTED, "sys_exit")
}

fn attach_exits(ebpf: &mut Ebpf, types: &Btf) -> Result<(), ProbeError> {
    let target = |(name, call): (&'static str, &str)| {
        let function = format!("{PREFIX}{call}");
        (name, Target::Exit(function))
    };
    // If the kernel refuses the first, it need not verify the others.
    for wanted in [&EXITS[..1], &EXITS[1..]] {
        let targets: Vec<_> = wanted.iter().copied().map(target).collect();
        load(ebpf, &targets, Some(types))?;
        for (name, _) in targets {
            attach_exit(ebpf, name)?;
        }
    }
    for (name, function) in COMPAT_EXITS {
        let target = (*name, Target::Exit((*function).to_owned()));
        let result = load(ebpf, &[target], Some(types)).and_then(|()| attach_exit(ebpf, name));
        if let Err(error) = result {
            tracing::debug!(function, %error, "cannot hook a function");
        }
    }
    Ok(())
}

fn attach_exit(ebpf: &mut Ebpf, name: &'static str) -> Result<(), ProbeError> {
    let exit: &mut FExit = program(ebpf, name)?;
    exit.attach()
        .map(|_| ())
        .map_err(|error| ProbeError::refused(name, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_runs_are_read_where_the_kernel_reports_them() {
        assert_eq!(
            misses("pos:\t0\nrecursion_misses:\t12\nverified_insns:\t3\n"),
            Some(12)
        );
        assert_eq!(misses("pos:\t0\n"), None);
    }
}
