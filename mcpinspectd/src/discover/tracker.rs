//! Takes the probes' records in, finds the sessions in them, and feeds the engine.

use std::collections::{HashMap, VecDeque};

use mcpinspect_common::{End, EndpointKey, EndpointKind, EndpointReport, Operation};

use super::environment::{Environment, Policy};
use super::orphans::{Orphan, Orphans};
use super::programs::{Program, Programs};
use super::session::Session;
use super::stream::{SessionIndex, Stream};
use crate::capture::{BootClock, KernelRecord, Origin};
use crate::model::{Account, Direction, InputSink, StreamLedger};

/// What the tracker is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes per end that are looked at before a stream is given up as something else.
    pub sniff_budget: u64,
    /// Bytes that a stream's beginning may have if it looks like one long message.
    pub max_message: u64,
    /// Bytes of beginnings that are kept at most, over all streams.
    pub beginnings_max: usize,
    /// Whether what is written is compared with what is read.
    pub compare_ends: bool,
    /// Sessions that are followed at one time; one that comes above that is left alone.
    pub max_sessions: usize,
    /// Accounts of ended streams that are kept one by one. Their sums are kept in any case.
    pub max_accounts: usize,
}

/// See the module's text.
pub struct Tracker<E> {
    pub(super) environment: E,
    pub(super) settings: Settings,
    pub(super) clock: BootClock,
    pub(super) streams: HashMap<EndpointKey, Stream>,
    /// For a socket: the one that it is connected to.
    pub(super) peers: HashMap<EndpointKey, EndpointKey>,
    pub(super) programs: Programs,
    pub(super) sessions: HashMap<SessionIndex, Session>,
    pub(super) next_session: SessionIndex,
    /// Sessions that were left alone because too many were under way.
    pub(super) refused: u64,
    /// Whether that was said since there was room last.
    pub(super) refusal_told: bool,
    /// Distinguishes the sessions of this run from those of others.
    pub(super) run: String,
    pub(super) ended: VecDeque<StreamLedger>,
    /// The sum over all ended sessions.
    pub(super) closed: Account,
    pub(super) beginnings: usize,
    pub(super) next_sweep: u64,
    /// What was written to sockets whose peer is not known yet.
    pub(super) orphans: Orphans,
    /// Processes that use a mechanism which does not tell the stream that it concerns.
    pub(super) blind: HashMap<u32, Operation>,
}

impl<E: Environment> Tracker<E> {
    /// A tracker that knows nothing yet.
    pub fn new(environment: E, settings: Settings, clock: BootClock, now: u64) -> Self {
        Self {
            environment,
            settings,
            run: format!("{:x}", clock.at(now).0 / 1_000_000),
            clock,
            streams: HashMap::new(),
            peers: HashMap::new(),
            programs: Programs::default(),
            sessions: HashMap::new(),
            next_session: 0,
            refused: 0,
            refusal_told: false,
            ended: VecDeque::new(),
            closed: Account::default(),
            beginnings: 0,
            next_sweep: now.saturating_add(super::ending::SWEEP_INTERVAL),
            orphans: Orphans::default(),
            blind: HashMap::new(),
        }
    }

    /// The machine that it works on.
    pub fn environment(&mut self) -> &mut E {
        &mut self.environment
    }

    /// Sessions under way.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Sessions that were not followed because too many were under way.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes a record in.
    pub fn record(&mut self, origin: Origin, record: KernelRecord<'_>, feed: &mut impl InputSink) {
        if !matches!(record, KernelRecord::Data { .. }) {
            tracing::trace!(?origin, ?record);
        }
        match record {
            KernelRecord::Data {
                key,
                end,
                position,
                bytes,
            } => {
                if let Some(stream) = self.stream_of(key, end) {
                    self.data(stream, end, position, bytes, origin, feed);
                } else {
                    self.orphans.keep(key, position, bytes, origin);
                }
            }
            KernelRecord::Missing {
                key,
                end,
                position,
                length,
            } => {
                if let Some(stream) = self.stream_of(key, end) {
                    self.missing(stream, end, position, length, origin, feed);
                }
            }
            KernelRecord::EndOfStream { key } => self.end_of_stream(key, origin, feed),
            KernelRecord::Exec { input, output } => self.exec(origin, input, output, feed),
            KernelRecord::Exit => self.exit(origin),
            KernelRecord::Registered(report) => {
                self.registered(report);
                self.adopt(feed);
            }
            KernelRecord::BlindSpot {
                stream,
                bytes: _,
                operation,
            } => {
                self.blind_spot(stream, operation, origin, feed);
            }
        }
    }

