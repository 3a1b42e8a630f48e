//! The policy, shared by both directions.

use std::sync::{Arc, Mutex, PoisonError};

use mcpinspectd::model::{Direction, Timestamp};
use mcpinspectd::policy::Policy;
use mcpinspectd::policy::examine::Examiner;
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

/// Judges messages of both directions, one at a time.
pub struct Judge {
    state: Mutex<State>,
    is_idle: bool,
    on_failure: OnFailure,
    log: Log,
}

struct State {
    session: Session,
    examiner: Option<Examiner>,
}

impl Judge {
    pub fn new(policy: Policy, parties: Parties, on_failure: OnFailure, log: Log) -> Self {
        let is_idle = policy.rules().is_empty();
        let examiner = policy
            .asks_for_findings()
            .then(|| Examiner::new(&parties.server));
        let session = Session::new(Arc::new(policy), parties);
        Self {
            state: Mutex::new(State { session, examiner }),
            is_idle,
            on_failure,
            log,
        }
    }

    /// Whether there is nothing to judge.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Judges what stands between two newlines.
    pub fn frame<'f>(&self, direction: Direction, frame: &'f [u8]) -> Handled<'f> {
        let time = Timestamp::now();
        let handled = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { session, examiner } = &mut *state;
            let findings = examiner
                .as_mut()
                .map(|examiner| examiner.examine(direction, frame, time))
                .unwrap_or_default();
            session.handle(direction, frame, time, &findings)
        };
        self.log.write(&handled.records);
        handled
    }

    /// Whether a message passes of which only the beginning is known.
    pub fn too_long(&self, direction: Direction, beginning: &[u8]) -> bool {
        let beginning = beginning.get(..BEGINNING).unwrap_or(beginning);
        let time = Timestamp::now();
        let record = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.session.too_long(direction, beginning, time)
        };
        let Some(mut record) = record else {
            return true;
        };
        let passes = self.on_failure == OnFailure::Open;
        if passes {
            record.action = "allow";
        }
        self.log.write(&[record]);
        passes
    }
}
