//! Takes in the probes' records and routes them to the tables that they concern.

use std::sync::Arc;
use std::time::Duration;

use mcpinspect_common::{End, EndpointKey, EndpointKind, EndpointReport, TlsNews};
use mcpinspect_core::model::{
    Account, BlindMechanism, BootTime, Content, Direction, EndReason, Executed, InputSink, Pid,
    StreamLedger,
};
use mcpinspect_core::wire::client_hello::server_name;

use super::captured::Captured;
use super::connections::{Connections, Context};
use super::environment::{Environment, WatchPolicy};
use super::output::Output;
use super::processes::Processes;
use super::programs::StartedProgram;
use super::quotas::Quotas;
use super::recent_processes::RecentProcesses;
use super::remembered::RememberedStream;
use super::session::TrackedSession;
use super::sessions::TrackedSessions;
use super::settings::Settings;
use super::shares::{NOBODY_KNOWN, Uid};
use super::step::Step;
use super::traffic::Traffic;
use super::unrouted::UnroutedData;
use super::unseen_tls::UnseenTls;
use super::{
    admission, delivery, eviction, exclusion, following, lifecycle, reconsidering, timeouts, unseen,
};
use crate::capture::{BootClock, KernelRecord, Origin};

/// Time between two checks of everything known against the process table.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3);
/// The same on a machine where nothing has happened since the check before. An end that the probes see
/// ends the session anyway; this finds what they do not.
const IDLE_SWEEP_INTERVAL: Duration = Duration::from_secs(12);

/// Finds the MCP sessions of a machine in the probes' records.
pub struct Tracker<E> {
    environment: E,
    settings: Settings,
    clock: BootClock,
    traffic: Traffic,
    processes: Processes,
    quotas: Quotas,
    /// What was written to sockets whose peer is not known yet.
    unrouted: UnroutedData,
    unseen_tls: UnseenTls,
    /// Processes whose TLS library is left alone because they call it too often.
    busy_tls: RecentProcesses<()>,
    connections: Connections,
    next_sweep: BootTime,
    /// Whether a record arrived since the last sweep.
    active: bool,
    /// When the last survey taken into account began.
    surveyed: BootTime,
}

impl<E: Environment> Tracker<E> {
    /// An empty tracker.
    pub fn new(environment: E, settings: Settings, clock: BootClock, now: BootTime) -> Self {
        let run = format!("{:x}", clock.at(now).0 / 1_000_000);
        Self {
            environment,
            clock,
            connections: Connections::new(run.clone(), &settings),
            traffic: Traffic::new(run, &settings),
            processes: Processes::new(&settings),
            quotas: Quotas::default(),
            unrouted: UnroutedData::default(),
            unseen_tls: UnseenTls::default(),
            busy_tls: RecentProcesses::default(),
            next_sweep: now + SWEEP_INTERVAL,
            active: false,
            surveyed: BootTime::default(),
            settings,
        }
    }

    /// The machine that it works on.
    pub fn environment(&mut self) -> &mut E {
        &mut self.environment
    }

    /// Open sessions.
    pub fn sessions(&self) -> usize {
        self.traffic.sessions.len() + self.connections.sessions()
    }

    /// Sessions that were not followed because too many were open.
    pub fn refused(&self) -> u64 {
        self.traffic.sessions.refused() + self.connections.refused()
    }

    /// How many times bytes moved past the probes at one end of a stream and were seen at the other.
    pub fn covered_blind_spots(&self) -> u64 {
        self.processes.blind.covered()
    }

    /// Bytes kept of undecided streams.
    pub fn buffered(&self) -> usize {
        self.traffic.streams.buffered()
    }

    /// The memory taken by what waits in sessions, in bytes.
    pub fn backlog(&self) -> usize {
        self.traffic.sessions.backlog().bytes()
    }

