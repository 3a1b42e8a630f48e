//! Sessions by name: which messages of which connections belong together.
//!
//! A request says which session it belongs to by `Mcp-Session-Id`, which the server chose in its answer
//! to `initialize`; in the transport of 2024-11-05, by the address that the server named. Without either,
//! as since 2026-07-28, what a client says to one address is one session, from `initialize` to
//! `initialize`.

use std::collections::HashMap;
use std::time::Duration;

use mcpinspect_core::http::{Event, Exchange, Left, Loss, Method, Target, TargetKey};
use mcpinspect_core::mcp::{Message, Payload, parse};
use mcpinspect_core::model::{
    BlindMechanism, BootTime, Content, Direction, EndReason, GapReason, SessionId,
};

use super::address::Side;
use super::announcing::{announce, note_parties, pass_on};
use super::context::Context;
use super::link::{Joined, Link};
use super::session::{Caller, Name, Number, Pending, Session, Stage};
use crate::capture::Origin;

/// Time without a connection after which a session is over.
const IDLE: Duration = Duration::from_secs(600);
/// The same for a session that the server does not know about.
const IDLE_STATELESS: Duration = Duration::from_secs(60);
/// Most open exchanges to remember for one connection.
const EXCHANGES_MAX: usize = 1024;

/// All sessions over HTTP.
pub struct Sessions {
    by_number: HashMap<Number, Session>,
    by_name: HashMap<Name, Number>,
    next: Number,
    run: String,
    max: usize,
    refused: u64,
}

impl Sessions {
    /// An empty table for up to `max` sessions, whose ids begin with `run`.
    pub fn new(run: String, max: usize) -> Self {
        Self {
            by_number: HashMap::new(),
            by_name: HashMap::new(),
            next: 0,
            run,
            max,
            refused: 0,
        }
    }

    /// Whether a process is a party of one.
    pub fn is_party(&self, pid: u32) -> bool {
        let mut sessions = self.by_number.values();
        sessions.any(|session| session.parties.contains(&Some(pid)))
    }

    /// Open sessions.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Sessions that made room for others.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes in what a connection shows.
    pub fn event(
        &mut self,
        link: &mut Link,
        event: &Event<'_>,
        context: &mut Context<'_>,
        now: BootTime,
    ) {
        match event {
            Event::Opened(opened) => {
                link.is_mcp = true;
                let server = link.pair.server;
                let id = opened.fields.session.as_deref().map(key_of);
                let name = match (id, opened.target.key) {
                    (Some(id), _) => Some(Name::Id(server, id)),
                    (None, Some(key)) => Some(Name::Target(server, key)),
                    (None, None) => None,
                };
                let known = name
                    .as_ref()
                    .and_then(|name| self.by_name.get(name))
                    .copied();
                let session = match (known, name) {
                    (None, Some(name @ Name::Id(..))) => {
                        let number = self.begin(link, opened.target, context, now);
                        if let Some(session) = self.by_number.get_mut(&number) {
                            session.is_joined = true;
                        }
                        self.add_name(number, name);
                        Some(number)
                    }
                    _ => known,
                };
                if link.exchanges.len() >= EXCHANGES_MAX {
                    link.exchanges.pop_first();
                }
                link.exchanges.insert(
                    opened.exchange,
                    Joined {
                        session,
                        method: opened.method,
                        target: opened.target.clone(),
                        named: None,
                        is_stream: false,
                    },
                );
                if let Some(number) = session {
                    self.join(link, number, context, now);
                }
            }
            Event::Answered(answered) => self.answered(link, answered, context, now),
            Event::Message(message) => {
                let content = Content::Bytes(message.bytes.into());
                let session =
                    self.session_of(link, message.exchange, Some(message.bytes), context, now);
                self.say(session, message.direction, content, context, now);
            }
            Event::Endpoint {
                exchange, target, ..
            } => {
                self.endpoint(link, *exchange, target, context, now);
            }
            Event::Lost {
                exchange,
                direction,
                seen,
                missing,
                loss,
                ..
            } => {
                tracing::debug!(server = %link.pair.server, loss = loss.as_str(), "lost a message over HTTP");
                let session = self.session_of(link, *exchange, None, context, now);
                let bytes = seen.saturating_add(missing.unwrap_or(0)).max(1);
                let reason = match loss {
                    Loss::TooLarge | Loss::Compressed => GapReason::FrameTooLarge,
                    Loss::Gap => link.missing,
                    Loss::Unfinished => GapReason::PositionJump,
                };
                let lost = Content::Lost {
                    length: bytes,
                    reason,
                };
                self.say(session, *direction, lost, context, now);
            }
            Event::Disagreement { field, .. } => {
                tracing::info!(server = %link.pair.server, field = field.as_str(), "an HTTP header does not match its message");
            }
            Event::Anomaly { anomaly, .. } => {
                tracing::info!(server = %link.pair.server, %anomaly, "unusual HTTP");
            }
            Event::Closed { exchange, .. } => {
                if let Some(joined) = link.exchanges.remove(exchange)
                    && joined.is_stream
                    && let Some(number) = joined.session
                {
                    self.end(number, EndReason::ServerClosed, context, now);
                }
            }
            Event::Left { reason, .. } => self.left(link, *reason, context, now),
        }
    }