    /// A running program that was found rather than seen starting, and its two streams.
    pub fn found(&mut self, pid: u32, input: Option<EndpointKey>, output: Option<EndpointKey>) {
        let output = output.and_then(|key| match EndpointKind::from_u32(key.kind) {
            Some(EndpointKind::UnixSocket) => self.peers.get(&key).copied(),
            _ => Some(key),
        });
        let info = self.environment.describe(pid);
        self.programs.add(&Program {
            pid,
            input,
            output,
            info,
        });
    }

    /// The stream that `end` of `endpoint` belongs to.
    pub(super) fn stream_of(&self, endpoint: EndpointKey, end: End) -> Option<EndpointKey> {
        match (end, EndpointKind::from_u32(endpoint.kind)?) {
            (End::Reader, _) | (End::Writer, EndpointKind::Pipe) => Some(endpoint),
            (End::Writer, EndpointKind::UnixSocket) => self.peers.get(&endpoint).copied(),
        }
    }

    /// Notes what an endpoint report says; gives the endpoint, if it is one.
    fn endpoint(&mut self, report: EndpointReport) -> Option<EndpointKey> {
        let key = report.key;
        let kind = EndpointKind::from_u32(key.kind)?;
        if kind == EndpointKind::UnixSocket && report.peer_ino != 0 {
            let peer = EndpointKey {
                ino: report.peer_ino,
                ..key
            };
            self.peers.insert(key, peer);
            self.peers.insert(peer, key);
        }
        Some(key)
    }

    pub(super) fn ensure(&mut self, key: EndpointKey) -> &mut Stream {
        let written_at = match EndpointKind::from_u32(key.kind) {
            Some(EndpointKind::UnixSocket) => self.peers.get(&key).copied(),
            _ => Some(key),
        };
        let stream = self
            .streams
            .entry(key)
            .or_insert_with(|| Stream::new(written_at));
        if stream.written_at.is_none() {
            stream.written_at = written_at;
        }
        stream
    }

    /// Takes in what was written to sockets whose peers have become known.
    fn adopt(&mut self, feed: &mut impl InputSink) {
        for Orphan {
            key,
            position,
            bytes,
            origin,
        } in self.orphans.take()
        {
            match self.stream_of(key, End::Writer) {
                Some(stream) => self.data(stream, End::Writer, position, &bytes, origin, feed),
                None => self.orphans.keep(key, position, &bytes, origin),
            }
        }
    }

    fn registered(&mut self, report: EndpointReport) {
        let Some(key) = self.endpoint(report) else {
            return;
        };
        self.ensure(key).joined = true;
        if let Some(&peer) = self.peers.get(&key) {
            self.ensure(peer).joined = true;
        }
    }

    fn exec(
        &mut self,
        origin: Origin,
        input: EndpointReport,
        output: EndpointReport,
        feed: &mut impl InputSink,
    ) {
        // Whatever its process did before, this is another program.
        self.blind.remove(&origin.tgid);
        let input = self.endpoint(input);
        let output = self
            .endpoint(output)
            .and_then(|key| self.stream_of(key, End::Writer));
        for key in [input, output].into_iter().flatten() {
            self.ensure(key);
        }
        // Only a program between two streams can be a server whose both directions are seen; the
        // process table is asked for those alone, while they are there.
        let info = (input.is_some() && output.is_some())
            .then(|| self.environment.describe(origin.tgid))
            .flatten();
        let policy = info
            .as_deref()
            .map_or(Policy::Sniff, |info| self.environment.policy(info));
        self.programs.add(&Program {
            pid: origin.tgid,
            input,
            output,
            info,
        });
        match policy {
            Policy::Sniff => {}
            Policy::Exclude => {
                for key in [input, output].into_iter().flatten() {
                    self.ignore(key);
                }
            }
            Policy::Watch => {
                if let Some(input) = input {
                    self.promote(input, Some(Direction::ClientToServer), feed);
                }
            }
        }
        self.adopt(feed);
    }

    fn exit(&mut self, origin: Origin) {
        for session in self.sessions.values_mut() {
            if session.server == Some(origin.tgid) {
                session.closing(origin.time, "server_exited");
            } else if session.client == Some(origin.tgid) {
                session.closing(origin.time, "client_exited");
            }
        }
    }

    /// The moment of a kernel time.
    pub(super) fn moment(&self, boot: u64) -> crate::model::Timestamp {
        self.clock.at(boot)
    }
}
