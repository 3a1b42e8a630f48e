//! A tracker on a machine that exists only in the test: records in, inputs out.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mcpinspect_common::{
    End, EndpointCounters, EndpointKey, EndpointReport, EndpointWatch, LeftAlone,
};
use mcpinspect_core::model::{
    BootTime, Direction, Executed, ExecutedBy, Input, InputSink, Pid, Segment, ServerId,
    ServerIdentity, SessionStart,
};
use mcpinspect_process::fds::{Access, Holder, Holders, StreamKind};
use mcpinspect_process::identity::Launched;
use mcpinspect_process::{Launches, ProcessInfo};

use super::SECOND;
use crate::capture::{BootClock, KernelRecord, Origin};
use crate::discover::{
    Environment, Readers, Settings, SoughtSocket, Tracker, UnseenLibrary, WatchPolicy,
};

/// What the fake kernel knows, shared with the test.
#[derive(Default)]
pub(super) struct World {
    pub(super) watches: HashMap<EndpointKey, EndpointWatch>,
    pub(super) counters: HashMap<EndpointKey, EndpointCounters>,
    pub(super) holders: Holders,
    pub(super) unread: u64,
    pub(super) surveyed: BootTime,
    pub(super) forgotten: HashSet<EndpointKey>,
    pub(super) policy: WatchPolicy,
    pub(super) left_alone: HashMap<EndpointKey, LeftAlone>,
    pub(super) unseen_tls: Vec<u32>,
    /// When the processes that have the numbers now were started.
    pub(super) started: u64,
    /// Sockets that were looked for, how many of them were answered, and who holds any of them.
    pub(super) sought: Vec<SoughtSocket>,
    /// Who was seen to send each greeting.
    pub(super) greeters: BTreeMap<u64, u32>,
    pub(super) answered: usize,
    /// Processes that have ended.
    pub(super) gone: HashSet<u32>,
    pub(super) owner: Option<u32>,
    /// Processes whose library was left (`false`) or wanted (`true`).
    pub(super) libraries: Vec<(u32, bool)>,
}

/// The user whose programs are started unless a test says otherwise.
pub(super) const USER: u32 = 1000;

/// A machine without a kernel.
pub(super) struct Fake(Rc<RefCell<World>>);

impl Environment for Fake {
    fn watch(&mut self, key: EndpointKey, watch: EndpointWatch) {
        self.0.borrow_mut().watches.insert(key, watch);
    }
    fn counters(&self, key: EndpointKey) -> Option<EndpointCounters> {
        self.0.borrow().counters.get(&key).copied()
    }
    fn forget(&mut self, key: EndpointKey) {
        let mut world = self.0.borrow_mut();
        world.watches.remove(&key);
        world.forgotten.insert(key);
    }
    fn forget_connection(&mut self, key: EndpointKey, _user: u32) {
        self.forget(key);
    }
    fn leave_connection(&mut self, key: EndpointKey, left: LeftAlone, _user: u32) {
        self.forget(key);
        self.0.borrow_mut().left_alone.insert(key, left);
    }
    fn survey(&mut self, now: BootTime, _sought: &[EndpointKey]) {
        self.0.borrow_mut().surveyed = now;
    }
    fn surveyed(&mut self) -> BootTime {
        self.0.borrow().surveyed
    }
    fn is_held(&self, endpoint: EndpointKey, end: End) -> bool {
        let world = self.0.borrow();
        let mut holders = world.holders.get(&endpoint.into()).into_iter().flatten();
        holders.any(|holder| match end {
            End::Reader => holder.access.reads(),
            End::Writer => holder.access.writes(),
        })
    }
    fn readers(&self, endpoint: EndpointKey) -> Option<Readers> {
        let world = self.0.borrow();
        let holders = world.holders.get(&endpoint.into()).into_iter().flatten();
        let readers = holders.filter(|holder| holder.access.reads());
        Some(Readers {
            pids: readers.map(|holder| holder.pid.0).collect(),
            unread: Some(world.unread),
        })
    }
    fn holds(&self, _pid: u32, _endpoint: EndpointKey, _end: End) -> bool {
        false
    }
    fn mark(&mut self, _pid: u32) {}
    fn library(&mut self, pid: u32, greets: bool) {
        if greets {
            self.0.borrow_mut().unseen_tls.push(pid);
        }
    }

    fn leave_library(&mut self, pid: u32) {
        self.0.borrow_mut().libraries.push((pid, false));
    }

    fn want_library(&mut self, pid: u32) {
        self.0.borrow_mut().libraries.push((pid, true));
    }

    fn unseen_tls(&mut self) -> Vec<UnseenLibrary> {
        let pids = std::mem::take(&mut self.0.borrow_mut().unseen_tls);
        let of = |pid| UnseenLibrary {
            pid,
            started: self.0.borrow().started,
            found: format!("no known TLS library in /bin/{pid}"),
            servers: Vec::new(),
        };
        pids.into_iter().map(of).collect()
    }

