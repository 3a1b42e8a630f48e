//! How the end of system calls is hooked. All ways give the same records.
//!
//! The tracepoint that all calls pass is exact where the kernel lets none of its programs be
//! interrupted, and every call of the machine pays for it. The exits of just those kernel functions that
//! carry bytes cost nobody else anything. But a call that was under way before they were hooked is not
//! seen ending there; so function exits take over from the tracepoint (see [`super::handover`]).
//!
//! A program that is interrupted on a CPU is skipped for the next task on it. Where the kernel may
//! interrupt itself anywhere (see [`super::preemption`]), that can happen to programs on function exits,
//! and from 7.2 on to those on the tracepoint as well (`__BPF_DECLARE_TRACE_SYSCALL`). It cannot
//! happen to a kprobe's, which run with preemption off: there, one on the function that calls the
//! tracepoint is exact.

use aya::programs::{BtfTracePoint, FExit, KProbe};
use aya::{Btf, Ebpf};
use serde::Deserialize;

use super::handover::Handover;
use super::preemption;
use super::probes::{ProbeError, attach_raw, program, refused};

/// What the configuration asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookChoice {
    /// The cheapest that is exact on this kernel.
    #[default]
    Auto,
    /// The tracepoint that all system calls pass.
    Tracepoint,
    /// The exits of the functions behind the calls that carry bytes, or nothing.
    FunctionExit,
    /// A kprobe on the function that calls the tracepoint, or nothing.
    Kprobe,
}

/// What is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The exits of the functions behind the calls that carry bytes.
    FunctionExit,
    /// A kprobe on the function that calls the tracepoint.
    Kprobe,
    /// The `sys_exit` tracepoint with typed arguments: the kernel describes itself.
    TypedTracepoint,
    /// The `sys_exit` tracepoint with raw arguments: the types come from a file.
    RawTracepoint,
}

/// The programs on function exits, and the functions behind an architecture's prefix.
const EXITS: [(&str, &str); 18] = [
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
    ("exit_io_uring_enter", "io_uring_enter"),
    ("exit_pidfd_getfd", "pidfd_getfd"),
];
/// Where the architecture runs programs of another system call table beside its own: how their use is
/// noticed. Kernels may be built without.
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
/// A program that has the tracepoint called.
const WANTED: &str = "syscall_exit_wanted";
/// What calls it (`kernel/entry/syscall-common.c`).
const CALLER: &str = "trace_syscall_exit";

const PREFIX: &str = if cfg!(target_arch = "aarch64") {
    "__arm64_sys_"
} else {
    "__x64_sys_"
};

