//! What the engine is told about a session's parties.
//!
//! A server on this machine is identified by its process, launch and package like one that talks over pipes;
//! any other by its URL, or by the name that a client's configuration gives that URL.

use std::sync::Arc;

use mcpinspect_core::model::{
    BootTime, Content, Input, Pid, Process, ServerEndpoint, ServerSide, SessionStart,
};
use mcpinspect_process::ProcessInfo;
use mcpinspect_process::identity::Launched;

use super::address::Side;
use super::context::Context;
use super::session::{Session, Stage};
use crate::discover::environment::WatchPolicy;

/// Announces a session, and passes on what waited for it.
pub fn announce(session: &mut Session, context: &mut Context<'_>, now: BootTime) {
    let [client, server] = session
        .parties
        .map(|pid| context.machine.describe(pid?, context.launches));
    if is_excluded(server.as_deref().or(client.as_deref()), context) {
        session.stage = Stage::Excluded;
        session.pending = Vec::new();
        return;
    }
    let url = session.url();
    let identity = match &server {
        Some(info) => context.machine.identify(Launched {
            origin: None,
            serving: Some(info),
            client: None,
        }),
        None => context.machine.identify_url(&url, client.as_deref()),
    };
    session.stage = Stage::Announced;
    session.announced = [&client, &server].map(|info| process(info.as_ref()));
    let time = session.pending.first().map_or(now, |first| first.time);
    context
        .output
        .sink
        .input(Input::SessionStarted(SessionStart {
            id: session.id.clone(),
            server: identity,
            endpoint: if session.is_sse {
                ServerEndpoint::Sse { url }
            } else {
                ServerEndpoint::Http { url }
            },
            server_party: server.map(|info| info.to_party()),
            client_party: client.map(|info| info.to_party()),
            joined_midstream: session.is_joined,
            time: context.output.clock.at(time),
        }));
    report_parties(session, context);
    for pending in std::mem::take(&mut session.pending) {
        pass_on(
            session,
            context,
            pending.direction,
            pending.time,
            pending.content,
        );
    }
}

/// Passes on a message, or the loss of some bytes.
pub fn pass_on(
    session: &mut Session,
    context: &mut Context<'_>,
    direction: mcpinspect_core::model::Direction,
    time: BootTime,
    content: Content<'_>,
) {
    let time = context.output.clock.at(time);
    let position = session.advance(direction, content.length());
    let session = (&session.id).into();
    context.output.sink.input(match content {
        Content::Bytes(bytes) => Input::Message {
            session,
            direction,
            position,
            time,
            bytes,
        },
        Content::Lost { length, reason } => Input::Gap {
            session,
            direction,
            position,
            bytes_lost: length,
            reason,
            time,
        },
    });
}

/// Notes a party that became known, or has changed.
pub fn note_parties(session: &mut Session, parties: [Option<u32>; 2], context: &mut Context<'_>) {
    let mut is_news = false;
    for (known, pid) in session.parties.iter_mut().zip(parties) {
        if pid.is_some() && *known != pid {
            *known = pid;
            is_news = true;
        }
    }
    if !is_news || session.stage != Stage::Announced {
        return;
    }
    for side in [Side::Client, Side::Server] {
        let at = side.index();
        let known = session.announced[at].map(|process| process.pid.0);
        if session.parties[at] != known {
            let info =
                session.parties[at].and_then(|pid| context.machine.describe(pid, context.launches));
            session.announced[at] = process(info.as_ref());
        }
    }
    report_parties(session, context);
}

fn report_parties(session: &Session, context: &mut Context<'_>) {
    context.output.sink.input(Input::PartiesChanged {
        session: (&session.id).into(),
        server_pid: session.pid(Side::Server),
        client_pid: session.pid(Side::Client),
        server_side: ServerSide {
            // It accepted the connection and answered.
            launched: session.announced[Side::Server.index()]
                .into_iter()
                .collect(),
            reads: None,
            writes: None,
        },
    });
}

fn is_excluded(info: Option<&ProcessInfo>, context: &mut Context<'_>) -> bool {
    info.is_some_and(|info| context.machine.policy(info) == WatchPolicy::Exclude)
}

fn process(info: Option<&Arc<ProcessInfo>>) -> Option<Process> {
    let process = info?.process();
    Some(Process {
        pid: Pid(process.pid.0),
        start_time: process.start_time,
    })
}
