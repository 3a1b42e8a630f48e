//! Has the kernel verify programs in parallel, one per CPU. It verifies one program on one CPU, and takes
//! longest for the one at system calls, so that one alone decides how long the daemon takes to start.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf};

use super::error::ProbeError;

/// Most programs to verify at the same time.
const WORKERS: usize = 8;

/// What a program is to be attached to.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A tracepoint, with raw arguments, or a function's entry: the kernel need not know which.
    Any,
    /// The tracepoint of this name, with typed arguments.
    Tracepoint(&'static str),
    /// The exit of the function of this name.
    Exit(String),
    /// The iterator of this name.
    Iterator(&'static str),
}

/// Loads the programs that are not loaded yet. The first are verified first, so the largest should be among
/// them. `types`: those of the running kernel, which all but [`Target::Any`] need.
///
/// # Errors
/// The kernel refuses one of them. Others may be loaded.
pub(super) fn load(
    ebpf: &mut Ebpf,
    wanted: &[(&'static str, Target)],
    types: Option<&Btf>,
) -> Result<(), ProbeError> {
    let mut programs: HashMap<&str, &mut Program> = ebpf.programs_mut().collect();
    let mut queue = Vec::new();
    for (name, target) in wanted {
        let program = programs.remove(*name).ok_or(ProbeError::Incomplete(name))?;
        queue.push((name, target, program));
    }
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = workers.min(WORKERS).min(queue.len());
    let queue = Mutex::new(queue.into_iter());
    let work = || {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((name, target, program)) = next else {
                return Ok(());
            };
            load_one(program, target, types).map_err(|error| ProbeError::refused(name, error))?;
        }
    };
    thread::scope(|scope| {
        let others = (1..workers)
            .map(|_| thread::Builder::new().spawn_scoped(scope, work))
            .collect::<Result<Vec<_>, _>>()?;
        let mut result = work();
        for other in others {
            let other = other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and(other);
        }
        result
    })
}

fn load_one(
    program: &mut Program,
    target: &Target,
    types: Option<&Btf>,
) -> Result<(), ProgramError> {
    if program.fd().is_ok() {
        return Ok(());
    }
    match (program, target, types) {
        (Program::RawTracePoint(program), Target::Any, _) => program.load(),
        (Program::KProbe(program), Target::Any, _) => program.load(),
        (Program::BtfTracePoint(program), Target::Tracepoint(name), Some(types)) => {
            program.load(name, types)
        }
        (Program::FExit(program), Target::Exit(function), Some(types)) => {
            program.load(function, types)
        }
        (Program::Iter(program), Target::Iterator(kind), Some(types)) => program.load(kind, types),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}
