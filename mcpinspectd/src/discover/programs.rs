//! Which program was started between which two streams.
//!
//! A launcher such as `npx` starts a shell, which starts the server: three programs between the
//! same two streams. A shell may also put the server into a pipeline, so that one input has
//! several outputs. Both are kept, in the order of their start.

use std::collections::HashMap;
use std::sync::Arc;

use mcpinspect_common::EndpointKey;

use super::ending::fit;
use crate::process::ProcessInfo;

/// A program between two streams. A stream's name is the endpoint that it is read at.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its process.
    pub pid: u32,
    /// What it reads as standard input.
    pub input: Option<EndpointKey>,
    /// What it writes as standard output.
    pub output: Option<EndpointKey>,
    /// What it was when it started: it may be gone by the time that somebody asks.
    pub info: Option<Arc<ProcessInfo>>,
}

/// The programs of all known streams.
#[derive(Debug, Default)]
pub struct Programs {
    /// In the order of their start; a hole where one was forgotten.
    by_stream: HashMap<EndpointKey, Vec<Program>>,
}

/// Programs remembered per stream: more than any chain of launchers, and a bound for a shell loop
/// that starts thousands of programs on one pipe.
const PER_STREAM: usize = 32;

impl Programs {
    /// Remembers a program.
    pub fn add(&mut self, program: &Program) {
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

    /// Programs that read `stream`, in the order of their start.
    pub fn readers(&self, stream: EndpointKey) -> impl DoubleEndedIterator<Item = &Program> {
        self.of(stream)
            .filter(move |program| program.input == Some(stream))
    }

    /// Programs that write `stream`, in the order of their start.
    pub fn writers(&self, stream: EndpointKey) -> impl DoubleEndedIterator<Item = &Program> {
        self.of(stream)
            .filter(move |program| program.output == Some(stream))
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

    /// Gives back room that is not needed any more.
    pub fn fit(&mut self) {
        fit(&mut self.by_stream);
    }

    fn of(&self, stream: EndpointKey) -> impl DoubleEndedIterator<Item = &Program> {
        self.by_stream
            .get(&stream)
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
    }
}
