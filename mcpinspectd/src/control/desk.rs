//! From a caller that waits to the pipeline that works, and back.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use super::{Control, ControlError, Decision, Seat, Status};
use crate::contain::{self, ContainError, Contained, Process, Target, Trigger};
use crate::event::Event;
use crate::model::{ContainmentAction, ServerId, Timestamp};
use crate::registry::ServerNames;
use crate::text::escape::plain;

/// Wishes that may wait. The pipeline looks for them several times a second.
const WAITING: usize = 64;

/// How long a caller waits. The pipeline is never away for so long unless it is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the pipeline is asked.
#[derive(Debug)]
pub enum Wish {
    /// How capture is doing.
    Status(SyncSender<Status>),
    /// To carry out what a person decided.
    Decide {
        /// What.
        decision: Decision,
        /// Who.
        uid: u32,
        /// What came of it.
        reply: SyncSender<Result<(), ControlError>>,
    },
    /// Who is in session with a server now.
    Attendance {
        /// Which.
        server: String,
        /// What is known.
        reply: SyncSender<Attendance>,
    },
    /// To publish what was done beside the pipeline, in its place among the other events.
    Tell(Box<Event>),
}

/// What it takes to find a server's processes.
#[derive(Debug)]
pub struct Attendance {
    /// The parties of its sessions.
    pub seats: Vec<Seat>,
    /// The clients of all sessions, of other servers too.
    pub clients: Vec<Process>,
    /// The names that were given out to servers.
    pub names: Vec<(String, String)>,
}

/// The caller's side. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Desk(SyncSender<Wish>);

/// The pipeline's side.
#[derive(Debug)]
pub struct Tray(Receiver<Wish>);

/// Both sides of a desk.
pub fn desk() -> (Desk, Tray) {
    let (sender, receiver) = sync_channel(WAITING);
    (Desk(sender), Tray(receiver))
}

impl Desk {
    /// Contains the server in `seat`, sparing `clients`, and has the pipeline tell of it.
    ///
    /// # Errors
    /// See [`contain::contain`].
    pub fn contain_seat(
        &self,
        seat: &Seat,
        clients: &[Process],
        measure: ContainmentAction,
        trigger: &Trigger,
    ) -> Result<Contained, ContainError> {
        let targets: Vec<Target> = target(seat).into_iter().collect();
        let done = contain::contain(&targets, clients, measure)?;
        self.tell(&seat.server_id, Some(seat), measure, trigger, &done);
        Ok(done)
    }

    fn tell(
        &self,
        server: &ServerId,
        seat: Option<&Seat>,
        measure: ContainmentAction,
        trigger: &Trigger,
        done: &Contained,
    ) {
        let session = seat.map(|seat| &seat.session);
        let pid = seat.and_then(|seat| Some(seat.server?.pid));
        let event = contain::event(
            server,
            session,
            pid,
            measure,
            trigger,
            done,
            Timestamp::now(),
        );
        // It was done either way; and whoever asked is answered.
        if let Err(error) = self.put(Wish::Tell(Box::new(event))) {
            tracing::error!(%server, measure = measure.as_str(), %error, "contained, and no event says so");
        }
    }

    fn put(&self, wish: Wish) -> Result<(), ControlError> {
        let failed = |why: &str| ControlError::Failed(why.to_owned());
        self.0.try_send(wish).map_err(|error| match error {
            TrySendError::Full(_) => failed("too many callers wait already; try again"),
            TrySendError::Disconnected(_) => failed("the daemon is on its way out"),
        })
    }

    fn ask<R>(&self, wish: impl FnOnce(SyncSender<R>) -> Wish) -> Result<R, ControlError> {
        let failed = |why: &str| ControlError::Failed(why.to_owned());
        let (reply, answer) = sync_channel(1);
        self.put(wish(reply))?;
        answer.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => failed(
                "the daemon is too busy to say whether it was done; look before trying again",
            ),
            RecvTimeoutError::Disconnected => failed("the daemon is on its way out"),
        })
    }
}

impl Control for Desk {
    fn status(&self) -> Result<Status, ControlError> {
        self.ask(Wish::Status)
    }

    fn decide(&self, decision: Decision, uid: u32) -> Result<(), ControlError> {
        self.ask(|reply| Wish::Decide {
            decision,
            uid,
            reply,
        })?
    }

    fn contain(
        &self,
        server: &str,
        measure: ContainmentAction,
        uid: u32,
    ) -> Result<Contained, ControlError> {
        let Attendance {
            seats,
            clients,
            names,
        } = self.ask(|reply| Wish::Attendance {
            server: server.to_owned(),
            reply,
        })?;
        let mut targets: Vec<Target> = seats.iter().filter_map(target).collect();
        if targets.is_empty() {
            targets = contain::find(server, ServerNames::known(names));
        }
        if targets.is_empty() {
            return Err(ControlError::Unknown(format!(
                "a running server {}",
                plain(server)
            )));
        }
        let done = contain::contain(&targets, &clients, measure)
            .map_err(|error| ControlError::Failed(error.to_string()))?;
        let trigger = Trigger::Person { uid };
        let server = ServerId(server.into());
        self.tell(&server, seats.first(), measure, &trigger, &done);
        Ok(done)
    }
}

fn target(seat: &Seat) -> Option<Target> {
    Some(Target {
        server: seat.server?,
        client: seat.client,
    })
}

impl Tray {
    /// The next wish, if one waits.
    pub fn next(&self) -> Option<Wish> {
        self.0.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing test may panic")]
    use super::*;

    #[test]
    fn a_wish_is_answered_on_the_other_side() {
        let (desk, tray) = desk();
        let caller = std::thread::spawn(move || desk.decide(Decision::Reload, 7));
        let wish = loop {
            if let Some(wish) = tray.next() {
                break wish;
            }
            std::thread::yield_now();
        };
        let Wish::Decide {
            decision: Decision::Reload,
            uid: 7,
            reply,
        } = wish
        else {
            panic!("{wish:?}");
        };
        let refusal = Err(ControlError::Stale("no".to_owned()));
        reply.send(refusal.clone()).unwrap();
        assert_eq!(caller.join().unwrap(), refusal);
    }

    #[test]
    fn nobody_waits_for_a_daemon_that_is_gone_or_swamped() {
        let (desk, tray) = desk();
        let mut waiting = Vec::new();
        for _ in 0..WAITING {
            let (reply, answer) = sync_channel(1);
            desk.0.send(Wish::Status(reply)).unwrap();
            waiting.push(answer);
        }
        let error = desk.status().unwrap_err().to_string();
        assert!(error.contains("too many callers"), "{error}");
        drop(tray);
        let error = desk.status().unwrap_err().to_string();
        assert!(error.contains("on its way out"), "{error}");
    }
}
