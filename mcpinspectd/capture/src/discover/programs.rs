//! Which programs were started between which two streams.
//!
//! A launcher such as `npx` starts a shell, which starts the server: three programs between the
//! same two streams. A shell may also put the server into a pipeline, so that one input has several
//! outputs. All of them are kept, in the order in which they started.
//!
//! What a server runs is decided by what it was launched as, not by what it executes later: it may
//! re-execute itself with an argument made up on the spot, in its own process or in a child. So each
//! program has an *origin*: the first program on the stream in its own process or its ancestors,
//! not counting launchers.

use std::collections::HashMap;
use std::sync::Arc;

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::model::Process;
use mcpinspect_process::identity::is_launcher;
use mcpinspect_process::{ProcessInfo, ProcessSnapshot};

use super::capacity;
use super::remembered::{RememberedProgram, RememberedStream};

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
    /// What it was when it started: it may be gone by the time this is needed.
    pub info: Option<Arc<ProcessInfo>>,
}

/// A program in the list of a stream.
#[derive(Debug)]
struct StreamProgram {
    program: StartedProgram,
    /// See [`Programs::origin`].
    origin: Option<Arc<ProcessInfo>>,
}

impl StreamProgram {
    /// Whether it is at the same end of `stream` as another program.
    fn is_beside(&self, other: &StartedProgram, stream: EndpointKey) -> bool {
        let reads = |program: &StartedProgram| program.input == Some(stream);
        let writes = |program: &StartedProgram| program.output == Some(stream);
        reads(&self.program) && reads(other) || writes(&self.program) && writes(other)
    }

    fn is(&self, process: &ProcessSnapshot) -> bool {
        self.program.info.as_ref().is_some_and(|info| {
            let own = info.process();
            (own.pid, own.start_time) == (process.pid, process.start_time)
        })
    }

    /// Whether its origin is another process, whose entry already says as much.
    fn is_derived(&self) -> bool {
        let origin = self.origin.as_ref();
        origin.is_some_and(|origin| !self.is(origin.process()))
    }
}

/// The programs of all known streams.
///
/// A program is listed at both of its streams, once at each, in the order in which the programs
/// started. At most [`PER_STREAM`] are listed per stream. The first one always is, and programs that
/// others descend from are dropped last.
#[derive(Debug, Default)]
pub struct Programs {
    by_stream: HashMap<EndpointKey, Vec<StreamProgram>>,
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
            let origin = origin(known, program, stream);
            known.retain(|StreamProgram { program: known, .. }| {
                (known.pid, known.input, known.output)
                    != (program.pid, program.input, program.output)
            });
            if known.len() == PER_STREAM {
                // The first is the outermost launcher and worth keeping.
                let spare = known.iter().skip(1).position(StreamProgram::is_derived);
                known.remove(spare.map_or(1, |at| at + 1));
            }
            // Most streams have one.
            known.reserve_exact(1);
            known.push(StreamProgram {
                program: program.clone(),
                origin,
            });
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

    /// What the server that reads or writes `stream` was launched as: the first program there, not counting
    /// launchers, in its own process or its ancestors. If none of them is known, the
    /// program that started last counts.
    pub fn origin(
        &self,
        stream: EndpointKey,
        end: End,
        server: Option<&ProcessInfo>,
    ) -> Option<Arc<ProcessInfo>> {
        let listed = self.by_stream.get(&stream)?;
        let at_end = |listed: &&StreamProgram| match end {
            End::Reader => listed.program.input == Some(stream),
            End::Writer => listed.program.output == Some(stream),
        };
        let beside: Vec<&StreamProgram> = listed.iter().filter(at_end).collect();
        let related = server.and_then(|server| related(&beside, server));
        related.or(beside.last().copied())?.origin.clone()
    }

    /// The process that started the first program on `stream`.
    pub fn launched_by(&self, stream: EndpointKey) -> Option<u32> {
        let first = self.of(stream).next()?;
        let parent = first.info.as_ref()?.ancestors().first()?;
        Some(parent.pid.0)
    }

    /// The processes of the programs that were started between both streams of a session, in the order in
    /// which they started. While one of the streams is unknown, the other decides.
    pub fn between(
        &self,
        to_server: Option<EndpointKey>,
        to_client: Option<EndpointKey>,
    ) -> Vec<Process> {
        let listed_at = to_server.or(to_client);
        let mut between: Vec<Process> = Vec::new();
        for program in listed_at.into_iter().flat_map(|key| self.of(key)) {
            let is_between = to_server.is_none_or(|key| program.input == Some(key))
                && to_client.is_none_or(|key| program.output == Some(key));
            if let Some(info) = program.info.as_ref().filter(|_| is_between) {
                let process = Process {
                    pid: info.process().pid,
                    start_time: info.process().start_time,
                };
                if !between.contains(&process) {
                    between.push(process);
                }
            }
        }
        between
    }