    /// Takes in the processes of a connection, which became known.
    pub fn parties(&mut self, link: &Link, context: &mut Context<'_>) {
        for number in &link.sessions {
            if let Some(session) = self.by_number.get_mut(number) {
                note_parties(session, link.parties, context);
            }
        }
    }

    /// The process at the other end of a connection was looked for, and is known by now if it could be found.
    pub fn sought(&mut self, link: &mut Link, context: &mut Context<'_>) {
        for number in link.sessions.clone() {
            let Some(session) = self.by_number.get_mut(&number) else {
                continue;
            };
            session.awaits_party = false;
            let at = Side::Client.index();
            let is_anothers = link.parties[at].is_some()
                && session.parties[at].is_some_and(|known| link.parties[at] != Some(known));
            if is_anothers && !session.is_named() {
                // Two clients without a name, which were one while nothing distinguished them.
                session.connections = session.connections.saturating_sub(1);
                link.sessions.remove(&number);
                link.last = link.last.filter(|last| *last != number);
            }
        }
        self.parties(link, context);
        // Other connections of that process may be known to be its own from the first byte.
        let Caller::Process(pid) = link.caller() else {
            return;
        };
        for number in &link.sessions {
            let name = self.by_number.get(number).and_then(|session| {
                let mut names = session.names.iter();
                names.find_map(|name| match name {
                    Name::Client(address, key, Caller::Host(..)) => {
                        Some(Name::Client(*address, *key, Caller::Process(pid)))
                    }
                    Name::Client(..) | Name::Id(..) | Name::Target(..) => None,
                })
            });
            if let Some(name) = name.filter(|name| !self.by_name.contains_key(name)) {
                self.add_name(*number, name);
            }
        }
    }

    /// Reports that bytes of a connection moved unseen.
    pub fn blind(
        &mut self,
        link: &Link,
        mechanism: BlindMechanism,
        origin: Origin,
        context: &mut Context<'_>,
    ) {
        for number in &link.sessions {
            if let Some(session) = self.by_number.get(number)
                && session.stage == Stage::Announced
            {
                context
                    .output
                    .blind_spot(Some(&session.id), mechanism, origin, None, None);
            }
        }
    }

    /// Handles the end of a connection.
    pub fn closed(&mut self, link: &Link) {
        for number in &link.sessions {
            if let Some(session) = self.by_number.get_mut(number) {
                session.connections = session.connections.saturating_sub(1);
            }
        }
    }

    /// Advances time. `is_sweep`: also looks for abandoned sessions.
    pub fn tick(&mut self, context: &mut Context<'_>, now: BootTime, is_sweep: bool) {
        for session in self.by_number.values_mut() {
            if session.is_ready(now) {
                announce(session, context, now);
            }
        }
        if !is_sweep {
            return;
        }
        let machine = &*context.machine;
        let over = |session: &Session| {
            if session.connections > 0 {
                return None;
            }
            let gone = |side: Side| {
                session.parties[side.index()].is_some_and(|pid| machine.user(pid).is_none())
            };
            let idle = now.since(session.last_active);
            let is_stateless = !session
                .names
                .iter()
                .any(|name| matches!(name, Name::Id(..)));
            if gone(Side::Server) {
                Some(EndReason::ServerExited)
            } else if gone(Side::Client) {
                Some(EndReason::ClientExited)
            } else if idle > IDLE || idle > IDLE_STATELESS && is_stateless {
                Some(EndReason::Idle)
            } else {
                None
            }
        };
        let over: Vec<_> = self
            .by_number
            .iter()
            .filter_map(|(number, session)| Some((*number, over(session)?)))
            .collect();
        for (number, reason) in over {
            self.end(number, reason, context, now);
        }
    }

