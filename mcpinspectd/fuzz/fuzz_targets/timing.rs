//! Whenever bytes move, records come, surveys end and processes leave: what is told of a session is what was in
//! its streams, in order, with a gap for everything else, and the engine counts it to the byte.
#![cfg_attr(fuzzing, no_main)]

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use mcpinspect_capture::capture::{BootClock, KernelRecord, Origin};
use mcpinspect_capture::discover::{
    Environment, Readers, Settings, SoughtSocket, Tracker, UnseenLibrary, WatchPolicy,
};
use mcpinspect_common::{
    End, EndpointCounters, EndpointKey, EndpointKind, EndpointReport, EndpointWatch, LeftAlone,
    SHIP_REGARDLESS, SNIFF_BUDGET_DEFAULT,
};
use mcpinspect_core::model::{
    BlindMechanism, BootTime, Direction, Executed, Input, InputSink, Pid, Segment, ServerId,
    ServerIdentity, SessionId,
};
use mcpinspect_engine::event::Body;
use mcpinspect_engine::{Engine, Limits, Output, OutputSink};
use mcpinspect_judge::detect::NoDetector;
use mcpinspect_judge::registry::Registry;
use mcpinspect_process::identity::Launched;
use mcpinspect_process::{Launches, ProcessInfo};
use mcpinspectd_fuzz::{arbitrary, fuzz_target};

