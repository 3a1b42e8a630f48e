//! From a waiting caller to the working pipeline, and back.
//!
//! The caller's end, a [`ControlHandle`], blocks until it is answered. The pipeline's end, the
//! [`ControlQueue`], is checked between batches of records, so nothing is shared and nothing
//! is locked.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use mcpinspect_contain as contain;
use mcpinspect_contain::{ContainError, Contained, Target, Trigger};
use mcpinspect_core::model::{ContainmentAction, Process, ServerId, Timestamp};
use mcpinspect_core::text::escape::plain;
use mcpinspect_engine::answer::{Answer, Queries, QueryError};
use mcpinspect_engine::event::Event;
use mcpinspect_engine::history::{HistoryError, HistoryQuery, HistoryReader, Viewer};
use mcpinspect_judge::registry::{ServerNames, Standing};
use mcpinspect_runtime::notifier::Notifier;

use super::{Caller, CaptureStatus, Control, ControlError, Decision, SessionParties, ToolForm};

/// Requests that may wait. The pipeline checks for them several times a second.
const MAX_WAITING: usize = 64;

/// How long a caller waits. The pipeline is never busy that long unless it is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A request to the pipeline.
#[derive(Debug)]
pub enum ControlRequest {
    /// How capture is doing.
    Status(SyncSender<CaptureStatus>),
    /// To carry out what a person decided.
    Decide {
        /// What.
        decision: Decision,
        /// Who.
        caller: Caller,
        /// The result.
        reply: SyncSender<Result<(), ControlError>>,
    },
    /// Which sessions a server has now.
    Sessions {
        /// Which.
        server: String,
        /// What is known.
        reply: SyncSender<ServerSessions>,
    },
    /// How tools relate to their pins, without recording them: one process holds the registry.
    CheckTools {
        /// The user that the server runs as.
        uid: Option<u32>,
        /// The server.
        server: String,
        /// Which.
        tools: Vec<ToolForm>,
        /// What the registry says of each.
        reply: SyncSender<Vec<Option<Standing>>>,
    },
    /// To publish what was done beside the pipeline, in order with the other events.
    Report(Box<Event>),
}

/// What it takes to find a server's processes.
#[derive(Debug)]
pub struct ServerSessions {
    /// The parties of its sessions.
    pub sessions: Vec<SessionParties>,
    /// The clients of all sessions, of other servers too.
    pub clients: Vec<Process>,
    /// The names assigned to servers.
    pub names: ServerNames,
}

/// The caller's side. Cheap to clone.
#[derive(Clone)]
pub struct ControlHandle {
    requests: SyncSender<ControlRequest>,
    notifier: Notifier,
    /// What answers questions about recorded messages, beside the pipeline.
    history: Option<Arc<dyn HistoryReader>>,
    /// What runs queries, beside the pipeline too.
    queries: Option<Arc<dyn Queries>>,
}

/// The pipeline's side.
#[derive(Debug)]
pub struct ControlQueue(Receiver<ControlRequest>);

/// Both sides of a handle. The notifier is that of the pipeline's thread.
pub fn channel(notifier: Notifier) -> (ControlHandle, ControlQueue) {
    let (requests, receiver) = sync_channel(MAX_WAITING);
    let handle = ControlHandle {
        requests,
        notifier,
        history: None,
        queries: None,
    };
    (handle, ControlQueue(receiver))
}

impl ControlHandle {
    /// The handle with something that answers questions about recorded messages.
    #[must_use]
    pub fn with_history(self, history: Arc<dyn HistoryReader>) -> Self {
        let history = Some(history);
        Self { history, ..self }
    }

    /// The handle with something that runs queries.
    #[must_use]
    pub fn with_queries(self, queries: Arc<dyn Queries>) -> Self {
        let queries = Some(queries);
        Self { queries, ..self }
    }

    /// Contains the server in `session`, sparing `clients`, and has the pipeline report it.
    ///
    /// # Errors
    /// See [`contain::contain`].
    pub fn contain_session(
        &self,
        session: &SessionParties,
        clients: &[Process],
        action: ContainmentAction,
        trigger: &Trigger,
    ) -> Result<Contained, ContainError> {
        let targets: Vec<Target> = target(session).into_iter().collect();
        let done = contain::contain(&targets, clients, action)?;
        self.report(&session.server_id, Some(session), action, trigger, &done);
        Ok(done)
    }

    /// Has the pipeline report what was done to a server, waiting for room in its queue.
    pub(super) fn report(
        &self,
        server: &ServerId,
        session: Option<&SessionParties>,
        action: ContainmentAction,
        trigger: &Trigger,
        done: &Contained,
    ) {
        let session_id = session.map(|session| &session.session);
        let pid = session.and_then(|session| Some(session.server?.pid));
        let event = contain::event(
            server,
            session_id,
            pid,
            action,
            trigger,
            done,
            Timestamp::now(),
        );
        // It was done either way, and the caller is answered. Without a pipeline, no events are emitted.
        let sent = self.requests.send(ControlRequest::Report(Box::new(event)));
        self.notifier.notify();
        if sent.is_err() {
            tracing::error!(%server, action = action.as_str(), "contained, but no event could be published");
        }
    }