impl Hook {
    /// The words used on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FunctionExit => "function exits (fexit)",
            Self::Kprobe => "kprobe (trace_syscall_exit)",
            Self::TypedTracepoint => "typed tracepoint (tp_btf/sys_exit)",
            Self::RawTracepoint => "raw tracepoint (raw_tp/sys_exit)",
        }
    }

    /// What to know about it on this kernel, where it is not exact.
    pub fn caution(self) -> Option<&'static str> {
        let interrupted = match self {
            Self::Kprobe => false,
            Self::FunctionExit => preemption::is_possible(),
            Self::TypedTracepoint | Self::RawTracepoint => {
                preemption::reaches_tracepoints() && preemption::is_possible()
            }
        };
        interrupted.then_some(
            "this kernel may interrupt the probes and then skips calls, which is counted and told in the log; \
             boot it with `preempt=none` or `preempt=voluntary` where it has them, or use one with CONFIG_KPROBES=y",
        )
    }

    /// Its programs.
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

    /// Loads and attaches what `choice` comes to on this kernel. With function exits, also gives how
    /// they take over from the tracepoint, which is attached as well until then.
    ///
    /// # Errors
    /// The kernel refuses the programs.
    pub(super) fn attach(
        choice: HookChoice,
        types_from_file: bool,
        ebpf: &mut Ebpf,
    ) -> Result<(Self, Option<Handover>), ProbeError> {
        if types_from_file {
            attach_raw(ebpf, RAW, "sys_exit")?;
            return Ok((Self::RawTracepoint, None));
        }
        let types = Btf::from_sys_fs().map_err(|error| ProbeError::Load(error.into()))?;
        let interrupts_itself = choice == HookChoice::Auto && preemption::is_possible();
        if choice == HookChoice::Kprobe || interrupts_itself {
            match attach_probe(ebpf) {
                Ok(()) => return Ok((Self::Kprobe, None)),
                Err(error) if choice == HookChoice::Kprobe => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "no kprobe; the tracepoint it is");
                    Self::Kprobe.detach(ebpf);
                }
            }
        }
        let tracepoint: &mut BtfTracePoint = program(ebpf, TYPED)?;
        tracepoint
            .load("sys_exit", &types)
            .and_then(|()| tracepoint.attach())
            .map_err(|error| refused(TYPED, error))?;
        if choice == HookChoice::Tracepoint || interrupts_itself {
            return Ok((Self::TypedTracepoint, None));
        }
        let mut handover = Handover::new(ebpf)?;
        handover.set(true)?;
        match attach_exits(ebpf, &types) {
            Ok(()) => Ok((Self::FunctionExit, Some(handover))),
            Err(error) if choice == HookChoice::Auto => {
                tracing::debug!(%error, "function exits cannot be hooked; the tracepoint stays");
                Self::FunctionExit.detach(ebpf);
                handover.set(false)?;
                Ok((Self::TypedTracepoint, None))
            }
            // Other programs were admitted by now: it is not a matter of rights.
            Err(ProbeError::NotPermitted) => Err(ProbeError::NoFunctionExits),
            Err(error) => Err(error),
        }
    }

    /// Detaches its programs; what they wrote stays.
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
            // After a refusal, some were never loaded.
            if let Err(error) = result {
                tracing::trace!(name, %error, "not detached");
            }
        }
    }

    /// Calls that its programs did not see because they were at work on the same CPU already.
    pub(super) fn missed(self, ebpf: &Ebpf) -> u64 {
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

/// The line of a program's `/proc/PID/fdinfo/FD` that tells of calls it was not run for (since 5.12).
fn misses(fdinfo: &str) -> Option<u64> {
    let line = fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("recursion_misses:"))?;
    line.trim().parse().ok()
}

fn attach_probe(ebpf: &mut Ebpf) -> Result<(), ProbeError> {
    let probe: &mut KProbe = program(ebpf, PROBE)?;
    probe
        .load()
        .and_then(|()| probe.attach(CALLER, 0))
        .map_err(|error| refused(PROBE, error))?;
    attach_raw(ebpf, WANTED, "sys_exit")
}

fn attach_exits(ebpf: &mut Ebpf, types: &Btf) -> Result<(), ProbeError> {
    for (name, call) in EXITS {
        attach_exit(ebpf, types, name, &format!("{PREFIX}{call}"))?;
    }
    for (name, function) in COMPAT_EXITS {
        if let Err(error) = attach_exit(ebpf, types, name, function) {
            tracing::debug!(function, %error, "not hooked");
        }
    }
    Ok(())
}

fn attach_exit(
    ebpf: &mut Ebpf,
    types: &Btf,
    name: &'static str,
    function: &str,
) -> Result<(), ProbeError> {
    let exit: &mut FExit = program(ebpf, name)?;
    exit.load(function, types)
        .and_then(|()| exit.attach())
        .map(|_| ())
        .map_err(|error| refused(name, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_read_where_the_kernel_tells_them() {
        assert_eq!(
            misses("pos:\t0\nrecursion_misses:\t12\nverified_insns:\t3\n"),
            Some(12)
        );
        assert_eq!(misses("pos:\t0\n"), None);
    }
}