    /// What to remember about a stream.
    pub fn remember(&self, stream: EndpointKey) -> Option<RememberedStream> {
        let remembered = |listed: &StreamProgram| RememberedProgram {
            pid: listed.program.pid,
            input: listed.program.input.map(Into::into),
            output: listed.program.output.map(Into::into),
            info: listed.program.info.clone(),
            origin: listed.origin.clone(),
        };
        let listed = self.by_stream.get(&stream)?;
        Some(RememberedStream {
            endpoint: stream.into(),
            programs: listed.iter().map(remembered).collect(),
        })
    }

    /// Lists the programs of a remembered stream, unless programs are already known there.
    pub fn restore(&mut self, stream: &RememberedStream) {
        let listed = |program: &RememberedProgram| StreamProgram {
            program: StartedProgram {
                pid: program.pid,
                input: program.input.map(EndpointKey::from),
                output: program.output.map(EndpointKey::from),
                info: program.info.clone(),
            },
            origin: program.origin.clone(),
        };
        let programs = stream.programs.iter().take(PER_STREAM);
        self.by_stream
            .entry(stream.endpoint.into())
            .or_insert_with(|| programs.map(listed).collect());
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
            .map(|listed| &listed.program)
    }
}

/// What a program that starts now was launched as, given those that started before it.
fn origin(
    known: &[StreamProgram],
    program: &StartedProgram,
    stream: EndpointKey,
) -> Option<Arc<ProcessInfo>> {
    let info = program.info.as_ref()?;
    let beside: Vec<&StreamProgram> = known
        .iter()
        .filter(|known| known.is_beside(program, stream))
        .collect();
    let inherited = match related(&beside, info) {
        Some(related) => related.origin.clone(),
        None => left_behind(&beside, info),
    };
    inherited.or_else(|| (!is_launcher(info.process())).then(|| Arc::clone(info)))
}

/// The program of a process itself, or else that of its nearest ancestor.
fn related<'a>(known: &[&'a StreamProgram], info: &ProcessInfo) -> Option<&'a StreamProgram> {
    let above = info.ancestors().iter().map(|process| &**process);
    let mut line = std::iter::once(info.process()).chain(above);
    line.find_map(|process| known.iter().rev().find(|known| known.is(process)).copied())
}

/// The origin of a process that descends from none on its stream. What started the first of them may
/// start another. A process with a different parent has lost its own, which exited on purpose.
fn left_behind(known: &[&StreamProgram], info: &ProcessInfo) -> Option<Arc<ProcessInfo>> {
    let parent = |info: &ProcessInfo| {
        let parent = info.ancestors().first();
        parent.map(|parent| (parent.pid, parent.start_time))
    };
    let first = known.iter().find_map(|known| known.program.info.as_ref())?;
    if parent(first) == parent(info) {
        return None;
    }
    known.iter().find_map(|known| known.origin.clone())
}