    fn greeted(&self, greeting: u64, end: End) -> Option<u32> {
        let greeter = self.0.borrow().greeters.get(&greeting).copied();
        greeter.filter(|_| end == End::Writer)
    }
    fn seek_owner(&mut self, socket: SoughtSocket) {
        self.0.borrow_mut().sought.push(socket);
    }

    fn owners(&mut self) -> Vec<(u64, Option<u32>)> {
        let mut world = self.0.borrow_mut();
        let new = world.sought.iter().skip(world.answered);
        let found = new.map(|one| (one.number, world.owner)).collect();
        world.answered = world.sought.len();
        found
    }

    fn start_time(&self, _pid: u32) -> Option<u64> {
        Some(self.0.borrow().started)
    }

    fn user(&self, pid: u32) -> Option<u32> {
        (!self.0.borrow().gone.contains(&pid)).then_some(USER)
    }
    fn started(&mut self, pid: u32, executed: &Executed, _launches: &Launches) -> Arc<ProcessInfo> {
        Arc::new(ProcessInfo::recorded(Pid(pid), executed))
    }
    fn describe(&mut self, pid: u32, launches: &Launches) -> Option<Arc<ProcessInfo>> {
        if let Some(executed) = launches.of(Pid(pid)) {
            return Some(Arc::new(ProcessInfo::recorded(Pid(pid), executed)));
        }
        // Only for its policy: any process will do.
        let is_asked = self.0.borrow().policy != WatchPolicy::Sniff;
        is_asked
            .then(|| ProcessInfo::read(mcpinspect_process::own()))
            .flatten()
            .map(Arc::new)
    }
    fn policy(&mut self, _process: &ProcessInfo) -> WatchPolicy {
        self.0.borrow().policy
    }
    fn identify(&mut self, server: Launched<'_>) -> ServerIdentity {
        let launched = server.origin.or(server.serving);
        let line = launched.map(|info| info.process().argv.join(" "));
        ServerIdentity {
            server_id: ServerId(line.unwrap_or_else(|| "fake".to_owned()).into()),
            fingerprint: String::new(),
            name_source: String::new(),
            publisher: None,
            former: None,
        }
    }
    fn identify_url(&mut self, url: &str, _client: Option<&ProcessInfo>) -> ServerIdentity {
        ServerIdentity {
            server_id: ServerId(url.into()),
            fingerprint: String::new(),
            name_source: "url".to_owned(),
            publisher: None,
            former: None,
        }
    }
}

/// What came out, one line per input except bytes.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) lines: Vec<String>,
    pub(super) starts: Vec<SessionStart>,
    pub(super) client: Option<u32>,
    pub(super) bytes: HashMap<Direction, Vec<u8>>,
    /// The lines of both directions, in the order in which their last bytes came.
    pub(super) told: Vec<(Direction, Vec<u8>)>,
    unfinished: HashMap<Direction, Vec<u8>>,
}

impl Collected {
    fn tell(&mut self, direction: Direction, bytes: &[u8]) {
        self.bytes.entry(direction).or_default().extend(bytes);
        let line = self.unfinished.entry(direction).or_default();
        for byte in bytes {
            line.push(*byte);
            if *byte == b'\n' {
                self.told.push((direction, std::mem::take(line)));
            }
        }
    }
}

impl InputSink for Collected {
    fn input(&mut self, input: Input<'_>) {
        match input {
            Input::SessionStarted(start) => {
                self.lines.push("started".into());
                self.starts.push(start);
            }
            Input::Bytes {
                direction, bytes, ..
            }
            | Input::Message {
                direction, bytes, ..
            } => self.tell(direction, &bytes),
            Input::Gap {
                direction,
                position,
                bytes_lost,
                ..
            } => self.lines.push(format!(
                "gap {} {position}+{bytes_lost}",
                direction.as_str()
            )),
            Input::EndsDisagree {
                direction,
                position,
                bytes,
                ..
            } => self
                .lines
                .push(format!("differs {} {position}+{bytes}", direction.as_str())),
            Input::BlindSpot {
                mechanism,
                uid: Some(uid),
                ..
            } => self.lines.push(format!("blind {mechanism} of {uid}")),
            Input::BlindSpot {
                mechanism,
                found: Some(found),
                ..
            } => self.lines.push(format!("blind {mechanism}: {found}")),
            Input::BlindSpot { mechanism, .. } => self.lines.push(format!("blind {mechanism}")),
            Input::EndOfStream { direction, .. } => {
                self.lines.push(format!("end {}", direction.as_str()));
            }
            Input::SessionEnded { reason, .. } => self.lines.push(format!("ended {reason}")),
            Input::PartiesChanged { client_pid, .. } => {
                self.client = client_pid.map(|pid| pid.0);
            }
            Input::Program { .. } => {}
        }
    }
}

