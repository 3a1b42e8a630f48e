//! Identifies servers without waiting indefinitely for files.
//!
//! A server's name and package are looked up in its user's files: configurations of clients, links to
//! commands, the location of the home directory. These may be on a file server that does not answer, or in a
//! file system of the user's own that answers when it likes, and every other session would wait for
//! them. So they are read on a separate thread. If that takes too long, the server is identified by its
//! launch alone, and so are that user's other servers for some minutes: a user who is slow on purpose delays
//! the rest by [`PATIENCE`] in each [`PENALTY`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use mcpinspect_core::model::{Pid, ServerIdentity};
use mcpinspect_runtime::priority::Priority;

use super::clients::{self, ClientConfigs};
use super::launch::{self, Launch};
use super::{Launched, of_launch, of_process, of_server, of_url, of_url_alone, unknown};
use crate::ProcessInfo;
use crate::info::ProcessSnapshot;

/// How long to wait for files. A cold disk and a busy machine take less.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long nothing is read for a user whose files took longer.
const PENALTY: Duration = Duration::from_secs(300);
/// Most such users to remember.
const SLOW_USERS: usize = 1024;
/// Most threads that may still wait for such files.
const WAITING_THREADS: usize = 16;

/// Identifies servers, with a limit on waiting for the files that name them.
#[derive(Default)]
pub struct Examiner {
    configs: Arc<ClientConfigs>,
    /// Until when nothing is read for which user.
    slow: HashMap<u32, Instant>,
    waiting: Arc<AtomicUsize>,
}

impl Examiner {
    /// Identifies a server by what it was launched as, as [`of_server`] does.
    pub fn server(&mut self, server: Launched<'_>) -> ServerIdentity {
        let Some(decisive) = server.origin.or(server.serving) else {
            return unknown();
        };
        let (origin, serving) = (server.origin.cloned(), server.serving.cloned());
        let client = server.client;
        let configs = Arc::clone(&self.configs);
        let examine = move || {
            let launched = Launched {
                origin: origin.as_ref(),
                serving: serving.as_ref(),
                client,
            };
            of_server(launched, &configs)
        };
        self.within(PATIENCE, decisive.process().uid, examine)
            .unwrap_or_else(|| by_launch(decisive, client))
    }

    /// Identifies a server by its process, as [`of_process`] does.
    pub fn process(&mut self, info: &ProcessInfo) -> ServerIdentity {
        let (owned, configs) = (info.clone(), Arc::clone(&self.configs));
        let examine = move || of_process(Some(&owned), None, &configs);
        self.within(PATIENCE, info.process().uid, examine)
            .unwrap_or_else(|| by_launch(info, None))
    }

    /// Identifies a server by its URL, as [`of_url`] does.
    pub fn url(&mut self, url: &str, client: Option<&ProcessInfo>) -> ServerIdentity {
        let Some(info) = client else {
            return of_url_alone(url);
        };
        let (owned, configs) = (info.clone(), Arc::clone(&self.configs));
        let text = url.to_owned();
        let examine = move || of_url(&text, Some(&owned), &configs);
        self.within(PATIENCE, info.process().uid, examine)
            .unwrap_or_else(|| of_url_alone(url))
    }

    /// The hosts of the servers that a known client's configuration lists and that it reaches over TLS.
    pub fn secure_hosts(&mut self, client: &ProcessSnapshot) -> Vec<String> {
        if clients::program_of(client).is_none() {
            return Vec::new();
        }
        let (owned, configs) = (client.clone(), Arc::clone(&self.configs));
        let examine = move || {
            let home = launch::home_of(owned.uid);
            configs.secure_hosts(&owned, home.as_deref())
        };
        self.within(PATIENCE, client.uid, examine)
            .unwrap_or_default()
    }

    /// The result of `work` about a server of user `uid`, if it arrives in time.
    fn within<T: Send + 'static>(
        &mut self,
        patience: Duration,
        uid: u32,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let now = Instant::now();
        if self.slow.get(&uid).is_some_and(|until| now < *until) {
            return None;
        }
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= WAITING_THREADS {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let (tell, told) = sync_channel(1);
        let waiting = Waiting(Arc::clone(&self.waiting));
        let started = std::thread::Builder::new()
            .name("identity".to_owned())
            .spawn(move || {
                Priority::Pipeline.claim();
                let found = work();
                drop(waiting);
                // If it is too late, no one receives it.
                let _ = tell.send(found);
            });
        if let Err(error) = started {
            tracing::warn!(%error, "cannot start the thread that identifies servers");
            return None;
        }
        let found = told.recv_timeout(patience).ok();
        if found.is_none() {
            tracing::warn!(
                uid,
                "reading a user's files took too long: servers are named after their command lines for some minutes"
            );
            self.slow.retain(|_, until| now < *until);
            if self.slow.len() < SLOW_USERS {
                self.slow.insert(uid, now + PENALTY);
            }
        }
        found
    }
}

/// One of the threads at work.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Identifies a server by its command line, without looking at any file.
fn by_launch(info: &ProcessInfo, client: Option<Pid>) -> ServerIdentity {
    of_launch(&Launch::of(info, client, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn files_that_do_not_come_are_not_waited_for_again() {
        let mut examiner = Examiner::default();
        assert_eq!(examiner.within(PATIENCE, 1000, || 7), Some(7));
        let (go, wait) = sync_channel::<()>(0);
        let blocked = move || wait.recv().is_ok();
        assert_eq!(examiner.within(SHORT, 1000, blocked), None);
        assert_eq!(examiner.within(PATIENCE, 1000, || 7), None, "not asked");
        assert_eq!(examiner.within(PATIENCE, 1001, || 7), Some(7), "others are");
        assert_eq!(examiner.waiting.load(Ordering::Acquire), 1);
        drop(go);
    }

    #[test]
    fn threads_that_wait_are_bounded() {
        let mut examiner = Examiner::default();
        let hold = Arc::new(std::sync::Mutex::new(()));
        let held = hold.lock().unwrap();
        for uid in 0..WAITING_THREADS as u32 {
            let hold = Arc::clone(&hold);
            let blocked = move || drop(hold.lock());
            assert_eq!(examiner.within(Duration::ZERO, uid, blocked), None);
        }
        assert_eq!(examiner.within(PATIENCE, 5000, || 7), None);
        drop(held);
        let ended = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            examiner.waiting.load(Ordering::Acquire) == 0
        });
        assert!(ended, "the threads end");
        assert_eq!(examiner.within(PATIENCE, 5000, || 7), Some(7));
    }
}