#[cfg(test)]
mod tests {
    use mcpinspect_common::EndpointKind;
    use mcpinspect_core::model::{Executed, ExecutedBy, Pid};

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
    fn what_was_started_between_both_streams_is_known() {
        let mut programs = Programs::default();
        let known = |pid: u32, input: u64, output: u64| StartedProgram {
            input: Some(pipe(input)),
            output: Some(pipe(output)),
            ..runs("server", pid, &[])
        };
        programs.add(&known(9, 2, 1));
        programs.add(&known(10, 1, 2));
        programs.add(&known(11, 1, 3));
        programs.add(&known(12, 3, 2));
        programs.add(&known(13, 1, 2));
        let between = |to_server, to_client| {
            let between = programs.between(to_server, to_client);
            between.iter().map(|one| one.pid.0).collect::<Vec<_>>()
        };
        assert_eq!(between(Some(pipe(1)), Some(pipe(2))), [10, 13]);
        assert_eq!(between(Some(pipe(1)), None), [10, 11, 13]);
        assert_eq!(between(None, Some(pipe(2))), [10, 12, 13]);
        assert_eq!(between(None, None), [0_u32; 0]);
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

    /// A program of process `pid`, whose ancestors are these, from the parent upwards.
    fn runs(line: &str, pid: u32, ancestors: &[u32]) -> StartedProgram {
        let by = |pid: &u32| ExecutedBy {
            pid: Pid(*pid),
            start_time: u64::MAX - 1,
            uid: 1000,
            name: "x".to_owned(),
        };
        let executed = Executed {
            start_time: u64::MAX - 1,
            uid: 1000,
            name: "x".to_owned(),
            executable: format!("/usr/bin/{}", line.split(' ').next().unwrap_or_default()),
            executable_ino: 0,
            directory_ino: 0,
            arguments: Some(line.replace(' ', "\0").into_bytes().into()),
            ancestors: ancestors.iter().map(by).collect(),
        };
        let info = ProcessInfo::recorded(Pid(pid), &executed);
        StartedProgram {
            info: Some(Arc::new(info)),
            ..started(pid, 1, 2)
        }
    }

    /// What the server of the last of these programs was launched as, at both of its streams.
    fn launched(started: &[StartedProgram]) -> Option<String> {
        let mut programs = Programs::default();
        for program in started {
            programs.add(program);
        }
        let server = started.last().and_then(|program| program.info.as_deref());
        let line = |stream, end| {
            let origin = programs.origin(stream, end, server)?;
            Some(origin.process().argv.join(" "))
        };
        let read = line(pipe(1), End::Reader);
        assert_eq!(read, line(pipe(2), End::Writer));
        read
    }

    #[test]
    fn a_server_is_what_it_was_launched_as() {
        let npx = || runs("node /usr/bin/npx -y @a/x", 10, &[9, 1]);
        let shell = || runs("sh -c x", 11, &[10, 9, 1]);
        let server = || runs("node x.js", 12, &[11, 10, 9, 1]);
        for (programs, expected) in [
            (vec![], None),
            (vec![npx()], None),
            (vec![npx(), shell(), server()], Some("node x.js")),
            // In its own process.
            (
                vec![server(), runs("node x.js 4711", 12, &[11, 10, 9, 1])],
                Some("node x.js"),
            ),
            // In a child, under a launcher's name.
            (
                vec![server(), runs("npx @b/y", 13, &[12, 11, 10, 9, 1])],
                Some("node x.js"),
            ),
            // In a grandchild whose parent has exited.
            (
                vec![npx(), server(), runs("node x.js 4711", 14, &[1])],
                Some("node x.js"),
            ),
            // The launcher's own child, after a helper.
            (
                vec![
                    runs("sh -c x", 11, &[9, 1]),
                    runs("mkdir x", 12, &[11, 9, 1]),
                    runs("node x.js", 13, &[11, 9, 1]),
                ],
                Some("node x.js"),
            ),
            // Two programs of one parent on the same streams.
            (
                vec![runs("a", 11, &[9, 1]), runs("b", 12, &[9, 1])],
                Some("b"),
            ),
            // A launcher that becomes the server.
            (
                vec![
                    runs("env A=b node x.js", 11, &[9, 1]),
                    runs("node x.js", 11, &[9, 1]),
                ],
                Some("node x.js"),
            ),
        ] {
            let lines: Vec<String> = programs
                .iter()
                .filter_map(|program| Some(program.info.as_ref()?.process().argv.join(" ")))
                .collect();
            assert_eq!(launched(&programs).as_deref(), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_server_without_a_process_is_what_started_last() {
        let mut programs = Programs::default();
        programs.add(&runs("node x.js", 12, &[9, 1]));
        assert_eq!(programs.launched_by(pipe(1)), Some(9));
        for server in [None, runs("fork", 99, &[1]).info] {
            let origin = programs.origin(pipe(1), End::Reader, server.as_deref());
            assert_eq!(origin.map(|origin| origin.process().pid), Some(Pid(12)));
            assert!(programs.origin(pipe(1), End::Writer, None).is_none());
        }
    }

    #[test]
    fn children_do_not_displace_the_program_that_they_descend_from() {
        let mut programs = Programs::default();
        programs.add(&runs("sh -c x", 11, &[9, 1]));
        programs.add(&runs("server", 12, &[11, 9, 1]));
        for pid in 100..1000 {
            programs.add(&runs("child", pid, &[12, 11, 9, 1]));
        }
        let again = runs("server 4711", 12, &[11, 9, 1]);
        programs.add(&again);
        let origin = programs.origin(pipe(1), End::Reader, again.info.as_deref());
        let argv = origin.map(|origin| origin.process().argv.clone());
        assert_eq!(argv, Some(vec!["server".to_owned()]));
    }

    #[test]
    fn the_other_end_of_a_stream_is_another_program() {
        let mut programs = Programs::default();
        let writer = StartedProgram {
            input: Some(pipe(7)),
            output: Some(pipe(1)),
            ..runs("filter", 11, &[8, 1])
        };
        programs.add(&writer);
        programs.add(&runs("server", 12, &[9, 1]));
        let origin = programs.origin(pipe(1), End::Reader, None);
        assert_eq!(origin.map(|origin| origin.process().pid), Some(Pid(12)));
    }
}