const CLIENT: u32 = 100;
const SERVER: u32 = 200;
const USER: u32 = 1000;
const SETTINGS: Settings = Settings {
    sniff_budget: 1024,
    max_message: 1 << 16,
    compare_ends: true,
    max_buffered: 1 << 18,
    max_backlog: 1 << 18,
    max_sessions: 4,
    max_streams: 64,
    max_streams_per_user: 32,
    max_programs_per_user: 64 << 10,
    scratch: None,
    max_accounts: 8,
};
const LINES: [&str; 6] = [
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[{\"name\":\"t\",\"description\":\"d\",\"inputSchema\":{}}]}}\n",
    "\n",
    "not a message\n",
];

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// A whole line is written.
    Line {
        up: bool,
        line: u8,
    },
    /// Part of one is, or anything else.
    Text {
        up: bool,
        text: &'a [u8],
    },
    /// The same, and the record finds no room.
    Lost {
        up: bool,
        text: &'a [u8],
    },
    /// What waits is read, as far as there is room for it.
    Read {
        up: bool,
        room: u16,
        lost: bool,
    },
    /// The same, unseen.
    ReadUnseen {
        up: bool,
        room: u16,
        how: u8,
    },
    /// Time passes; then what was recorded is taken in.
    Wait {
        milliseconds: u16,
        survey: bool,
    },
    /// What was recorded is taken in late.
    Late {
        records: u8,
    },
    Exec {
        pid: u8,
    },
    Exit {
        server: bool,
    },
    Close {
        up: bool,
        reader: bool,
    },
}

enum Record {
    Data(EndpointKey, End, u64, Vec<u8>),
    EndOfStream(EndpointKey),
    Exec,
    Exit,
    Blind(EndpointKey, u64),
    BlindProcess,
}

/// One of the two pipes.
#[derive(Default)]
struct Pipe {
    /// All that was ever written to it.
    content: Vec<u8>,
    read: usize,
    counters: EndpointCounters,
    ship_limit: [u64; 2],
    /// By [`End`].
    closed: [bool; 2],
}

#[derive(Default)]
struct World {
    pipes: [Pipe; 2],
    ring: VecDeque<(Origin, Record)>,
    now: BootTime,
    begun: BootTime,
    surveyed: BootTime,
    /// Whether something was read by a call that the kernel's probes do not count: from then on, the reader's
    /// positions are not those of the bytes.
    uncounted: bool,
}

fn key(pipe: usize) -> EndpointKey {
    EndpointKey {
        ino: pipe as u64 + 1,
        dev: 15,
        kind: EndpointKind::Pipe as u32,
    }
}

fn index(key: EndpointKey) -> Option<usize> {
    usize::try_from(key.ino)
        .ok()?
        .checked_sub(1)
        .filter(|pipe| *pipe < 2)
}

impl World {
    /// Counts what crosses an end, and records what is to be shipped.
    fn cross(&mut self, pipe: usize, end: End, tgid: u32, bytes: &[u8], lost: bool) {
        let Pipe {
            counters,
            ship_limit,
            ..
        } = &mut self.pipes[pipe];
        let position = counters.position[end as usize];
        counters.position[end as usize] += bytes.len() as u64;
        counters.last_tgid[end as usize] = tgid;
        let wanted = (ship_limit[end as usize] & !SHIP_REGARDLESS).saturating_sub(position);
        let shipped = bytes
            .len()
            .min(usize::try_from(wanted).unwrap_or(usize::MAX));
        if lost {
            counters.lost[end as usize] += shipped as u64;
        } else if shipped > 0 {
            let data = Record::Data(key(pipe), end, position, bytes[..shipped].to_vec());
            self.record(tgid, data);
        }
    }

    fn record(&mut self, tgid: u32, record: Record) {
        // No two calls return at once.
        self.now += Duration::from_nanos(1);
        let time = self.now;
        self.ring.push_back((Origin { tgid, time }, record));
    }

    fn write(&mut self, up: bool, text: &[u8], lost: bool) {
        let (pipe, tgid) = if up { (0, CLIENT) } else { (1, SERVER) };
        if text.is_empty() || self.pipes[pipe].closed[End::Writer as usize] {
            return;
        }
        self.pipes[pipe].content.extend_from_slice(text);
        self.cross(pipe, End::Writer, tgid, text, lost);
    }

    /// Takes out what waits. Returns the pipe, the reader and the bytes.
    fn take(&mut self, up: bool, room: u16) -> (usize, u32, Vec<u8>) {
        let (pipe, tgid) = if up { (0, SERVER) } else { (1, CLIENT) };
        let Pipe {
            content,
            read,
            closed,
            ..
        } = &mut self.pipes[pipe];
        let room = usize::from(room).min(content.len() - *read);
        let room = if closed[End::Reader as usize] {
            0
        } else {
            room
        };
        let taken = content[*read..*read + room].to_vec();
        *read += room;
        (pipe, tgid, taken)
    }
}

struct Machine(Rc<RefCell<World>>);

impl Environment for Machine {
    fn watch(&mut self, key: EndpointKey, watch: EndpointWatch) {
        if let Some(pipe) = index(key) {
            self.0.borrow_mut().pipes[pipe].ship_limit = watch.ship_limit;
        }
    }
    fn counters(&self, key: EndpointKey) -> Option<EndpointCounters> {
        Some(self.0.borrow().pipes[index(key)?].counters)
    }
    fn forget(&mut self, key: EndpointKey) {
        if let Some(pipe) = index(key) {
            self.0.borrow_mut().pipes[pipe].ship_limit = [0; 2];
        }
    }
    fn forget_connection(&mut self, _key: EndpointKey, _user: u32) {}
    fn leave_connection(&mut self, _key: EndpointKey, _left: LeftAlone, _user: u32) {}
    fn survey(&mut self, now: BootTime, _sought: &[EndpointKey]) {
        let mut world = self.0.borrow_mut();
        if world.begun <= world.surveyed {
            world.begun = now;
        }
    }
    fn surveyed(&mut self) -> BootTime {
        self.0.borrow().surveyed
    }
    fn is_held(&self, endpoint: EndpointKey, end: End) -> bool {
        let world = self.0.borrow();
        index(endpoint).is_some_and(|pipe| !world.pipes[pipe].closed[end as usize])
    }
    fn readers(&self, endpoint: EndpointKey) -> Option<Readers> {
        let pipe = index(endpoint)?;
        let world = self.0.borrow();
        let Pipe { content, read, .. } = &world.pipes[pipe];
        Some(Readers {
            pids: vec![if pipe == 0 { SERVER } else { CLIENT }],
            unread: Some((content.len() - read) as u64),
        })
    }
    fn holds(&self, _pid: u32, _endpoint: EndpointKey, _end: End) -> bool {
        false
    }
    fn mark(&mut self, _pid: u32) {}
    fn library(&mut self, _pid: u32, _greets: bool) {}
    fn leave_library(&mut self, _pid: u32) {}
    fn want_library(&mut self, _pid: u32) {}
    fn unseen_tls(&mut self) -> Vec<UnseenLibrary> {
        Vec::new()
    }
    fn start_time(&self, _pid: u32) -> Option<u64> {
        None
    }
    fn greeted(&self, _greeting: u64, _end: End) -> Option<u32> {
        None
    }
    fn seek_owner(&mut self, _socket: SoughtSocket) {}
    fn owners(&mut self) -> Vec<(u64, Option<u32>)> {
        Vec::new()
    }
    fn user(&self, _pid: u32) -> Option<u32> {
        Some(USER)
    }
    fn started(&mut self, pid: u32, executed: &Executed, _launches: &Launches) -> Arc<ProcessInfo> {
        Arc::new(ProcessInfo::recorded(Pid(pid), executed))
    }
    fn describe(&mut self, _pid: u32, _launches: &Launches) -> Option<Arc<ProcessInfo>> {
        None
    }
    fn policy(&mut self, _process: &ProcessInfo) -> WatchPolicy {
        WatchPolicy::Sniff
    }
    fn identify(&mut self, _server: Launched<'_>) -> ServerIdentity {
        named("server")
    }
    fn identify_url(&mut self, url: &str, _client: Option<&ProcessInfo>) -> ServerIdentity {
        named(url)
    }
}

fn named(name: &str) -> ServerIdentity {
    ServerIdentity {
        server_id: ServerId(name.into()),
        fingerprint: String::new(),
        name_source: String::new(),
        publisher: None,
        former: None,
    }
}

/// How far a direction of a session was reported.
#[derive(Default)]
struct Progress {
    next: Option<u64>,
    bytes: u64,
}

/// Checks what is told, and has the engine take it in.
struct Checked {
    world: Rc<RefCell<World>>,
    engine: Engine,
    progress: HashMap<(SessionId, Direction), Progress>,
    open: HashMap<SessionId, ()>,
    ended: Ended,
}

#[derive(Default)]
struct Ended(Vec<(SessionId, u64)>);

impl OutputSink for Ended {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output
            && let (Body::SessionEnded(ended), Some(subject)) = (&event.body, &event.subject)
        {
            self.0.push((subject.session_id.clone(), ended.bytes));
        }
    }
}

