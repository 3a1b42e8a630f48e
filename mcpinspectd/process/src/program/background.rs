//! A thread that examines programs, so that hashing a large file delays nothing else.
//!
//! A file system that does not answer blocks only this thread. Programs that come after it stay
//! unknown, which is logged, and the policy accepts nothing from them.

use std::sync::mpsc::{Receiver, SyncSender, TryIter, TrySendError, sync_channel};
use std::thread;

use mcpinspect_core::model::{Pid, SessionId};
use mcpinspect_runtime::priority::Priority;

use super::{Program, Programs};
use crate::info;

/// Most programs that may wait to be examined.
const WAITING: usize = 1024;

/// The thread that examines programs.
#[derive(Debug)]
pub struct Background {
    wanted: SyncSender<(SessionId, Pid, Option<u64>)>,
    found: Receiver<(SessionId, Program)>,
}

impl Background {
    /// Starts the thread. It ends when this value is dropped.
    ///
    /// # Errors
    /// If the system cannot start another thread.
    pub fn start() -> std::io::Result<Self> {
        let (wanted, requests) = sync_channel::<(SessionId, Pid, Option<u64>)>(WAITING);
        let (results, found) = sync_channel(WAITING);
        thread::Builder::new()
            .name("programs".to_owned())
            .spawn(move || {
                Priority::Background.claim();
                let mut programs = Programs::default();
                for (session, pid, start_time) in requests {
                    let started = start_time.or_else(|| info::start_time(pid));
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

    /// Requests an examination of the program behind a session's server. `start_time`, if known, distinguishes
    /// the process from a later one with its number. Never blocks.
    pub fn look_at(&self, session: &SessionId, pid: Pid, start_time: Option<u64>) {
        match self.wanted.try_send((session.clone(), pid, start_time)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                tracing::warn!(%session, %pid, "too many programs are waiting to be examined; this one is skipped");
            }
            Err(TrySendError::Disconnected(_)) => {
                tracing::warn!(%session, %pid, "programs are no longer examined");
            }
        }
    }

    /// The programs that were examined since the last call. Never blocks.
    pub fn found(&self) -> TryIter<'_, (SessionId, Program)> {
        self.found.try_iter()
    }
}