    /// Ends all sessions: the daemon stops.
    pub fn finish(&mut self, context: &mut Context<'_>, now: BootTime) {
        let mut all: Vec<Number> = self.by_number.keys().copied().collect();
        all.sort_unstable();
        for number in all {
            self.end(number, EndReason::MonitoringStopped, context, now);
        }
    }

    fn answered(
        &mut self,
        link: &mut Link,
        answered: &mcpinspect_core::http::ResponseHead<'_>,
        context: &mut Context<'_>,
        now: BootTime,
    ) {
        let server = link.pair.server;
        let joined = answered
            .exchange
            .and_then(|exchange| link.exchanges.get_mut(&exchange));
        let Some(joined) = joined else { return };
        let id = answered.fields.session.as_deref().map(key_of);
        let (session, method) = (joined.session, joined.method);
        if session.is_none() {
            joined.named = id;
        }
        let Some(number) = session else { return };
        if let Some(id) = id {
            self.add_name(number, Name::Id(server, id));
        }
        let Some(session) = self.by_number.get_mut(&number) else {
            return;
        };
        session.is_answered = true;
        if session.is_ready(now) {
            announce(session, context, now);
        }
        if method == Method::Delete && (200..300).contains(&answered.status) {
            self.end(number, EndReason::Deleted, context, now);
        }
    }

    /// The server names the address for messages: a session of 2024-11-05 begins.
    fn endpoint(
        &mut self,
        link: &mut Link,
        exchange: Option<Exchange>,
        target: &Target,
        context: &mut Context<'_>,
        now: BootTime,
    ) {
        let Some(key) = target.key else { return };
        let Some(exchange) = exchange else { return };
        let Some(joined) = link.exchanges.get(&exchange) else {
            return;
        };
        let (own, known) = (joined.target.clone(), joined.session);
        let number = known.unwrap_or_else(|| self.begin(link, &own, context, now));
        if let Some(session) = self.by_number.get_mut(&number) {
            session.is_sse = true;
        }
        if let Some(joined) = link.exchanges.get_mut(&exchange) {
            joined.session = Some(number);
            joined.is_stream = true;
        }
        self.add_name(number, Name::Target(link.pair.server, key));
        self.join(link, number, context, now);
    }

    /// Nothing more will come of a connection.
    fn left(&mut self, link: &mut Link, reason: Left, context: &mut Context<'_>, now: BootTime) {
        link.left = Some(reason);
        let mechanism = match reason {
            Left::NotHttp | Left::NotMcp => return,
            Left::Upgraded => BlindMechanism::HttpUpgraded,
            Left::Ambiguous => BlindMechanism::HttpAmbiguous,
        };
        let pid = link.parties.iter().rev().flatten().next().copied();
        let origin = Origin {
            tgid: pid.unwrap_or(0),
            time: now,
        };
        self.blind(link, mechanism, origin, context);
    }

    /// The session of an exchange. `message`: its first one.
    fn session_of(
        &mut self,
        link: &mut Link,
        exchange: Option<Exchange>,
        message: Option<&[u8]>,
        context: &mut Context<'_>,
        now: BootTime,
    ) -> Option<Number> {
        let joined = exchange.and_then(|exchange| link.exchanges.get(&exchange));
        let Some(joined) = joined else {
            return link.last;
        };
        if let Some(number) = joined.session {
            return Some(number);
        }
        let server = link.pair.server;
        let (target, named) = (joined.target.clone(), joined.named);
        let name = match named {
            Some(id) => Name::Id(server, id),
            None => Name::Client(server, target.key, link.caller()),
        };
        let begins = message.is_some_and(is_initialize);
        let known = match (begins, named) {
            (true, _) => None,
            (false, Some(_)) => self.by_name.get(&name).copied(),
            (false, None) => self.stateless_at(link, &target).or_else(|| {
                let known = self.by_name.get(&name).copied();
                known.filter(|number| self.may_carry_on(*number, link, context))
            }),
        };
        // Nothing begins with a loss.
        let number = match known {
            Some(number) => number,
            None if message.is_none() => return link.last,
            None => {
                let number = self.begin(link, &target, context, now);
                self.add_name(number, name);
                number
            }
        };
        if let Some(joined) = exchange.and_then(|exchange| link.exchanges.get_mut(&exchange)) {
            joined.session = Some(number);
        }
        self.join(link, number, context, now);
        Some(number)
    }

    /// The session that a connection carried last, if requests to an address name none.
    fn stateless_at(&self, link: &Link, target: &Target) -> Option<Number> {
        let number = link.last?;
        let session = self.by_number.get(&number)?;
        (!session.is_named() && session.target.key == target.key).then_some(number)
    }

