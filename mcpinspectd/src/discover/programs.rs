//! Which programs were started between which two streams.
//!
//! A launcher such as `npx` starts a shell, which starts the server: three programs between the
//! same two streams. A shell may also put the server into a pipeline, so that one input has several
//! outputs. All of them are kept, in the order in which they started.

use std::collections::HashMap;
use std::sync::Arc;

use mcpinspect_common::EndpointKey;

use super::capacity;
use crate::process::ProcessInfo;

/// Programs remembered per stream: more than any chain of launchers, and a bound for a shell loop
/// that starts thousands of programs on one pipe.
const PER_STREAM: usize = 32;

/// A program and the two streams that it was started between. A stream is named by the endpoint
/// that it is read at.
#[derive(Clone, Debug)]
pub struct StartedProgram {
    /// Its process.
    pub pid: u32,
    /// The stream that it reads as standard input.
    pub input: Option<EndpointKey>,
    /// The stream that it writes as standard output.
    pub output: Option<EndpointKey>,
    /// What it was when it started: it may be gone by the time that this is needed.
    pub info: Option<Arc<ProcessInfo>>,
}

/// The programs of all known streams.
///
/// A program is listed at both of its streams, once at each, in the order in which the programs
/// started. At most [`PER_STREAM`] are listed at a stream, and the first one always is.
#[derive(Debug, Default)]
pub struct Programs {
    by_stream: HashMap<EndpointKey, Vec<StartedProgram>>,
}

impl Programs {
    /// Remembers a program.
    pub fn add(&mut self, program: &StartedProgram) {
        let mut streams = [program.input, program.output];
        if program.input == program.output {
            streams[1] = None;
        }
        for stream in streams.into_iter().flatten() {
            let known = self.by_stream.entry(stream).or_default();
            known.retain(|known| {
                (known.pid, known.input, known.output)
                    != (program.pid, program.input, program.output)
            });
            if known.len() == PER_STREAM {
                // The first is the outermost launcher and worth keeping.
                known.remove(1);
            }
            known.push(program.clone());
        }
    }

    /// The programs that read `stream`, in the order in which they started.
    pub fn readers(&self, stream: EndpointKey) -> impl DoubleEndedIterator<Item = &StartedProgram> {
        self.of(stream)
            .filter(move |program| program.input == Some(stream))
    }

    /// The programs that write `stream`, in the order in which they started.
    pub fn writers(&self, stream: EndpointKey) -> impl DoubleEndedIterator<Item = &StartedProgram> {
        self.of(stream)
            .filter(move |program| program.output == Some(stream))
    }

    /// The outputs of the programs that read `stream`.
    pub fn outputs_of_readers(&self, stream: EndpointKey) -> impl Iterator<Item = EndpointKey> {
        self.readers(stream).filter_map(|program| program.output)
    }

    /// The inputs of the programs that write `stream`.
    pub fn inputs_of_writers(&self, stream: EndpointKey) -> impl Iterator<Item = EndpointKey> {
        self.writers(stream).filter_map(|program| program.input)
    }

    /// What process `pid` was when it was started on `stream`.
    pub fn info(&self, stream: EndpointKey, pid: u32) -> Option<Arc<ProcessInfo>> {
        self.of(stream)
            .rev()
            .find(|program| program.pid == pid)?
            .info
            .clone()
    }

    /// Forgets a stream.
    pub fn forget(&mut self, stream: EndpointKey) {
        self.by_stream.remove(&stream);
    }

    /// Frees spare capacity.
    pub fn shrink(&mut self) {
        capacity::shrink(&mut self.by_stream);
    }

    fn of(&self, stream: EndpointKey) -> impl DoubleEndedIterator<Item = &StartedProgram> {
        self.by_stream
            .get(&stream)
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_common::EndpointKind;

    use super::*;

    fn pipe(ino: u64) -> EndpointKey {
        EndpointKey {
            ino,
            dev: 15,
            kind: EndpointKind::Pipe as u32,
        }
    }

    fn started(pid: u32, input: u64, output: u64) -> StartedProgram {
        StartedProgram {
            pid,
            input: Some(pipe(input)),
            output: Some(pipe(output)),
            info: None,
        }
    }

    fn pids<'a>(programs: impl Iterator<Item = &'a StartedProgram>) -> Vec<u32> {
        programs.map(|program| program.pid).collect()
    }

    #[test]
    fn a_chain_of_launchers_is_kept_in_the_order_of_their_starts() {
        let mut programs = Programs::default();
        for pid in [10, 11, 12] {
            programs.add(&started(pid, 1, 2));
        }
        programs.add(&started(10, 1, 2));
        assert_eq!(pids(programs.readers(pipe(1))), [11, 12, 10], "once each");
        assert_eq!(pids(programs.writers(pipe(2))), [11, 12, 10]);
        assert_eq!(pids(programs.writers(pipe(1))), [0; 0]);
        programs.forget(pipe(1));
        assert_eq!(pids(programs.readers(pipe(1))), [0; 0]);
        assert_eq!(pids(programs.writers(pipe(2))), [11, 12, 10]);
    }

    #[test]
    fn a_pipeline_has_several_outputs_for_one_input() {
        let mut programs = Programs::default();
        programs.add(&started(10, 1, 2));
        programs.add(&started(11, 1, 3));
        programs.add(&started(12, 3, 2));
        let outputs: Vec<_> = programs.outputs_of_readers(pipe(1)).collect();
        assert_eq!(outputs, [pipe(2), pipe(3)]);
        let inputs: Vec<_> = programs.inputs_of_writers(pipe(2)).collect();
        assert_eq!(inputs, [pipe(1), pipe(3)]);
    }

    #[test]
    fn a_loop_that_starts_programs_is_bounded_and_the_first_one_stays() {
        let mut programs = Programs::default();
        for pid in 0..1000 {
            programs.add(&started(pid, 1, 2));
        }
        let kept = pids(programs.readers(pipe(1)));
        assert_eq!(kept.len(), PER_STREAM);
        assert_eq!((kept[0], kept[1], kept[PER_STREAM - 1]), (0, 969, 999));
    }
}