    /// Takes in a record.
    pub fn record(&mut self, origin: Origin, record: KernelRecord<'_>, sink: &mut dyn InputSink) {
        let bytes = match &record {
            KernelRecord::Segment { segment, .. } => segment.as_bytes(),
            _ => None,
        };
        if bytes.is_none() {
            tracing::trace!(?origin, ?record);
        }
        if !std::mem::replace(&mut self.active, true) {
            let soon = origin.time + SWEEP_INTERVAL;
            self.next_sweep = self.next_sweep.min(soon);
        }
        match record {
            record if is_of_connection(&record) => self.connection(origin, record, sink),
            KernelRecord::Segment { key, end, segment } => {
                let captured = Captured {
                    key,
                    end,
                    segment,
                    origin,
                };
                self.route(captured, sink);
            }
            KernelRecord::EndOfStream { key } => {
                delivery::end_of_stream(&mut self.step(sink), key, origin);
            }
            KernelRecord::Exec {
                input,
                output,
                uid,
                executed,
            } => self.exec(origin, uid, [input, output], executed, sink),
            KernelRecord::Exit => self.exit(origin),
            KernelRecord::Library { news } => self.library(origin, news),
            KernelRecord::ClientHello { message } => {
                if let Some(host) = server_name(message) {
                    self.unseen_tls.connects(origin.tgid, host, origin.time);
                }
            }
            KernelRecord::Registered(report) => {
                self.traffic.streams.join(report);
                let user = self.environment.user(origin.tgid).unwrap_or(NOBODY_KNOWN);
                for key in [
                    Some(report.key),
                    self.traffic.streams.peers().of(report.key),
                ]
                .into_iter()
                .flatten()
                {
                    self.traffic.streams.ensure_of(key, user);
                    self.step(sink).ship(key);
                }
                eviction::make_room(&mut self.step(sink), user, origin);
                self.route_waiting(sink);
            }
            KernelRecord::BlindSpot {
                mechanism: budget @ BlindMechanism::ConnectionBudget,
                ..
            } => {
                let user = self.environment.user(origin.tgid).unwrap_or(NOBODY_KNOWN);
                self.report_user(budget, user, origin, sink);
            }
            KernelRecord::BlindSpot {
                mechanism: unpaired @ BlindMechanism::TlsUnpaired,
                ..
            } => {
                // Others may encrypt what they like.
                if self.is_party(origin.tgid) {
                    self.step(sink)
                        .output
                        .blind_spot(None, unpaired, origin, None, None);
                }
            }
            // A record of a connection.
            KernelRecord::Connected { .. } => {}
            KernelRecord::BlindSpot {
                stream,
                bytes: _,
                mechanism,
            } => unseen::moved(&mut self.step(sink), stream, mechanism, origin),
        }
    }

    /// Takes in news about a process and its TLS library.
    fn library(&mut self, origin: Origin, news: TlsNews) {
        let pid = origin.tgid;
        match news {
            TlsNews::MayBeThere => self.environment.library(pid, false),
            TlsNews::Greets => {
                self.unseen_tls.begins(pid);
                self.environment.library(pid, true);
            }
            TlsNews::Busy if self.is_party(pid) => {}
            TlsNews::Busy => {
                self.environment.leave_library(pid);
                self.busy_tls.add(pid, (), origin.time);
            }
        }
    }

    /// Reports processes that speak MCP, over TLS from an unsupported library.
    fn tell_unseen_tls(&mut self, now: BootTime, sink: &mut dyn InputSink) {
        for unseen in self.environment.unseen_tls() {
            self.unseen_tls.add(unseen, now);
        }
        let (sessions, connections) = (&self.traffic.sessions, &self.connections);
        let due = self
            .unseen_tls
            .take_due(|pid| is_party(sessions, connections, pid));
        for (unseen, host) in due {
            let started = self.environment.start_time(unseen.pid);
            // Another process may have its number by now.
            if started.is_some_and(|started| started != unseen.started) {
                continue;
            }
            let origin = Origin {
                tgid: unseen.pid,
                time: now,
            };
            let found = match host {
                Some(host) => format!("{}, which connects to {host}", unseen.found),
                None => unseen.found,
            };
            let library = BlindMechanism::TlsLibrary;
            self.step(sink)
                .output
                .blind_spot(None, library, origin, None, Some(found));
        }
        for pid in self.busy_tls.pids() {
            if self.is_party(pid) {
                self.busy_tls.remove(pid);
                self.environment.want_library(pid);
            }
        }
    }

    /// Whether a process is known to speak MCP.
    fn is_party(&self, pid: u32) -> bool {
        is_party(&self.traffic.sessions, &self.connections, pid)
    }

    /// Takes in a record about a TCP connection.
    fn connection(&mut self, origin: Origin, record: KernelRecord<'_>, sink: &mut dyn InputSink) {
        let (connections, mut context) = self.connections(sink);
        let context = &mut context;
        match record {
            KernelRecord::Connected {
                key,
                end,
                report,
                uid,
            } => connections.connected(key, end, report, uid, origin, context),
            KernelRecord::Segment { key, end, segment } => {
                let captured = Captured {
                    key,
                    end,
                    segment,
                    origin,
                };
                connections.segment(&captured, context);
            }
            KernelRecord::EndOfStream { key } => connections.end_of_stream(key, origin, context),
            KernelRecord::BlindSpot {
                stream: Some((key, end)),
                mechanism,
                ..
            } => connections.blind(key, end, mechanism, origin, context),
            KernelRecord::BlindSpot { stream: None, .. }
            | KernelRecord::Exec { .. }
            | KernelRecord::Exit
            | KernelRecord::Library { .. }
            | KernelRecord::ClientHello { .. }
            | KernelRecord::Registered(_) => {}
        }
        if let Some((user, tgid)) = connections.exhausted() {
            let origin = Origin { tgid, ..origin };
            let budget = BlindMechanism::ConnectionBudget;
            self.report_user(budget, user, origin, sink);
        }
    }

