//! The policy, shared by both directions of a session.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::bail;
use mcpinspectd::model::{Direction, Timestamp};
use mcpinspectd::policy::Policy;
use mcpinspectd::policy::examine::Examiner;
use mcpinspectd::policy::record::Record;
use mcpinspectd::policy::session::{Handled, Session};
use mcpinspectd::policy::situation::Parties;

use super::log::Log;

/// Bytes of a message that is too long that are looked at.
const BEGINNING: usize = 64 * 1024;

/// What becomes of what cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnFailure {
    /// It passes.
    Open,
    /// It does not pass.
    Closed,
}

/// Refuses a policy with conditions that the guard knows nothing about.
pub fn refuse_unknown(policy: &Policy) -> anyhow::Result<()> {
    if policy.asks_for_tool_status() {
        bail!(
            "a rule asks for `tool_status`, and the guard does not know yet which tools were approved"
        );
    }
    Ok(())
}

/// What all sessions of a guard have in common.
pub struct Bench {
    pub policy: Arc<Policy>,
    pub on_failure: OnFailure,
    pub log: Log,
}

/// Judges messages of both directions of a session, one at a time.
pub struct Judge {
    state: Mutex<State>,
    bench: Arc<Bench>,
}

struct State {
    session: Session,
    examiner: Option<Examiner>,
}

impl Judge {
    /// For a session of lines.
    pub fn new(bench: Arc<Bench>, parties: Parties) -> Self {
        Self::of(bench, parties, |session| session)
    }

    /// For a session over HTTP.
    #[cfg(feature = "tools")]
    pub fn over_http(bench: Arc<Bench>, parties: Parties) -> Self {
        Self::of(bench, parties, Session::over_http)
    }

    fn of(bench: Arc<Bench>, parties: Parties, kind: impl FnOnce(Session) -> Session) -> Self {
        let examiner = bench
            .policy
            .asks_for_findings()
            .then(|| Examiner::new(&parties.server));
        let session = kind(Session::new(Arc::clone(&bench.policy), parties));
        Self {
            state: Mutex::new(State { session, examiner }),
            bench,
        }
    }

    /// Whether there is nothing to judge.
    pub fn is_idle(&self) -> bool {
        self.bench.policy.rules().is_empty()
    }

    /// Judges what stands between two newlines.
    pub fn frame<'f>(&self, direction: Direction, frame: &'f [u8]) -> Handled<'f> {
        self.frame_of(0, direction, frame)
    }

    /// Judges a frame that belongs to an exchange; see [`Session::enter`].
    pub fn frame_of<'f>(
        &self,
        exchange: u64,
        direction: Direction,
        frame: &'f [u8],
    ) -> Handled<'f> {
        let time = Timestamp::now();
        let handled = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { session, examiner } = &mut *state;
            let findings = examiner
                .as_mut()
                .map(|examiner| examiner.examine(direction, frame, time))
                .unwrap_or_default();
            session.enter(exchange);
            session.handle(direction, frame, time, &findings)
        };
        self.bench.log.write(&handled.records);
        handled
    }

    /// Whether a message passes of which only the beginning is known.
    pub fn too_long(&self, direction: Direction, beginning: &[u8]) -> bool {
        let passes = self.bench.on_failure == OnFailure::Open;
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
    #[cfg(feature = "tools")]
    pub fn ambiguous(&self, direction: Direction, text: &[u8], reason: &'static str) -> bool {
        self.unread(text, |session, text, time| {
            session.refusal(direction, text, time, reason)
        })
    }

    /// Whether there is no record, which is written if there is one.
    fn unread(
        &self,
        text: &[u8],
        record: impl FnOnce(&mut Session, &[u8], Timestamp) -> Option<Record>,
    ) -> bool {
        let text = text.get(..BEGINNING).unwrap_or(text);
        let record = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            record(&mut state.session, text, Timestamp::now())
        };
        self.bench.log.write(record.as_slice());
        record.is_none()
    }
}