impl Checked {
    fn follows(&mut self, session: &SessionId, direction: Direction, position: u64, length: u64) {
        let progress = self
            .progress
            .entry((session.clone(), direction))
            .or_default();
        assert!(
            progress.next.is_none_or(|next| next == position),
            "{direction:?}: {position} after {:?}",
            progress.next
        );
        progress.next = Some(position + length);
    }
}

impl InputSink for Checked {
    fn input(&mut self, input: Input<'_>) {
        match &input {
            Input::SessionStarted(start) => {
                assert!(self.open.insert(start.id.clone(), ()).is_none());
            }
            Input::BlindSpot { session, .. } if **session == SessionId::none() => {}
            other => assert!(self.open.contains_key(other.session()), "{other:?}"),
        }
        match &input {
            Input::Bytes {
                session,
                direction,
                position,
                bytes,
                ..
            } => {
                self.follows(session, *direction, *position, bytes.len() as u64);
                let progress = self
                    .progress
                    .entry((session.clone().into_owned(), *direction));
                progress.or_default().bytes += bytes.len() as u64;
                let world = self.world.borrow();
                let from = usize::try_from(*position).unwrap_or(usize::MAX);
                let was_there = |pipe: &Pipe| {
                    let there = pipe.content.get(from..from.saturating_add(bytes.len()));
                    let anywhere = || {
                        pipe.content
                            .windows(bytes.len())
                            .any(|part| part == &**bytes)
                    };
                    there == Some(&**bytes) || world.uncounted && anywhere()
                };
                assert!(world.pipes.iter().any(was_there), "{input:?}");
            }
            Input::Gap {
                session,
                direction,
                position,
                bytes_lost,
                ..
            } => self.follows(session, *direction, *position, *bytes_lost),
            Input::EndsDisagree { .. } => {
                let uncounted = self.world.borrow().uncounted;
                assert!(uncounted, "honest peers are accused: {input:?}");
            }
            Input::SessionEnded { session, .. } => {
                self.open.remove(&**session);
            }
            _ => {}
        }
        self.engine.handle(input, &mut self.ended);
    }
}

struct Run {
    world: Rc<RefCell<World>>,
    tracker: Tracker<Machine>,
    checked: Checked,
}

impl Run {
    fn new() -> Self {
        let world = Rc::new(RefCell::new(World::default()));
        for pipe in &mut world.borrow_mut().pipes {
            pipe.ship_limit = [SNIFF_BUDGET_DEFAULT; 2];
        }
        let limits = Limits {
            max_message: 4096,
            max_in_flight: 16,
            ..Limits::default()
        };
        let engine = Engine::new(limits, Registry::in_memory(), Box::new(NoDetector));
        Self {
            tracker: Tracker::new(
                Machine(Rc::clone(&world)),
                SETTINGS,
                BootClock::at_epoch(),
                BootTime::default(),
            ),
            checked: Checked {
                world: Rc::clone(&world),
                engine,
                progress: HashMap::new(),
                open: HashMap::new(),
                ended: Ended::default(),
            },
            world,
        }
    }

