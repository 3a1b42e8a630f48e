//! One open session: its two streams, and what they carry as messages.

use mcpinspect_core::model::{
    BlindMechanism, DefinitionHash, Direction, EndReason, FieldChange, GapReason, Pid, ServerPart,
    SessionStart, Timestamp,
};
use mcpinspect_core::session::PendingRequest;
use mcpinspect_core::wire::framing::{Framed, Framer};
use mcpinspect_core::wire::held::BufferUsage;
use mcpinspect_judge::detect::{Detector as _, Difference};
use mcpinspect_judge::registry::{Owner, Replaced};
use serde_json::value::RawValue;

use super::evaluation::Evaluation;
use super::limits::Limits;
use super::output::Overdue;
use super::sanitise;
use super::state::SessionState;
use crate::event::Event;
use crate::event::body::{BlindSpot, ServerChanged, SessionEnded, SessionStarted};

/// Most blind spots of one session to report.
const MAX_BLIND_SPOTS: usize = 64;

/// Most places to report at which the two ends of a session's streams differ. One is enough to stop
/// trusting a server.
const MAX_DISAGREEMENTS: u32 = 16;

/// An open session.
pub(super) struct LiveSession {
    client_to_server: Stream,
    server_to_client: Stream,
    blind_spots: Vec<(BlindMechanism, Pid)>,
    disagreements: u32,
    /// All of the session but its streams, so that a framer can hand it frames.
    state: SessionState,
}

/// An open stream.
#[derive(Default)]
struct Stream {
    /// Created with the stream's first input, which says where it starts.
    framer: Option<Framer>,
    /// Whether something was lost since the last message, beyond what the framer knows.
    gap_before: bool,
}

impl LiveSession {
    pub(super) fn new(start: &SessionStart, owner: Owner, limits: Limits) -> Self {
        Self {
            client_to_server: Stream::default(),
            server_to_client: Stream::default(),
            blind_spots: Vec::new(),
            disagreements: 0,
            state: SessionState::new(start, owner, limits),
        }
    }

    pub(super) fn announce(&self, start: &SessionStart, evaluation: &mut Evaluation<'_>) {
        let body = SessionStarted {
            fingerprint: start.server.fingerprint.clone(),
            name_source: start.server.name_source.clone(),
            url: start.endpoint.url().map(sanitise::url),
            server: start.server_party.clone(),
            client: start.client_party.clone(),
            joined_midstream: start.joined_midstream,
        };
        evaluation.report(Event::new(evaluation.time, self.state.subject(), body));
    }

    /// Reports that a server has taken the place of another that has pins.
    pub(super) fn report_replaced(
        &self,
        start: &SessionStart,
        replaced: &Replaced,
        evaluation: &mut Evaluation<'_>,
    ) {
        let server = &start.server;
        let change = |field: &str, previous: &str, new: &str| FieldChange {
            field: field.to_owned(),
            previous: previous.into(),
            new: new.into(),
        };
        let body = ServerChanged {
            item: ServerPart::Identity,
            previous_hash: DefinitionHash::of(replaced.fingerprint.as_bytes()),
            new_hash: DefinitionHash::of(server.fingerprint.as_bytes()),
            changes: vec![
                change("server_id", &replaced.name, &server.server_id.0),
                change("fingerprint", &replaced.fingerprint, &server.fingerprint),
            ],
            detections: Vec::new(),
            max_severity: None,
        };
        evaluation.report(Event::new(evaluation.time, self.state.subject(), body));
    }

    pub(super) fn parties_changed(&mut self, server_pid: Option<Pid>, client_pid: Option<Pid>) {
        self.state.info.server_pid = server_pid;
        self.state.info.client_pid = client_pid;
    }

    pub(super) fn program(&mut self, evaluation: &mut Evaluation<'_>, definition: &RawValue) {
        self.state.judge_program(evaluation, definition);
    }

    fn stream(&mut self, direction: Direction) -> (&mut Stream, &mut SessionState) {
        let stream = match direction {
            Direction::ClientToServer => &mut self.client_to_server,
            Direction::ServerToClient => &mut self.server_to_client,
        };
        (stream, &mut self.state)
    }

    /// Takes in a stream's next bytes.
    pub(super) fn bytes(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        direction: Direction,
        position: u64,
        bytes: &[u8],
    ) {
        self.feed(evaluation, direction, position, bytes, |framer, emit| {
            framer.push(position, bytes, emit);
        });
    }

    /// Takes in a whole message, of a transport that frames messages itself.
    pub(super) fn message(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        direction: Direction,
        position: u64,
        bytes: &[u8],
    ) {
        self.feed(evaluation, direction, position, bytes, |framer, emit| {
            framer.message(position, bytes, emit);
        });
    }

