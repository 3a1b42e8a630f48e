//! Programs looked at by a thread of their own, so that hashing a large file holds up nothing.
//!
//! A file system that does not answer holds up this thread alone: programs that come after it stay
//! unknown, which is said, and nothing is accepted for them.

use std::sync::mpsc::{Receiver, SyncSender, TryIter, TrySendError, sync_channel};
use std::thread;

use super::{Program, Programs};
use crate::model::{Pid, SessionId};
use crate::priority::Priority;

/// Most programs that wait to be looked at.
const WAITING: usize = 1024;

/// The thread.
#[derive(Debug)]
pub struct Background {
    wanted: SyncSender<(SessionId, Pid, Option<u64>)>,
    found: Receiver<(SessionId, Program)>,
}

impl Background {
    /// Starts the thread. It ends when this value is dropped.
    ///
    /// # Errors
    /// Where the system has no room for another thread.
    pub fn start() -> std::io::Result<Self> {
        let (wanted, requests) = sync_channel::<(SessionId, Pid, Option<u64>)>(WAITING);
        let (results, found) = sync_channel(WAITING);
        thread::Builder::new()
            .name("programs".to_owned())
            .spawn(move || {
                Priority::Background.claim();
                let mut programs = Programs::default();
                for (session, pid, start_time) in requests {
                    let started = start_time.or_else(|| crate::process::start_time(pid));
                    let program = started.and_then(|time| programs.of(pid, time));
                    if let Some(program) = program
                        && results.send((session, program)).is_err()
                    {
                        break;
                    }
                }
            })?;
        Ok(Self { wanted, found })
    }

    /// Has the program of a session's server looked at. `start_time` tells the process from a later
    /// one of its number, where it is known. Never waits.
    pub fn look_at(&self, session: &SessionId, pid: Pid, start_time: Option<u64>) {
        match self.wanted.try_send((session.clone(), pid, start_time)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                tracing::warn!(%session, %pid, "too many programs wait to be looked at; this one is not");
            }
            Err(TrySendError::Disconnected(_)) => {
                tracing::warn!(%session, %pid, "programs are not looked at any more");
            }
        }
    }

    /// The programs that were looked at since the last time. Never waits.
    pub fn found(&self) -> TryIter<'_, (SessionId, Program)> {
        self.found.try_iter()
    }
}
