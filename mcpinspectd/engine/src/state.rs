//! What is known about an open session, apart from its streams.

use mcpinspect_core::model::{
    Action, Direction, GapReason, ServerEndpoint, SessionStart, Timestamp,
};
use mcpinspect_core::session::Session;
use mcpinspect_core::wire::framing::Framer;
use mcpinspect_judge::detect::{SessionContext, Verdict};
use mcpinspect_judge::registry::{Owner, ServerOf};

use super::definitions::Definitions;
use super::evaluation::Evaluation;
use super::limits::Limits;
use super::output::SessionInfo;
use super::throttle::Throttle;
use crate::event::body::{CaptureGap, Detected};
use crate::event::{Event, Subject};

use super::sanitise;

/// Most findings of one message or definition to report.
const MAX_DETECTIONS: usize = 16;

/// A session without its streams.
pub(super) struct SessionState {
    pub(super) info: SessionInfo,
    /// Who publishes it, if its launch shows that.
    pub(super) publisher: Option<Box<str>>,
    /// The user that the server runs as, where known.
    pub(super) user: Option<u32>,
    /// Whose pins it is held to.
    pub(super) owner: Owner,
    pub(super) endpoint: ServerEndpoint,
    pub(super) session: Session,
    pub(super) definitions: Definitions,
    pub(super) bytes: u64,
    pub(super) bytes_lost: u64,
    pub(super) invalid: Throttle,
    pub(super) hung: Throttle,
    pub(super) limits: Limits,
    joined_midstream: bool,
}

impl SessionState {
    pub(super) fn new(start: &SessionStart, owner: Owner, limits: Limits) -> Self {
        Self {
            info: SessionInfo {
                id: start.id.clone(),
                server_id: start.server.server_id.clone(),
                server_pid: start.server_party.as_ref().map(|party| party.pid),
                client_pid: start.client_party.as_ref().map(|party| party.pid),
            },
            publisher: start.server.publisher.clone(),
            user: start.server_party.as_ref().map(|party| party.uid),
            owner,
            endpoint: start.endpoint.clone(),
            session: Session::new(limits.max_in_flight, start.joined_midstream),
            definitions: Definitions::default(),
            bytes: 0,
            bytes_lost: 0,
            invalid: Throttle::default(),
            hung: Throttle::default(),
            limits,
            joined_midstream: start.joined_midstream,
        }
    }

    /// A framer for a stream whose first input is at `position`.
    pub(super) fn framer(&self, position: u64) -> Framer {
        if self.joined_midstream {
            Framer::joined_at(position, self.limits.max_message)
        } else {
            Framer::new(self.limits.max_message)
        }
    }

    /// The subject of this session's events.
    pub(super) fn subject(&self) -> Subject {
        Subject {
            session_id: self.info.id.clone(),
            server_id: self.info.server_id.clone(),
            server_type: self.endpoint.transport(),
            server_pid: self.info.server_pid,
            server_uid: self.user,
        }
    }

    /// What detection knows about the session.
    pub(super) fn context(&self, time: Timestamp) -> SessionContext<'_> {
        SessionContext {
            server_id: &self.info.server_id,
            session_id: &self.info.id,
            user: self.user,
            client: self.info.client_pid,
            time,
        }
    }

    /// The server as its owner has it.
    pub(super) fn server_of(&self) -> ServerOf<'_> {
        ServerOf::new(self.owner, &self.info.server_id.0)
    }

    /// Notes that messages may have been missed.
    pub(super) fn note_loss(&mut self) {
        self.session.gap();
        self.definitions.gap();
    }

    /// Counts lost bytes, and reports them.
    pub(super) fn lost(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        direction: Direction,
        position: u64,
        bytes_lost: u64,
        reason: GapReason,
    ) {
        self.bytes_lost += bytes_lost;
        self.note_loss();
        let body = CaptureGap {
            direction,
            bytes_lost,
            position,
            reason,
        };
        evaluation.report(Event::new(evaluation.time, self.subject(), body));
    }

    /// Reports what detection found, grouped by category.
    pub(super) fn report_findings(
        &self,
        evaluation: &mut Evaluation<'_>,
        verdict: &Verdict,
        tool: Option<&str>,
    ) {
        evaluation.raise(verdict.action);
        if verdict.action == Action::None {
            return;
        }
        let mut findings: Vec<Detected> = Vec::new();
        for detection in verdict.detections.iter().take(MAX_DETECTIONS) {
            let category = &detection.category;
            let same = |finding: &&mut Detected| finding.detection.category == *category;
            match findings.iter_mut().find(same) {
                Some(finding) => finding.relate(detection.clone()),
                None => findings.push(Detected {
                    tool_name: tool.map(sanitise::name),
                    detection: detection.clone(),
                    related: Vec::new(),
                    action: verdict.action,
                }),
            }
        }
        for finding in findings {
            evaluation.report(Event::new(evaluation.time, self.subject(), finding));
        }
    }
}