    /// Counts bytes at `position`, and takes in the frames that `frame` makes of them.
    fn feed(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        direction: Direction,
        position: u64,
        bytes: &[u8],
        frame: impl FnOnce(&mut Framer, &mut dyn FnMut(Framed<'_>)),
    ) {
        self.report_jump(evaluation, direction, position);
        let (stream, state) = self.stream(direction);
        state.bytes += bytes.len() as u64;
        let gap_before = &mut stream.gap_before;
        let framer = stream.framer.get_or_insert_with(|| state.framer(position));
        frame(framer, &mut |framed| {
            state.framed(evaluation, direction, framed, gap_before);
        });
    }

    /// Reports a gap if a stream continues beyond the expected position.
    fn report_jump(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        direction: Direction,
        position: u64,
    ) {
        let (stream, state) = self.stream(direction);
        let expected = stream.framer(state, position).position();
        if position > expected {
            self.gap(
                evaluation,
                direction,
                expected,
                position - expected,
                GapReason::PositionJump,
            );
        }
    }

    /// What unfinished messages occupy.
    pub(super) fn unfinished(&self) -> BufferUsage {
        [&self.client_to_server, &self.server_to_client]
            .iter()
            .filter_map(|stream| stream.framer.as_ref())
            .map(Framer::usage)
            .sum()
    }

    /// Those that hold them.
    pub(super) fn framers(&mut self) -> impl Iterator<Item = &mut Framer> {
        [&mut self.client_to_server, &mut self.server_to_client]
            .into_iter()
            .filter_map(|stream| stream.framer.as_mut())
    }

    /// Notes lost bytes, and reports them.
    pub(super) fn gap(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        direction: Direction,
        position: u64,
        bytes_lost: u64,
        reason: GapReason,
    ) {
        let (stream, state) = self.stream(direction);
        stream.framer(state, position).gap(position, bytes_lost);
        state.lost(evaluation, direction, position, bytes_lost, reason);
        evaluation.flush();
    }

    /// Reports that what was written is not what was read.
    pub(super) fn ends_disagree(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        difference: &Difference<'_>,
    ) {
        if self.disagreements < MAX_DISAGREEMENTS {
            self.disagreements += 1;
            let context = self.state.context(evaluation.time);
            let verdict = evaluation
                .judges
                .detector
                .ends_disagree(&context, difference);
            self.state.report_findings(evaluation, &verdict, None);
        }
    }

    /// Reports a blind spot, once per process and mechanism: it lasts, and a call that shows it
    /// is made for every message.
    pub(super) fn blind_spot(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        mechanism: BlindMechanism,
        pid: Pid,
        uid: Option<u32>,
    ) {
        // What went that way may have been a request or a page.
        self.state.note_loss();
        let spot = (mechanism, pid);
        if self.blind_spots.len() == MAX_BLIND_SPOTS || self.blind_spots.contains(&spot) {
            return;
        }
        self.blind_spots.push(spot);
        let body = BlindSpot {
            mechanism,
            pid,
            uid,
            found: None,
            covered_by_other_end: false,
        };
        evaluation.report(Event::new(evaluation.time, self.state.subject(), body));
    }

    /// Marks and returns the requests that have become overdue by `now`.
    pub(super) fn overdue(&mut self, now: Timestamp) -> Vec<Overdue> {
        self.state.overdue(now)
    }

    pub(super) fn report_overdue(&mut self, evaluation: &mut Evaluation<'_>, overdue: &Overdue) {
        self.state.report_overdue(evaluation, overdue);
    }

    /// The requests in flight, with their direction.
    pub(super) fn requests(&self) -> impl Iterator<Item = (Direction, &PendingRequest)> {
        self.state.session.requests()
    }

    pub(super) fn end_of_stream(&mut self, evaluation: &mut Evaluation<'_>, direction: Direction) {
        let (stream, state) = self.stream(direction);
        let gap_before = &mut stream.gap_before;
        if let Some(framer) = &mut stream.framer {
            framer.finish(|framed| state.framed(evaluation, direction, framed, gap_before));
        }
    }

    pub(super) fn end(&mut self, evaluation: &mut Evaluation<'_>, reason: EndReason) {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            self.end_of_stream(evaluation, direction);
        }
        let state = &self.state;
        let body = SessionEnded {
            reason,
            messages: state.session.messages(),
            bytes: state.bytes,
            bytes_lost: state.bytes_lost,
            unanswered: state.session.unanswered(),
        };
        evaluation.report(Event::new(evaluation.time, state.subject(), body));
    }
}

impl Stream {
    fn framer(&mut self, state: &SessionState, position: u64) -> &mut Framer {
        self.framer.get_or_insert_with(|| state.framer(position))
    }
}