    /// The connections, and what they work with.
    fn connections<'a>(
        &'a mut self,
        sink: &'a mut dyn InputSink,
    ) -> (&'a mut Connections, Context<'a>) {
        let context = Context {
            machine: &mut self.environment,
            launches: &self.processes.launches,
            output: Output {
                clock: self.clock,
                sink,
            },
        };
        (&mut self.connections, context)
    }

    /// Takes in a program that was running before the daemon, with its two streams.
    pub fn add_running(
        &mut self,
        pid: u32,
        input: Option<EndpointKey>,
        output: Option<EndpointKey>,
    ) {
        let output =
            output.and_then(|key| self.traffic.streams.peers().stream_at(key, End::Writer));
        let info = self.processes.describe(&mut self.environment, pid);
        let info = info.and_then(|info| {
            let user = info.process().uid;
            let info = self.processes.keep(user, info);
            self.processes.interner.over(user).is_none().then_some(info)
        });
        self.processes.programs.add(&StartedProgram {
            pid,
            input,
            output,
            info,
        });
    }

    /// Restores what was remembered about running sessions. Call this before
    /// [`add_running`](Self::add_running): their programs were started earlier.
    pub fn restore(&mut self, streams: &[RememberedStream]) {
        for stream in streams {
            self.processes.programs.restore(stream);
        }
    }

    /// What to remember about the open sessions.
    pub fn remembered(&self) -> Vec<RememberedStream> {
        let sessions = self.traffic.sessions.iter().map(|(_, session)| session);
        sessions
            .flat_map(TrackedSession::streams)
            .filter_map(|(key, _)| self.processes.programs.remember(key))
            .collect()
    }

    /// Advances time. Call this about ten times a second, when all records so far are taken in.
    pub fn tick(&mut self, now: BootTime, sink: &mut dyn InputSink) {
        self.tell_unseen_tls(now, sink);
        let (next_sweep, last_survey) = (self.next_sweep, self.surveyed);
        let has_connections = !self.connections.is_empty();
        let step = &mut self.step(sink);
        delivery::announce_waiting(step, now);
        timeouts::settle(step.traffic, &mut step.output, now);
        let sought = timeouts::check_counts(step, now);
        let sessions = &step.traffic.sessions;
        for index in sessions.indices(TrackedSession::is_incomplete) {
            following::complete(step, index, now);
        }
        admission::admit(step, now);
        // Streams that were seen before their programs.
        eviction::make_room(step, NOBODY_KNOWN, Origin { tgid: 0, time: now });
        reconsidering::renew_samples(step, now);
        let closing = |step: &Step<'_>, at| {
            step.traffic
                .sessions
                .indices(|session| session.has_been_closing_for(lifecycle::CLOSING_TIMEOUT, at))
        };
        let sweep = now >= next_sweep && (has_connections || !step.traffic.streams.is_empty());
        if sweep || !sought.is_empty() || !closing(step, now).is_empty() {
            step.machine.survey(now, &sought);
        }
        let surveyed = step.machine.surveyed();
        let is_sweep = surveyed > last_survey && surveyed >= next_sweep;
        let (connections, mut context) = self.connections(sink);
        connections.tick(&mut context, now, is_sweep);
        if surveyed <= last_survey {
            return;
        }
        let step = &mut self.step(sink);
        for index in closing(step, surveyed) {
            lifecycle::close_if_over(step, index, now);
        }
        if surveyed >= next_sweep {
            lifecycle::sweep(step, now);
            let interval = if std::mem::take(&mut self.active) {
                SWEEP_INTERVAL
            } else {
                IDLE_SWEEP_INTERVAL
            };
            self.next_sweep = now + interval;
        }
        self.surveyed = surveyed;
    }

    /// Ends all sessions: the daemon stops. All records must have been taken in.
    pub fn finish(&mut self, now: BootTime, sink: &mut dyn InputSink) {
        lifecycle::end_all(&mut self.step(sink), now);
        let (connections, mut context) = self.connections(sink);
        connections.finish(&mut context, now);
    }

    /// The accounts of the most recently ended streams, oldest first.
    pub fn ledger(&mut self) -> &[StreamLedger] {
        self.traffic.accounts.latest()
    }

    /// What the streams of all sessions carried since the start, including open ones.
    pub fn account(&self) -> Account {
        self.traffic.account(&self.environment)
    }

    /// Reports that a user has exhausted their share.
    fn report_user(
        &mut self,
        budget: BlindMechanism,
        user: Uid,
        origin: Origin,
        sink: &mut dyn InputSink,
    ) {
        let step = &mut self.step(sink);
        step.quotas.report(&mut step.output, budget, user, origin);
    }

    fn step<'a>(&'a mut self, sink: &'a mut dyn InputSink) -> Step<'a> {
        Step {
            machine: &mut self.environment,
            settings: &self.settings,
            traffic: &mut self.traffic,
            processes: &mut self.processes,
            quotas: &mut self.quotas,
            output: Output {
                clock: self.clock,
                sink,
            },
        }
    }

    /// Takes in a segment at an endpoint, which may not be known to belong to a stream yet.
    fn route(&mut self, captured: Captured<'_>, sink: &mut dyn InputSink) {
        let peers = self.traffic.streams.peers();
        match peers.stream_at(captured.key, captured.end) {
            Some(key) => {
                let captured = Captured { key, ..captured };
                let step = &mut self.step(sink);
                match captured.segment.content {
                    Content::Bytes(_) => reconsidering::data(step, &captured),
                    Content::Lost { .. } => delivery::lost(step, &captured),
                }
            }
            None if captured.segment.as_bytes().is_some() => {
                self.unrouted.keep(captured.into_owned());
            }
            None => {}
        }
    }

    /// Takes in what was written to sockets whose peers have become known.
    fn route_waiting(&mut self, sink: &mut dyn InputSink) {
        for captured in self.unrouted.take() {
            self.route(captured, sink);
        }
    }

    fn exec(
        &mut self,
        origin: Origin,
        user: Uid,
        [input, output]: [EndpointReport; 2],
        executed: Option<Arc<Executed>>,
        sink: &mut dyn InputSink,
    ) {
        self.processes.executed(origin.tgid, executed.as_ref());
        let peers = self.traffic.streams.peers_mut();
        let input = peers.learn(input);
        let output = peers
            .learn(output)
            .and_then(|key| peers.stream_at(key, End::Writer));
        for key in [input, output].into_iter().flatten() {
            self.traffic.streams.ensure_of(key, user);
        }
        eviction::make_room(&mut self.step(sink), user, origin);
        // Only a program between two streams can be a server with both directions visible. The
        // process table is read for those alone, while they are there.
        let info = match (input, output) {
            (Some(_), Some(_)) => self.processes.describe_started(
                &mut self.environment,
                origin.tgid,
                executed.as_deref(),
            ),
            _ => None,
        };
        let policy = info
            .as_deref()
            .map_or(WatchPolicy::Sniff, |info| self.environment.policy(info));
        let info = info.map(|info| self.processes.keep(user, info));
        let own = [input, output];
        let fits = eviction::make_room_for_programs(&mut self.step(sink), user, own, origin);
        let info = info.filter(|_| fits);
        self.processes.programs.add(&StartedProgram {
            pid: origin.tgid,
            input,
            output,
            info,
        });
        let step = &mut self.step(sink);
        match policy {
            WatchPolicy::Exclude => exclusion::apply(step, input, output),
            WatchPolicy::Sniff => exclusion::end(step, input, output, origin.tgid),
            WatchPolicy::Watch => {
                exclusion::end(step, input, output, origin.tgid);
                if let Some(input) = input {
                    following::promote(step, input, Some(Direction::ClientToServer), origin.time);
                }
            }
        }
        self.route_waiting(sink);
    }

    fn exit(&mut self, origin: Origin) {
        self.processes.launches.forget(Pid(origin.tgid));
        for session in self.traffic.sessions.values_mut() {
            if session.server == Some(origin.tgid) {
                session.close(origin.time, EndReason::ServerExited);
            } else if session.client == Some(origin.tgid) {
                session.close(origin.time, EndReason::ClientExited);
            }
        }
    }
}

/// Whether a process is known to speak MCP.
fn is_party(sessions: &TrackedSessions, connections: &Connections, pid: u32) -> bool {
    let mut sessions = sessions.iter();
    sessions.any(|(_, session)| [session.server, session.client].contains(&Some(pid)))
        || connections.is_party(pid)
}

/// Whether a record is about a TCP connection.
fn is_of_connection(record: &KernelRecord<'_>) -> bool {
    let key = match record {
        KernelRecord::Connected { .. } => return true,
        KernelRecord::Segment { key, .. }
        | KernelRecord::EndOfStream { key }
        | KernelRecord::BlindSpot {
            stream: Some((key, _)),
            ..
        } => key,
        KernelRecord::BlindSpot { stream: None, .. }
        | KernelRecord::Exec { .. }
        | KernelRecord::Exit
        | KernelRecord::Library { .. }
        | KernelRecord::ClientHello { .. }
        | KernelRecord::Registered(_) => return false,
    };
    [EndpointKind::HttpSocket, EndpointKind::TlsSocket]
        .into_iter()
        .any(|kind| key.kind == kind as u32)
}