/// A tracker on a machine without a kernel.
pub(super) struct Fixture {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) tracker: Tracker<Fake>,
    pub(super) collected: Collected,
    pub(super) now: BootTime,
}

pub(super) const SETTINGS: Settings = Settings {
    sniff_budget: 1024,
    max_message: 1 << 20,
    compare_ends: false,
    max_buffered: 1 << 20,
    max_backlog: 16 << 20,
    max_sessions: 4,
    max_streams: 300,
    max_streams_per_user: 200,
    max_programs_per_user: 1 << 20,
    scratch: None,
    max_accounts: 64,
};

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(SETTINGS)
    }

    pub(super) fn with(settings: Settings) -> Self {
        let world = Rc::new(RefCell::new(World::default()));
        let clock = BootClock::at_epoch();
        Self {
            tracker: Tracker::new(
                Fake(Rc::clone(&world)),
                settings,
                clock,
                BootTime::default(),
            ),
            world,
            collected: Collected::default(),
            now: BootTime::default() + SECOND,
        }
    }

    pub(super) fn record(&mut self, tgid: u32, record: KernelRecord<'_>) {
        let origin = Origin {
            tgid,
            time: self.now,
        };
        self.tracker.record(origin, record, &mut self.collected);
    }

    pub(super) fn exec(&mut self, pid: u32, input: EndpointKey, output: EndpointKey) {
        self.exec_as(USER, pid, input, output);
    }

    pub(super) fn exec_as(&mut self, uid: u32, pid: u32, input: EndpointKey, output: EndpointKey) {
        let report = |key, fd| EndpointReport {
            key,
            peer_ino: 0,
            fd,
            fresh: 1,
        };
        self.record(
            pid,
            KernelRecord::Exec {
                input: report(input, 0),
                output: report(output, 1),
                uid,
                executed: None,
            },
        );
    }

    /// A program as the kernel saw it start; its ancestors follow from the parent upwards.
    pub(super) fn exec_line(
        &mut self,
        line: &str,
        lineage: &[(u32, &str)],
        [input, output]: [EndpointKey; 2],
    ) {
        let report = |key, fd| EndpointReport {
            key,
            peer_ino: 0,
            fd,
            fresh: 1,
        };
        let by = |(pid, name): &(u32, &str)| ExecutedBy {
            pid: Pid(*pid),
            start_time: u64::MAX,
            uid: USER,
            name: (*name).to_owned(),
        };
        let Some(((pid, name), ancestors)) = lineage.split_first() else {
            return;
        };
        let executed = Executed {
            start_time: u64::MAX,
            uid: USER,
            name: (*name).to_owned(),
            executable: format!("/usr/bin/{name}"),
            executable_ino: 0,
            directory_ino: 0,
            arguments: Some(line.replace(' ', "\0").into_bytes().into()),
            ancestors: ancestors.iter().map(by).collect(),
        };
        self.record(
            *pid,
            KernelRecord::Exec {
                input: report(input, 0),
                output: report(output, 1),
                uid: USER,
                executed: Some(Arc::new(executed)),
            },
        );
    }

    /// Moves bytes through an end, which the kernel counts and ships.
    pub(super) fn moves(&mut self, tgid: u32, key: EndpointKey, end: End, bytes: &[u8]) {
        let position = self.count(tgid, key, end, bytes.len());
        self.record(
            tgid,
            KernelRecord::Segment {
                key,
                end,
                segment: Segment::new(position, bytes),
            },
        );
    }

    /// Moves bytes, which the kernel counts but does not ship.
    pub(super) fn count(&mut self, tgid: u32, key: EndpointKey, end: End, bytes: usize) -> u64 {
        let mut world = self.world.borrow_mut();
        let counters = world.counters.entry(key).or_default();
        counters.last_tgid[end as usize] = tgid;
        let position = counters.position[end as usize];
        counters.position[end as usize] += bytes as u64;
        position
    }

    pub(super) fn passes(&mut self, key: EndpointKey, writer: u32, reader: u32, bytes: &[u8]) {
        self.moves(writer, key, End::Writer, bytes);
        self.moves(reader, key, End::Reader, bytes);
    }

    pub(super) fn hold(&mut self, key: EndpointKey, pid: u32, access: Access) {
        let holder = Holder {
            pid: Pid(pid),
            fd: 0,
            access,
            kind: StreamKind::Pipe,
        };
        self.world
            .borrow_mut()
            .holders
            .entry(key.into())
            .or_default()
            .push(holder);
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now += time;
        self.tracker.tick(self.now, &mut self.collected);
    }

    pub(super) fn sent(&self, direction: Direction) -> &[u8] {
        self.collected
            .bytes
            .get(&direction)
            .map_or(&[], Vec::as_slice)
    }

    pub(super) fn limit(&self, key: EndpointKey) -> [u64; 2] {
        self.world
            .borrow()
            .watches
            .get(&key)
            .map_or([7; 2], |watch| watch.ship_limit)
    }
}
