//! Containment requested by the policy, on a separate thread.
//!
//! A finding may have its server frozen, and that must not depend on anything a user can exhaust: the
//! thread is started with the daemon and has its own queue, which no caller on the bus shares. A
//! server's processes may not be found at once, for example while they execute another program, so
//! an attempt that reaches none is repeated for some seconds. Every outcome is an event.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use mcpinspect_contain::{ContainError, Contained, Trigger};
use mcpinspect_core::model::{ContainmentAction, Process};
use mcpinspect_runtime::backoff::Backoff;
use mcpinspect_runtime::priority::Priority;

use super::{ControlHandle, SessionParties};

/// Most servers that may wait to be contained. Each session is contained at most once.
const MAX_WAITING: usize = 4096;

/// Attempts before containment is reported as failed: some three seconds.
const ATTEMPTS: u32 = 8;

/// The waits between them.
const WAITS: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// A server to contain.
#[derive(Debug)]
pub struct ContainmentJob {
    /// The session in which something was found.
    pub session: SessionParties,
    /// The clients of all sessions, which are spared.
    pub clients: Vec<Process>,
    /// What to do.
    pub action: ContainmentAction,
    /// The rule that found something.
    pub pattern: String,
}

/// The thread's queue. The thread ends when this is dropped.
#[derive(Debug)]
pub struct ContainmentThread(SyncSender<ContainmentJob>);

impl ContainmentThread {
    /// Starts the thread, which reports through `control`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(control: ControlHandle) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(MAX_WAITING);
        thread::Builder::new()
            .name("contain".to_owned())
            .spawn(move || {
                Priority::Pipeline.claim();
                let mut contain = |job: &ContainmentJob, is_last| attempt(&control, job, is_last);
                run(&queue, &mut contain);
            })?;
        Ok(Self(jobs))
    }

    /// Queues a server. Returns whether there was room.
    pub fn contain(&self, job: ContainmentJob) -> bool {
        match self.0.try_send(job) {
            Ok(()) => true,
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                tracing::error!(server = %job.session.server_id, "too many servers are waiting to be contained");
                false
            }
        }
    }
}

/// A job in progress.
struct Waiting {
    job: ContainmentJob,
    due: Instant,
    left: u32,
    backoff: Backoff,
}

/// Carries out jobs until the queue closes. `contain` returns whether the job is over, and is told
/// which attempt is the last.
fn run(queue: &Receiver<ContainmentJob>, contain: &mut dyn FnMut(&ContainmentJob, bool) -> bool) {
    let mut waiting: Vec<Waiting> = Vec::new();
    loop {
        let next = match waiting.iter().map(|one| one.due).min() {
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => queue.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match next {
            Ok(job) => waiting.push(Waiting {
                job,
                due: Instant::now(),
                left: ATTEMPTS,
                backoff: WAITS,
            }),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        waiting.retain_mut(|one| {
            if one.due > Instant::now() {
                return true;
            }
            one.left -= 1;
            if contain(&one.job, one.left == 0) || one.left == 0 {
                return false;
            }
            one.due = Instant::now() + one.backoff.wait();
            true
        });
    }
}

/// Tries once. Returns whether there is nothing left to try.
fn attempt(control: &ControlHandle, job: &ContainmentJob, is_last: bool) -> bool {
    let trigger = Trigger::Policy {
        pattern: job.pattern.clone(),
    };
    let tried = control.contain_session(&job.session, &job.clients, job.action, &trigger);
    let error = match tried {
        Ok(_) => return true,
        // No later attempt changes whose process it is.
        Err(error @ ContainError::Refused(_)) => error,
        Err(error) if is_last => error,
        Err(error) => {
            tracing::debug!(server = %job.session.server_id, %error, "not contained yet");
            return false;
        }
    };
    tracing::error!(
        server = %job.session.server_id,
        %error,
        "the policy requires to {} this server, but it failed",
        job.action.as_str()
    );
    let nothing = Contained {
        missed: vec![error.to_string()],
        ..Contained::default()
    };
    control.report(
        &job.session.server_id,
        Some(&job.session),
        job.action,
        &trigger,
        &nothing,
    );
    true
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::{ServerId, ServerSide, SessionId};

    use super::*;

    fn job(server: &str) -> ContainmentJob {
        ContainmentJob {
            session: SessionParties {
                session: SessionId(server.into()),
                server_id: ServerId(server.into()),
                server: None,
                client: None,
                server_side: ServerSide::default(),
            },
            clients: Vec::new(),
            action: ContainmentAction::Freeze,
            pattern: "p".to_owned(),
        }
    }

    #[test]
    fn an_attempt_that_fails_is_repeated_and_holds_up_no_other() {
        let (jobs, queue) = sync_channel(MAX_WAITING);
        for server in ["stubborn", "late", "easy"] {
            assert!(ContainmentThread(jobs.clone()).contain(job(server)));
        }
        let mut seen = Vec::new();
        let mut jobs = Some(jobs);
        run(&queue, &mut |job, is_last| {
            let server = job.session.server_id.0.to_string();
            let tries = seen.iter().filter(|(one, _)| *one == server).count() + 1;
            seen.push((server.clone(), is_last));
            if is_last {
                jobs = None;
            }
            server == "easy" || (server == "late" && tries == 2)
        });
        let of = |server: &str| -> Vec<bool> {
            let of = seen.iter().filter(|(one, _)| one == server);
            of.map(|(_, is_last)| *is_last).collect()
        };
        assert_eq!(of("easy"), [false]);
        assert_eq!(of("late"), [false, false]);
        let stubborn = of("stubborn");
        assert_eq!(stubborn.len() as u32, ATTEMPTS);
        assert_eq!(stubborn.iter().filter(|is_last| **is_last).count(), 1);
        let easy = seen.iter().position(|(server, _)| server == "easy");
        let end = seen.iter().position(|(_, is_last)| *is_last);
        assert!(easy < end);
    }
}
