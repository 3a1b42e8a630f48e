//! The daemon, which knows which tools were approved.
//!
//! It is asked over the bus, on a separate thread: messages wait for an answer, but never long. A daemon
//! that does not answer is left alone for a while, so that a hanging one costs one wait and not one per
//! message. Its answers are valid until it announces a decision, and for some seconds at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::StreamExt as _;
use mcpinspect_bus::client;
use mcpinspect_bus::client::{ClientError, EventStream, ManagerProxy};
use mcpinspect_engine::event::kind::EventKind;
use mcpinspect_judge::policy::situation::ToolStatus;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long messages wait for an answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a daemon that did not answer is not asked again.
const REST: Duration = Duration::from_secs(2);
/// Questions that may wait. More are not answered.
const QUEUE: usize = 256;

/// Tools by name, with the hash of their definition; empty if unknown.
pub type ToolDefinitions = Vec<(String, String)>;

/// The result of a question: a status for each tool, or why there is none.
type Answer = Result<Vec<ToolStatus>, String>;

struct Question {
    server: String,
    tools: ToolDefinitions,
    reply: SyncSender<Answer>,
}

/// Asks the daemon.
pub struct Daemon {
    questions: mpsc::Sender<Question>,
    /// Counts the decisions that the daemon has announced.
    epoch: Arc<AtomicU64>,
    /// Until when nothing is asked.
    rests: Mutex<Option<Instant>>,
}

impl Daemon {
    /// Starts the thread that asks.
    pub fn start() -> anyhow::Result<Self> {
        let (questions, waiting) = mpsc::channel(QUEUE);
        let epoch = Arc::<AtomicU64>::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime for the bus")?;
        let announced = Arc::clone(&epoch);
        std::thread::spawn(move || runtime.block_on(answer(waiting, &announced)));
        Ok(Self {
            questions,
            epoch,
            rests: Mutex::new(None),
        })
    }

    /// How many decisions the daemon has announced so far. Answers from before the last one may be outdated.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// How tools compare with what was accepted.
    ///
    /// # Errors
    /// Why the daemon does not answer; empty if it was not asked because it did not answer a moment ago.
    pub fn ask(&self, server: &str, tools: ToolDefinitions) -> Answer {
        let rests = || self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        if rests().is_some_and(|until| Instant::now() < until) {
            return Err(String::new());
        }
        let answer = self.wait(server, tools);
        *rests() = answer.is_err().then(|| Instant::now() + REST);
        answer
    }

    fn wait(&self, server: &str, tools: ToolDefinitions) -> Answer {
        let (reply, answer): (_, Receiver<Answer>) = sync_channel(1);
        let server = server.to_owned();
        let question = Question {
            server,
            tools,
            reply,
        };
        let sent = self.questions.try_send(question);
        sent.map_err(|_| "too many requests are waiting for mcpinspectd".to_owned())?;
        let late = |_| ClientError::Timeout.to_string();
        answer.recv_timeout(PATIENCE).map_err(late)?
    }
}

/// Answers questions until every sender is gone.
async fn answer(mut waiting: mpsc::Receiver<Question>, epoch: &AtomicU64) {
    let mut line: Option<(ManagerProxy<'static>, EventStream)> = None;
    loop {
        let question = tokio::select! {
            question = waiting.recv() => question,
            () = decisions(&mut line, epoch) => continue,
        };
        let Some(question) = question else {
            return;
        };
        let manager = match &line {
            Some((manager, _)) => manager.clone(),
            None => match timeout(PATIENCE, connect()).await {
                Ok(Ok((manager, events))) => {
                    let manager = line.insert((manager, events)).0.clone();
                    // Decisions before this point were missed.
                    epoch.fetch_add(1, Ordering::SeqCst);
                    manager
                }
                Ok(Err(error)) => {
                    let _ = question.reply.send(Err(error.to_string()));
                    continue;
                }
                Err(_) => {
                    let _ = question.reply.send(Err(ClientError::Timeout.to_string()));
                    continue;
                }
            },
        };
        tokio::spawn(async move {
            let Question {
                server,
                tools,
                reply,
            } = question;
            let reported = timeout(PATIENCE, manager.check_tools(&server, &tools)).await;
            let answer = match reported {
                Ok(Ok(statuses)) if statuses.len() == tools.len() => {
                    Ok(statuses.iter().map(|name| status(name)).collect())
                }
                Ok(Ok(_)) => Err("mcpinspectd sent an unexpected answer".to_owned()),
                Ok(Err(error)) => Err(ClientError::from(error).to_string()),
                Err(_) => Err(ClientError::Timeout.to_string()),
            };
            // The question may have timed out by now.
            let _ = reply.send(answer);
        });
    }
}

async fn connect() -> Result<(ManagerProxy<'static>, EventStream), ClientError> {
    let manager = client::connect().await?;
    let kind = EventKind::Policy.name();
    let events = manager.receive_event_with_args(&[(0, kind)]).await?;
    Ok((manager, events))
}

/// Waits for decisions and counts them. Without a connection to the bus it waits forever.
async fn decisions(line: &mut Option<(ManagerProxy<'static>, EventStream)>, epoch: &AtomicU64) {
    let Some((_, events)) = line else {
        return std::future::pending().await;
    };
    let event = events.next().await;
    epoch.fetch_add(1, Ordering::SeqCst);
    if event.is_none() {
        // The bus is gone; the next question looks for it.
        *line = None;
    }
}

/// An unknown status is as far from approved as possible.
fn status(name: &str) -> ToolStatus {
    match name {
        "approved" => ToolStatus::Approved,
        "unapproved" => ToolStatus::Unapproved,
        _ => ToolStatus::Changed,
    }
}
