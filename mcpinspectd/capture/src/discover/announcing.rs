//! Announces sessions: when enough is known about one, and what is said about it.
//!
//! A session is announced as soon as its client is known. A client that wrote before its server's
//! program was registered shows itself when it reads the answer; until then the session's bytes
//! wait, but not for long.
//!
//! Who the parties are is what the kernel saw when they were started. By now they may have changed what
//! `/proc` shows about them, or be gone.

use std::sync::Arc;
use std::time::Duration;

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::model::{
    BootTime, Direction, InodeKey, Input, Pid, ServerEndpoint, ServerSide, SessionStart,
};
use mcpinspect_process::ProcessInfo;
use mcpinspect_process::identity::Launched;

use super::blind_spots;
use super::captured::Captured;
use super::flow::SessionIndex;
use super::step::Step;

/// Time that a session waits for its client to show itself.
const CLIENT_TIMEOUT: Duration = Duration::from_millis(100);
/// Most bytes that wait for that.
const PENDING_MAX: usize = 1 << 20;

/// Who talks in a session.
#[derive(Debug, Default)]
pub struct Parties {
    server: Option<u32>,
    server_info: Option<Arc<ProcessInfo>>,
    /// What the server was launched as.
    origin: Option<Arc<ProcessInfo>>,
    client: Option<u32>,
}

/// Returns the parties of a session that should be announced now: its client is known, or
/// it has waited long enough for that.
pub fn ready(step: &mut Step<'_>, index: SessionIndex, now: BootTime) -> Option<Parties> {
    let session = step.traffic.sessions.get(index)?;
    let since = session.pending.since().unwrap_or(now);
    let timed_out = now.since(since) > CLIENT_TIMEOUT || session.pending.memory() > PENDING_MAX;
    let parties = parties(step, index);
    (parties.client.is_some() || timed_out).then_some(parties)
}

/// Returns who is at the two ends of a session, if known.
pub fn parties(step: &mut Step<'_>, index: SessionIndex) -> Parties {
    let (traffic, processes, machine) = (&*step.traffic, &*step.processes, &mut *step.machine);
    let Some(session) = traffic.sessions.get(index) else {
        return Parties::default();
    };
    let last_at = |key: Option<EndpointKey>, end: End| {
        let stream = traffic.streams.get(key?)?;
        let endpoint = match end {
            End::Reader => key,
            End::Writer => stream.written_at,
        };
        stream.last_at(end).or_else(|| {
            let counters = machine.counters(endpoint?)?;
            Some(counters.last_tgid[end as usize]).filter(|tgid| *tgid != 0)
        })
    };
    let started = session
        .to_server
        .and_then(|key| processes.programs.readers(key).next_back())
        .or_else(|| {
            session
                .to_client
                .and_then(|key| processes.programs.writers(key).next_back())
        })
        .map(|program| program.pid);
    let server = session
        .server
        .or_else(|| last_at(session.to_client, End::Writer))
        .or(started);
    let client = session
        .client
        .or_else(|| last_at(session.to_server, End::Writer))
        .or_else(|| last_at(session.to_client, End::Reader));
    let remembered = server.and_then(|pid| {
        session
            .streams()
            .find_map(|(key, _)| processes.programs.info(key, pid))
    });
    let written_at = session
        .to_server
        .and_then(|key| traffic.streams.get(key)?.written_at);
    let server_info = remembered.or_else(|| processes.describe(machine, server?));
    let origin = session.streams().find_map(|(key, direction)| {
        let end = match direction {
            Direction::ClientToServer => End::Reader,
            Direction::ServerToClient => End::Writer,
        };
        processes.programs.origin(key, end, server_info.as_deref())
    });
    // A client that wrote before its server's program was known has not been seen. It is the
    // nearest ancestor that holds the other end.
    let client = client.or_else(|| {
        let written_at = written_at?;
        server_info
            .as_ref()?
            .ancestors()
            .iter()
            .map(|ancestor| ancestor.pid.0)
            .find(|pid| machine.holds(*pid, written_at, End::Writer))
    });
    Parties {
        server,
        server_info,
        origin,
        client,
    }
}

/// Reports which processes are at the two ends of a session.
pub fn report_parties(step: &mut Step<'_>, index: SessionIndex) {
    let Some(session) = step.traffic.sessions.get(index) else {
        return;
    };
    let written_at = |key| step.traffic.streams.get(key)?.written_at;
    step.output.sink.input(Input::PartiesChanged {
        session: (&session.id).into(),
        server_pid: session.server.map(Pid),
        client_pid: session.client.map(Pid),
        server_side: ServerSide {
            launched: step
                .processes
                .programs
                .between(session.to_server, session.to_client),
            reads: session.to_server.map(InodeKey::from),
            writes: session.to_client.and_then(written_at).map(InodeKey::from),
        },
    });
}

/// The process that started the first program on a session's streams: its client, unless another
/// process was seen in that role.
fn launched_by(step: &Step<'_>, index: SessionIndex) -> Option<u32> {
    let session = step.traffic.sessions.get(index)?;
    session
        .streams()
        .find_map(|(key, _)| step.processes.programs.launched_by(key))
}

/// Describes a session's client. The start of the server's program shows who its ancestors were, including
/// those that are gone or whose number another process has by now.
fn describe_client(
    step: &mut Step<'_>,
    client: u32,
    server: Option<&ProcessInfo>,
) -> Option<Arc<ProcessInfo>> {
    let recorded = server.and_then(|server| server.ancestor(Pid(client)));
    let now = step.processes.describe(step.machine, client);
    let started = |info: &ProcessInfo| info.process().start_time;
    match (recorded, now) {
        (Some(recorded), Some(now)) if started(&recorded) != started(&now) => {
            Some(Arc::new(recorded))
        }
        (recorded, now) => now.or_else(|| recorded.map(Arc::new)),
    }
}

/// Announces a session. Returns its pending segments, which come next, and the time of the first.
pub fn announce(
    step: &mut Step<'_>,
    index: SessionIndex,
    parties: Parties,
    now: BootTime,
) -> (Vec<Captured<'static>>, BootTime) {
    let Parties {
        server,
        server_info,
        origin,
        client,
    } = parties;
    let client = client.or_else(|| launched_by(step, index));
    let launch = origin.as_deref().or(server_info.as_deref());
    let client_info = client.and_then(|pid| describe_client(step, pid, launch));
    let identity = step.machine.identify(Launched {
        origin: origin.as_deref(),
        serving: server_info.as_deref(),
        client: client.map(Pid),
    });
    // A process that was never seen to start, and is gone, was part of what was launched.
    let server_info = server_info.or(origin);
    let Some(session) = step.traffic.sessions.get_mut(index) else {
        return (Vec::new(), now);
    };
    session.server = server;
    session.client = client;
    session.announced = true;
    let pending = std::mem::take(&mut session.pending);
    let time = pending.since().unwrap_or(now);
    step.output.sink.input(Input::SessionStarted(SessionStart {
        id: session.id.clone(),
        server: identity,
        endpoint: ServerEndpoint::Stdio,
        server_party: server_info.map(|info| info.to_party()),
        client_party: client_info.map(|info| info.to_party()),
        joined_midstream: session.joined,
        time: step.output.clock.at(time),
    }));
    // A party that has already exited still has a process id.
    report_parties(step, index);
    blind_spots::report_processes(step, time);
    blind_spots::report_suspicions(step, index, time);
    (pending.into_segments(), time)
}