    fn put(&self, request: ControlRequest) -> Result<(), ControlError> {
        let failed = |why: &str| ControlError::Failed(why.to_owned());
        let put = self.requests.try_send(request);
        self.notifier.notify();
        put.map_err(|error| match error {
            TrySendError::Full(_) => failed("too many requests are waiting; try again"),
            TrySendError::Disconnected(_) => failed("the daemon is shutting down"),
        })
    }

    fn ask<R>(
        &self,
        request: impl FnOnce(SyncSender<R>) -> ControlRequest,
    ) -> Result<R, ControlError> {
        let failed = |why: &str| ControlError::Failed(why.to_owned());
        let (reply, answer) = sync_channel(1);
        self.put(request(reply))?;
        answer
            .recv_timeout(ANSWER_TIMEOUT)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => failed(
                    "the daemon is too busy to confirm; check the result before trying again",
                ),
                RecvTimeoutError::Disconnected => failed("the daemon is shutting down"),
            })
    }
}

impl Control for ControlHandle {
    fn query_history(
        &self,
        question: &HistoryQuery,
        viewer: Viewer,
    ) -> Result<Vec<String>, HistoryError> {
        let history = self.history.as_ref().ok_or(HistoryError::Nothing)?;
        history.query_history(question, viewer)
    }

    fn query(&self, sql: &str, viewer: Viewer) -> Result<Answer, QueryError> {
        let none = || QueryError::failed("this daemon does not answer queries");
        let queries = self.queries.as_ref().ok_or_else(none)?;
        queries.query(sql, viewer)
    }

    fn status(&self) -> Result<CaptureStatus, ControlError> {
        self.ask(ControlRequest::Status)
    }

    fn decide(&self, decision: Decision, caller: Caller) -> Result<(), ControlError> {
        self.ask(|reply| ControlRequest::Decide {
            decision,
            caller,
            reply,
        })?
    }

    fn check_tools(
        &self,
        uid: Option<u32>,
        server: &str,
        tools: Vec<ToolForm>,
    ) -> Result<Vec<Option<Standing>>, ControlError> {
        self.ask(|reply| ControlRequest::CheckTools {
            uid,
            server: server.to_owned(),
            tools,
            reply,
        })
    }

    fn contain(
        &self,
        server: &str,
        action: ContainmentAction,
        uid: u32,
    ) -> Result<Contained, ControlError> {
        let ServerSessions {
            sessions,
            clients,
            names,
        } = self.ask(|reply| ControlRequest::Sessions {
            server: server.to_owned(),
            reply,
        })?;
        let mut targets: Vec<Target> = sessions.iter().filter_map(target).collect();
        if targets.is_empty() {
            targets = contain::find(server, names);
        }
        if targets.is_empty() {
            return Err(ControlError::Unknown(format!(
                "a running server {}",
                plain(server)
            )));
        }
        let done = contain::contain(&targets, &clients, action)
            .map_err(|error| ControlError::Failed(error.to_string()))?;
        let trigger = Trigger::Person { uid };
        let server = ServerId(server.into());
        self.report(&server, sessions.first(), action, &trigger, &done);
        Ok(done)
    }
}

fn target(session: &SessionParties) -> Option<Target> {
    Some(Target {
        server: session.server?,
        client: session.client,
        side: session.server_side.clone(),
    })
}

impl ControlQueue {
    /// The next request, if one waits.
    pub fn next(&self) -> Option<ControlRequest> {
        self.0.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_answered_on_the_other_side() {
        let (handle, queue) = channel(Notifier::default());
        let caller = Caller {
            uid: 7,
            reads_all: true,
        };
        let asking = std::thread::spawn(move || handle.decide(Decision::Reload, caller));
        let request = loop {
            if let Some(request) = queue.next() {
                break request;
            }
            std::thread::yield_now();
        };
        let ControlRequest::Decide {
            decision: Decision::Reload,
            caller: told,
            reply,
        } = request
        else {
            panic!("{request:?}");
        };
        assert_eq!(told, caller);
        let refusal = Err(ControlError::Stale("no".to_owned()));
        reply.send(refusal.clone()).unwrap();
        assert_eq!(asking.join().unwrap(), refusal);
    }

    #[test]
    fn nobody_waits_for_a_daemon_that_is_gone_or_swamped() {
        let (handle, queue) = channel(Notifier::default());
        let mut waiting = Vec::new();
        for _ in 0..MAX_WAITING {
            let (reply, answer) = sync_channel(1);
            handle.requests.send(ControlRequest::Status(reply)).unwrap();
            waiting.push(answer);
        }
        let error = handle.status().unwrap_err().to_string();
        assert!(error.contains("too many requests"), "{error}");
        drop(queue);
        let error = handle.status().unwrap_err().to_string();
        assert!(error.contains("shutting down"), "{error}");
    }
}
