//! Where discovery tells what it found.

use std::borrow::Cow;

use mcpinspect_core::model::{
    BlindMechanism, BootTime, Direction, EndReason, Input, InputSink, Pid, SessionId, StreamEvent,
};

use crate::capture::{BootClock, Origin};

/// Takes the inputs, whose times are calendar time.
pub struct Output<'a> {
    pub clock: BootClock,
    pub sink: &'a mut dyn InputSink,
}

impl Output<'_> {
    /// Passes on an event of a session's stream.
    pub fn event(
        &mut self,
        session: &SessionId,
        direction: Direction,
        event: StreamEvent<'_>,
        time: BootTime,
    ) {
        let input = event.into_input(session, direction, self.clock.at(time));
        self.sink.input(input);
    }

    /// Reports that bytes move past the probes. `session`: where, if known; `user`: whose share is used up,
    /// if that is why; `found`: what was found out.
    pub fn blind_spot(
        &mut self,
        session: Option<&SessionId>,
        mechanism: BlindMechanism,
        origin: Origin,
        user: Option<u32>,
        found: Option<String>,
    ) {
        self.sink.input(Input::BlindSpot {
            session: session.map_or_else(|| Cow::Owned(SessionId::none()), Cow::Borrowed),
            mechanism,
            pid: Pid(origin.tgid),
            uid: user,
            found: found.map(Cow::Owned),
            time: self.clock.at(origin.time),
        });
    }

    /// Reports that a session has ended.
    pub fn session_ended(&mut self, session: &SessionId, reason: EndReason, time: BootTime) {
        self.sink.input(Input::SessionEnded {
            session: session.into(),
            reason,
            time: self.clock.at(time),
        });
    }
}