    /// Whether a client may be that of a session without a name: not if that process is gone.
    fn may_carry_on(&self, number: Number, link: &Link, context: &Context<'_>) -> bool {
        let at = Side::Client.index();
        let session = self.by_number.get(&number);
        match (
            session.and_then(|session| session.parties[at]),
            link.parties[at],
        ) {
            (Some(known), None) => context.machine.user(known).is_some(),
            (None, _) | (Some(_), Some(_)) => true,
        }
    }

    /// Begins a session.
    fn begin(
        &mut self,
        link: &Link,
        target: &Target,
        context: &mut Context<'_>,
        now: BootTime,
    ) -> Number {
        self.make_room(link.owner, context, now);
        let number = self.next;
        self.next += 1;
        let id = SessionId(format!("{}-h{number}", self.run).into());
        let mut session = Session::new(id, link.pair.server, target.clone(), link.owner, now);
        session.is_tls = link.is_tls;
        session.location = link.location.clone();
        session.awaits_party = link.is_tls && link.pair.is_within() && link.parties.contains(&None);
        self.by_number.insert(number, session);
        number
    }

    /// Makes the quietest session of the user with the most give way to one of `owner`, if there is no room.
    fn make_room(&mut self, owner: u32, context: &mut Context<'_>, now: BootTime) {
        if self.by_number.len() < self.max {
            return;
        }
        let mut counts: HashMap<u32, usize> = HashMap::from([(owner, 1)]);
        for session in self.by_number.values() {
            *counts.entry(session.owner).or_default() += 1;
        }
        let most = counts.iter().max_by_key(|(user, count)| (**count, **user));
        let most = most.map_or(owner, |(user, _)| *user);
        let quietest = self
            .by_number
            .iter()
            .filter(|(_, session)| session.owner == most)
            .min_by_key(|(number, session)| (session.last_active, **number))
            .map(|(number, _)| *number);
        if let Some(number) = quietest {
            self.refused += 1;
            self.end(number, EndReason::SessionBudget, context, now);
        }
    }

    fn add_name(&mut self, number: Number, name: Name) {
        let Some(session) = self.by_number.get_mut(&number) else {
            return;
        };
        if let Some(displaced) = session.add_name(name.clone())
            && self.by_name.get(&displaced) == Some(&number)
        {
            self.by_name.remove(&displaced);
        }
        self.by_name.insert(name, number);
    }

    /// Notes that a connection carries a session.
    fn join(&mut self, link: &mut Link, number: Number, context: &mut Context<'_>, now: BootTime) {
        let Some(session) = self.by_number.get_mut(&number) else {
            return;
        };
        link.last = Some(number);
        session.last_active = now;
        if link.sessions.insert(number) {
            session.connections += 1;
        }
        note_parties(session, link.parties, context);
    }

    fn say(
        &mut self,
        number: Option<Number>,
        direction: Direction,
        content: Content<'_>,
        context: &mut Context<'_>,
        now: BootTime,
    ) {
        let session = number.and_then(|number| self.by_number.get_mut(&number));
        let Some(session) = session else { return };
        session.last_active = now;
        match session.stage {
            Stage::Excluded => {}
            Stage::Announced => pass_on(session, context, direction, now, content),
            Stage::Waiting => {
                session.is_answered |= direction == Direction::ServerToClient;
                session.pending.push(Pending {
                    direction,
                    time: now,
                    content: content.into_owned(),
                });
                if session.is_ready(now) {
                    announce(session, context, now);
                }
            }
        }
    }

    fn end(&mut self, number: Number, reason: EndReason, context: &mut Context<'_>, now: BootTime) {
        let Some(mut session) = self.by_number.remove(&number) else {
            return;
        };
        for name in &session.names {
            if self.by_name.get(name) == Some(&number) {
                self.by_name.remove(name);
            }
        }
        if session.stage == Stage::Waiting && !session.pending.is_empty() {
            announce(&mut session, context, now);
        }
        if session.stage == Stage::Announced {
            context.output.session_ended(&session.id, reason, now);
        }
    }
}

/// Stands for a session's id, which may be long and is not needed itself.
fn key_of(id: &str) -> TargetKey {
    TargetKey::of(id.as_bytes())
}

fn is_initialize(message: &[u8]) -> bool {
    match parse(message) {
        Ok(Payload::Single(parsed)) => match parsed.message {
            Message::Request(request) => request.method == "initialize",
            Message::Notification(_) | Message::Response(_) => false,
        },
        Ok(Payload::Batch(_)) | Err(_) => false,
    }
}
