//! The policy, shared by both directions of a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcpinspect_core::model::{Direction, Timestamp};
use mcpinspect_engine::examine::Examiner;
use mcpinspect_judge::policy::Policy;
use mcpinspect_judge::policy::record::Record;
use mcpinspect_judge::policy::session::{Answering, Handled, Session};
use mcpinspect_judge::policy::situation::Parties;
use serde_json::value::RawValue;

use super::approvals::{Approver, SessionApprovals, ToolQuery, ToolStatuses};
use super::effects::Effects;
use super::log::Log;
use super::on_failure::OnFailure;
use super::person::{Person, SessionConsents};

/// Bytes to examine of a message that is too long.
const BEGINNING: usize = 64 * 1024;

/// The policy and its helpers, which all sessions of a guard share.
pub struct SharedPolicy {
    pub policy: Arc<Policy>,
    pub on_failure: OnFailure,
    pub effects: Effects,
    /// Knows which tools were approved, if a rule asks.
    pub approver: Option<Approver>,
    /// Asks a person whether a message may pass, if a rule wants that.
    pub person: Option<Person>,
}

impl SharedPolicy {
    /// Starts what the rules need.
    ///
    /// # Errors
    /// What a rule wants cannot be done, whatever the messages are.
    pub fn start(
        policy: Policy,
        on_failure: OnFailure,
        log: Log,
        server: &str,
    ) -> anyhow::Result<Self> {
        let approver = policy
            .asks_for_tool_status()
            .then(|| Approver::start(on_failure, server));
        let person = policy.asks_a_person().then(|| Person::start(on_failure));
        Ok(Self {
            effects: Effects::start(&policy, log)?,
            policy: Arc::new(policy),
            on_failure,
            approver: approver.transpose()?,
            person: person.transpose()?,
        })
    }
}

/// Judges messages of both directions of a session, one at a time.
pub struct Judge {
    state: Mutex<State>,
    /// The server's name.
    server: String,
    approvals: SessionApprovals,
    /// What a person allowed for the rest of the session.
    session_consents: SessionConsents,
    shared_policy: Arc<SharedPolicy>,
}

struct State {
    session: Session,
    examiner: Option<Examiner>,
}

impl Judge {
    /// For a session of lines.
    pub fn new(shared_policy: Arc<SharedPolicy>, parties: Parties) -> Self {
        Self::of(shared_policy, parties, |session| session)
    }

    /// For a session over HTTP.
    pub fn over_http(shared_policy: Arc<SharedPolicy>, parties: Parties) -> Self {
        Self::of(shared_policy, parties, Session::over_http)
    }

    fn of(
        shared_policy: Arc<SharedPolicy>,
        parties: Parties,
        kind: impl FnOnce(Session) -> Session,
    ) -> Self {
        let examiner = shared_policy
            .policy
            .asks_for_findings()
            .then(|| Examiner::new(&parties.server));
        let server = parties.server.clone();
        let session = kind(Session::new(Arc::clone(&shared_policy.policy), parties));
        Self {
            server,
            approvals: SessionApprovals::default(),
            session_consents: SessionConsents::default(),
            state: Mutex::new(State { session, examiner }),
            shared_policy,
        }
    }

    /// Whether there is nothing to judge.
    pub fn is_idle(&self) -> bool {
        self.shared_policy.policy.rules().is_empty()
    }

    /// Judges what is between two newlines.
    pub fn frame<'f>(&self, direction: Direction, frame: &'f [u8]) -> Handled<'f> {
        self.frame_of(0, &Answering::Unknown, direction, frame)
    }

    /// Judges a frame that belongs to an exchange; see [`Session::enter`] and [`Session::answering`].
    pub fn frame_of<'f>(
        &self,
        exchange: u64,
        answering: &Answering,
        direction: Direction,
        frame: &'f [u8],
    ) -> Handled<'f> {
        let time = Timestamp::now();
        let tool_statuses = self.look_up_tools(exchange, direction, frame);
        let mut state = self.state();
        let examiner = &mut state.examiner;
        let findings = examiner
            .as_mut()
            .map(|examiner| examiner.examine(direction, frame, time))
            .unwrap_or_default();
        self.prepare(&mut state.session, exchange, tool_statuses.as_ref());
        if let Some(person) = &self.shared_policy.person {
            let questions = state.session.questions(direction, frame, time, &findings);
            if !questions.is_empty() {
                // The other direction continues while a person thinks.
                drop(state);
                let consents = person.ask(
                    questions,
                    &self.shared_policy.policy,
                    &self.session_consents,
                );
                state = self.state();
                self.prepare(&mut state.session, exchange, tool_statuses.as_ref());
                state.session.note_consents(consents);
            }
        }
        state.session.answering(answering.clone());
        let handled = state.session.handle(direction, frame, time, &findings);
        drop(state);
        let effects = &self.shared_policy.effects;
        effects.tell(&handled.records);
        effects.copy(
            &handled,
            &self.shared_policy.policy,
            &self.server,
            direction,
            time,
        );
        handled
    }

    /// Tells the session what its next frame belongs to, and which tools were approved.
    fn prepare(&self, session: &mut Session, exchange: u64, tool_statuses: Option<&ToolStatuses>) {
        session.enter(exchange);
        if let (Some(tool_statuses), Some(approver)) = (tool_statuses, &self.shared_policy.approver)
        {
            session.forget_statuses();
            for (tool, status) in &tool_statuses.statuses {
                session.note_status(tool, *status);
            }
            if !tool_statuses.is_complete {
                session.suppose_status(approver.supposed());
            }
        }
    }

    /// Finds out which of the tools that a frame is about were approved, if a rule asks. Nothing else waits
    /// meanwhile.
    fn look_up_tools(
        &self,
        exchange: u64,
        direction: Direction,
        frame: &[u8],
    ) -> Option<ToolStatuses> {
        let approver = self.shared_policy.approver.as_ref()?;
        let mut query = ToolQuery::default();
        {
            let mut state = self.state();
            state.session.enter(exchange);
            let ask = &mut |tool: &str, definition: Option<&RawValue>| query.add(tool, definition);
            state.session.tools_in(direction, frame, ask);
        }
        Some(self.approvals.find(approver, &self.server, query))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether judging may have to wait for the daemon or a person.
    pub fn may_wait(&self) -> bool {
        self.shared_policy.approver.is_some() || self.shared_policy.person.is_some()
    }

    /// Whether a message passes if only its start is known.
    pub fn too_long(&self, direction: Direction, beginning: &[u8]) -> bool {
        let passes = self.shared_policy.on_failure == OnFailure::Open;
        let judged = self.unread(beginning, |session, beginning, time| {
            let mut record = session.too_long(direction, beginning, time)?;
            if passes {
                record.action = "allow";
            }
            Some(record)
        });
        judged || passes
    }

    /// Whether something passes that two readers may read differently, for this reason.
    pub fn ambiguous(&self, direction: Direction, text: &[u8], reason: &'static str) -> bool {
        self.unread(text, |session, text, time| {
            session.refusal(direction, text, time, reason)
        })
    }

    /// Whether there is no record; writes it if there is one.
    fn unread(
        &self,
        text: &[u8],
        record: impl FnOnce(&mut Session, &[u8], Timestamp) -> Option<Record>,
    ) -> bool {
        let text = text.get(..BEGINNING).unwrap_or(text);
        let record = {
            let mut state = self.state();
            record(&mut state.session, text, Timestamp::now())
        };
        self.shared_policy.effects.tell(record.as_slice());
        record.is_none()
    }
}
