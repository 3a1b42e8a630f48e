//! How the object's methods reach the daemon: who asks, whether they may, and on which thread the answer is made.

use std::collections::HashSet;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use mcpinspect_bus::rows::{BUSY, ContainedRow};
use mcpinspect_contain::Contained;
use mcpinspect_core::model::ContainmentAction;
use mcpinspect_engine::history::Viewer;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use zbus::message::Header;
use zbus::{Connection, fdo};

use crate::control::{CaptureStatus, Control, ControlError, Decision};
use crate::service::access::{Access, Peer};
use crate::service::polkit;
use crate::status::View;
use crate::status::live::ProcessSummary;

/// How long an answer to a question about capture may be repeated.
const STATUS_FRESH: Duration = Duration::from_millis(100);

/// The object.
#[derive(Clone)]
pub struct Manager {
    pub(super) view: Arc<View>,
    control: Option<Arc<dyn Control>>,
    /// The last answer to a question about capture, and when it was given.
    status: Arc<Mutex<Option<(Instant, CaptureStatus)>>>,
    /// Who is being answered a question about recorded messages.
    querying: Arc<StdMutex<HashSet<u32>>>,
}

/// A user whose question about recorded messages is being answered.
struct QueryPermit {
    uid: u32,
    all: Arc<StdMutex<HashSet<u32>>>,
}

impl QueryPermit {
    /// `None` while another question of this user is.
    fn begin(uid: u32, all: &Arc<StdMutex<HashSet<u32>>>) -> Option<Self> {
        let is_first = all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(uid);
        let all = Arc::clone(all);
        is_first.then_some(Self { uid, all })
    }
}

impl Drop for QueryPermit {
    fn drop(&mut self) {
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.uid);
    }
}

impl Manager {
    /// Answers from `view`, and hands decisions to `control`.
    pub fn new(view: Arc<View>, control: Option<Arc<dyn Control>>) -> Self {
        Self {
            view,
            control,
            status: Arc::default(),
            querying: Arc::default(),
        }
    }

    /// How capture is doing. Any user may ask, as often as they like, so only one question at a time
    /// reaches the pipeline, whose queue decisions and containment need.
    pub(super) async fn status(&self) -> fdo::Result<CaptureStatus> {
        let mut last = self.status.lock().await;
        if let Some((at, status)) = &*last
            && at.elapsed() < STATUS_FRESH
        {
            return Ok(status.clone());
        }
        let status = self.on_control(|control| control.status()).await?;
        *last = Some((Instant::now(), status.clone()));
        Ok(status)
    }

    /// Carries out what the sender decided, where they may.
    pub(super) async fn decide(
        &self,
        connection: &Connection,
        header: &Header<'_>,
        decision: Decision,
    ) -> fdo::Result<()> {
        let caller = Access::of_sender(connection, header).await?.caller();
        polkit::authorise(connection, header, caller.uid, polkit::MANAGE).await?;
        let decided = self
            .on_control(move |control| control.decide(decision, caller))
            .await;
        *self.status.lock().await = None;
        decided
    }

    /// Contains a server because the sender wants it, where they may.
    pub(super) async fn contain(
        &self,
        connection: &Connection,
        header: &Header<'_>,
        server: String,
        measure: ContainmentAction,
    ) -> fdo::Result<ContainedRow> {
        let uid = Access::of_sender(connection, header).await?.uid();
        polkit::authorise(connection, header, uid, polkit::CONTAIN).await?;
        let Contained {
            cgroups,
            processes,
            missed,
        } = self
            .on_control(move |control| control.contain(&server, measure, uid))
            .await?;
        let processes = processes.into_iter().map(|pid| pid.0).collect();
        Ok((processes, cgroups, missed))
    }

    /// The name of the server that a process talks to, if it is the client of one.
    pub(super) fn served(&self, client: Peer) -> Option<String> {
        let live = self.view.live();
        let is_it =
            |process: &ProcessSummary| Some(process.pid) == client.pid && process.uid == client.uid;
        let mut servers = live
            .sessions()
            .into_iter()
            .filter(|session| session.client.as_ref().is_some_and(is_it));
        let server = servers.next()?.server_id.to_string();
        // A client of several servers means the one that it names.
        servers.next().is_none().then_some(server)
    }

    /// Asks about what was recorded, on a thread that may wait for it: one question of a user at a time.
    pub(super) async fn look_back<T: Send + 'static>(
        &self,
        connection: &Connection,
        header: &Header<'_>,
        ask: impl FnOnce(&dyn Control, Viewer) -> T + Send + 'static,
    ) -> fdo::Result<T> {
        let access = Access::of_sender(connection, header).await?;
        let control = self.control.clone().ok_or_else(|| {
            fdo::Error::NotSupported("this daemon does not answer queries".to_owned())
        })?;
        let querying = QueryPermit::begin(access.uid(), &self.querying)
            .ok_or_else(|| fdo::Error::LimitsExceeded(BUSY.to_owned()))?;
        let viewer = match access {
            Access::All { .. } => Viewer::All,
            Access::Own { uid } => Viewer::User(uid),
        };
        let answer = spawn_blocking(move || {
            let _recalling = querying;
            ask(&*control, viewer)
        });
        answer
            .await
            .map_err(|error| fdo::Error::Failed(error.to_string()))
    }

    /// Asks the daemon on a thread that may wait for it.
    pub(super) async fn on_control<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Control) -> Result<T, ControlError> + Send + 'static,
    ) -> fdo::Result<T> {
        let control = self.control.clone().ok_or_else(|| {
            fdo::Error::NotSupported("this daemon does not accept decisions".to_owned())
        })?;
        let answer = spawn_blocking(move || ask(&*control))
            .await
            .map_err(|error| fdo::Error::Failed(error.to_string()))?;
        answer.map_err(|error| match error {
            ControlError::Unknown(_) | ControlError::Invalid(_) | ControlError::Stale(_) => {
                fdo::Error::InvalidArgs(error.to_string())
            }
            ControlError::Failed(_) => fdo::Error::Failed(error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests;