    /// Takes in so many records.
    fn take_in(&mut self, records: usize) {
        for _ in 0..records {
            let next = self.world.borrow_mut().ring.pop_front();
            let Some((origin, record)) = next else {
                return;
            };
            let report = |pipe, fd| EndpointReport {
                key: key(pipe),
                peer_ino: 0,
                fd,
                fresh: 1,
            };
            let record = match &record {
                Record::Data(key, end, position, bytes) => KernelRecord::Segment {
                    key: *key,
                    end: *end,
                    segment: Segment::new(*position, bytes),
                },
                Record::EndOfStream(key) => KernelRecord::EndOfStream { key: *key },
                Record::Exec => KernelRecord::Exec {
                    input: report(0, 0),
                    output: report(1, 1),
                    uid: USER,
                    executed: None,
                },
                Record::Exit => KernelRecord::Exit,
                Record::Blind(key, bytes) => KernelRecord::BlindSpot {
                    stream: Some((*key, End::Reader)),
                    bytes: *bytes,
                    mechanism: BlindMechanism::Splice,
                },
                Record::BlindProcess => KernelRecord::BlindSpot {
                    stream: None,
                    bytes: 0,
                    mechanism: BlindMechanism::IoUring,
                },
            };
            self.tracker.record(origin, record, &mut self.checked);
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        let mut world = self.world.borrow_mut();
        match *step {
            Step::Line { up, line } => {
                let line = LINES[usize::from(line) % LINES.len()];
                world.write(up, line.as_bytes(), false);
            }
            Step::Text { up, text } => world.write(up, text, false),
            Step::Lost { up, text } => world.write(up, text, true),
            Step::Read { up, room, lost } => {
                let (pipe, tgid, taken) = world.take(up, room);
                if !taken.is_empty() {
                    world.cross(pipe, End::Reader, tgid, &taken, lost);
                } else if room > 0 && world.pipes[pipe].closed[End::Writer as usize] {
                    world.record(tgid, Record::EndOfStream(key(pipe)));
                }
            }
            Step::ReadUnseen { up, room, how } => {
                let (pipe, tgid, taken) = world.take(up, room);
                match how % 3 {
                    _ if taken.is_empty() => {}
                    0 => {
                        let counters = &mut world.pipes[pipe].counters;
                        counters.position[End::Reader as usize] += taken.len() as u64;
                        counters.lost[End::Reader as usize] += taken.len() as u64;
                        world.record(tgid, Record::Blind(key(pipe), taken.len() as u64));
                    }
                    1 => {
                        world.uncounted = true;
                        world.record(tgid, Record::BlindProcess);
                    }
                    _ => world.uncounted = true,
                }
            }
            Step::Late { records } => {
                drop(world);
                self.take_in(usize::from(records));
            }
            Step::Wait {
                milliseconds,
                survey,
            } => {
                world.now += Duration::from_millis(milliseconds.into());
                if survey {
                    world.surveyed = world.begun;
                }
                drop(world);
                self.tick();
            }
            Step::Exec { pid } => world.record(SERVER + u32::from(pid % 3), Record::Exec),
            Step::Exit { server } => {
                world.record(if server { SERVER } else { CLIENT }, Record::Exit);
            }
            Step::Close { up, reader } => {
                let end = if reader { End::Reader } else { End::Writer };
                world.pipes[usize::from(!up)].closed[end as usize] = true;
            }
        }
    }

    fn tick(&mut self) {
        self.take_in(usize::MAX);
        let now = self.world.borrow().now;
        self.tracker.tick(now, &mut self.checked);
    }

    fn finish(mut self) {
        self.tick();
        let now = self.world.borrow().now + Duration::from_nanos(1);
        self.tracker.finish(now, &mut self.checked);
        assert!(self.checked.open.is_empty());
        for (session, bytes) in &self.checked.ended.0 {
            let told = |direction| {
                let told = self.checked.progress.get(&(session.clone(), direction));
                told.map_or(0, |told| told.bytes)
            };
            let all = told(Direction::ClientToServer) + told(Direction::ServerToClient);
            assert_eq!(*bytes, all);
        }
    }
}

fuzz_target!(|steps: Vec<Step<'_>>| {
    let mut run = Run::new();
    run.world.borrow_mut().record(SERVER, Record::Exec);
    for step in &steps {
        run.step(step);
    }
    run.finish();
});
