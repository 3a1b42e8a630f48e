//! Where the state's values come from: the daemon, and the store of messages.
//!
//! The daemon is asked over D-Bus. Messages are read as the other commands read them: root reads the store's
//! file, everyone else asks the daemon, whose answer depends on who is asking. Only what is new is asked for, so
//! a reading costs as much with a million messages in the store as with none.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use mcpinspect_bus::client;
use mcpinspect_bus::client::{ClientError, ManagerProxy, answer};
use mcpinspect_bus::rows::{BUSY, NO_UID, SignalRow};
use mcpinspect_core::model::{ContainmentAction, Severity, Timestamp};
use mcpinspect_engine::history::{
    HistoryError, HistoryQuery, HistoryReader as _, MAX_ROWS, RecordedMessage, Viewer,
};
use mcpinspect_store::messages::StoreFile;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;

use super::model::{Answer, Daemon, Finding, PAGE, TopSnapshot, ViewRequest, WatchedServer};
use super::traffic::ServerKey;
use crate::daemon::Server;

/// Open sessions whose latest messages are read at the start, and messages of each: calls that have waited
/// for a long time are among them.
const SESSIONS_AT_START: usize = 64;
const MESSAGES_AT_START: usize = 50;

/// Sessions of a server to list.
const SESSIONS: usize = 200;

/// How often to repeat a question while the daemon answers another one of this user's.
const TRIES: u32 = 5;

/// The daemon, and the store.
pub struct Source {
    manager: Option<ManagerProxy<'static>>,
    /// The store's file; none if the daemon must be asked.
    file: Option<PathBuf>,
    /// Whether the configuration says that nothing is recorded.
    is_off: bool,
    version: Option<String>,
    last_event: String,
    /// The newest message read.
    newest: Option<i64>,
    users: HashMap<u32, String>,
}

impl Source {
    pub fn new(file: Option<PathBuf>, is_off: bool) -> Self {
        Self {
            manager: None,
            file,
            is_off,
            version: None,
            last_event: String::new(),
            newest: None,
            users: HashMap::new(),
        }
    }

    /// What is new.
    pub async fn snapshot(&mut self) -> TopSnapshot {
        let daemon = self.daemon().await;
        let findings = match &daemon {
            Ok(_) => self.findings().await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let (messages, is_sampled) = self.messages(&daemon).await;
        TopSnapshot {
            time: Timestamp::now(),
            daemon: daemon.map_err(|error| error.to_string()),
            findings,
            messages,
            is_sampled,
        }
    }

    async fn manager(&mut self) -> Result<ManagerProxy<'static>, ClientError> {
        if let Some(manager) = &self.manager {
            return Ok(manager.clone());
        }
        let manager = client::connect().await?;
        self.manager = Some(manager.clone());
        Ok(manager)
    }

    async fn daemon(&mut self) -> Result<Daemon, ClientError> {
        let asked = self.ask_daemon().await;
        if let Err(error) = &asked {
            // Another version may run next time.
            self.version = None;
            if !matches!(error, ClientError::NotRunning | ClientError::Denied(_)) {
                // Nor is the connection of any use if the bus is gone.
                self.manager = None;
            }
        }
        asked
    }

    async fn ask_daemon(&mut self) -> Result<Daemon, ClientError> {
        let manager = self.manager().await?;
        let servers = answer(manager.list_servers()).await?;
        let sessions = answer(manager.list_sessions()).await?;
        let state = answer(manager.capture_state()).await?;
        let (bytes_written, bytes_captured, bytes_lost) = answer(manager.ledger()).await?;
        let version = match &self.version {
            Some(version) => version.clone(),
            None => answer(manager.version()).await?,
        };
        self.version = Some(version.clone());
        let servers = servers.into_iter().map(Server::from);
        let servers = servers.map(|row| WatchedServer {
            user: self.user(&row),
            row,
        });
        Ok(Daemon {
            servers: servers.collect(),
            version,
            state,
            bytes_written,
            bytes_captured,
            bytes_lost,
            sessions,
        })
    }

    /// The name of a server's user, looked up once.
    fn user(&mut self, server: &Server) -> String {
        let Some(uid) = server.uid else {
            return String::new();
        };
        let known = self.users.entry(uid);
        known.or_insert_with(|| server.user()).clone()
    }

    /// Findings since the last reading. Their titles are in signals, their times in events; of another user's findings
    /// only the titles are available, and they are not shown.
    async fn findings(&mut self) -> Result<Vec<Finding>, ClientError> {
        #[derive(Deserialize)]
        struct Event {
            event_id: String,
            timestamp: String,
        }
        let manager = self.manager().await?;
        let signals = answer(manager.list_signals(&self.last_event)).await?;
        let Some(last) = signals.last().map(|signal| signal.event_id.clone()) else {
            return Ok(Vec::new());
        };
        let events = answer(manager.list_events(&self.last_event, 0)).await?;
        self.last_event = last;
        let times: HashMap<String, String> = events
            .iter()
            .filter_map(|event| serde_json::from_str(event).ok())
            .map(|event: Event| (event.event_id, event.timestamp))
            .collect();
        let found = signals.into_iter().filter_map(|signal| {
            let SignalRow {
                event_id,
                severity,
                server,
                title,
                uid,
                ..
            } = signal;
            Some(Finding {
                time: times.get(&event_id)?.clone(),
                severity: Severity::from_word(&severity)?,
                server_key: (server, Some(uid).filter(|uid| *uid != NO_UID)),
                event_id,
                title,
            })
        });
        Ok(found.collect())
    }

    /// Messages since the last reading, oldest first, and whether there were more.
    async fn messages(
        &mut self,
        daemon: &Result<Daemon, ClientError>,
    ) -> (Result<Vec<RecordedMessage>, String>, bool) {
        let is_known = self.file.is_some() || daemon.is_ok();
        if !is_known {
            // One sentence about the daemon is enough.
            return (Ok(Vec::new()), false);
        }
        if self.is_off {
            return (Err(not_recorded()), false);
        }
        let question = |session: Option<String>, after, limit| HistoryQuery::Latest {
            session,
            after,
            before: None,
            limit,
        };
        let asked: Result<Vec<RecordedMessage>, _> =
            self.request(question(None, self.newest, MAX_ROWS)).await;
        let new = match asked {
            Ok(new) => new,
            Err(problem) => return (Err(problem), false),
        };
        let is_sampled = self.newest.is_some() && new.len() >= MAX_ROWS;
        let mut by_number: BTreeMap<i64, RecordedMessage> = BTreeMap::new();
        if let (None, Ok(daemon)) = (self.newest, daemon) {
            for session in daemon.sessions.iter().take(SESSIONS_AT_START) {
                let id = session.session_id.clone();
                let question = question(Some(id), None, MESSAGES_AT_START);
                let messages: Vec<RecordedMessage> =
                    self.request(question).await.unwrap_or_default();
                by_number.extend(
                    messages
                        .into_iter()
                        .map(|message| (message.number, message)),
                );
            }
        }
        by_number.extend(new.into_iter().map(|message| (message.number, message)));
        let newest = by_number.last_key_value().map(|(number, _)| *number);
        // An empty store has no newest message, but has been read.
        self.newest = newest.or(self.newest).or(Some(0));
        (Ok(by_number.into_values().collect()), is_sampled)
    }

    /// The rows of an answer from the store.
    async fn request<T: DeserializeOwned>(&self, question: HistoryQuery) -> Result<Vec<T>, String> {
        let rows = match (&self.file, &self.manager) {
            (Some(path), _) => {
                let file = StoreFile::new(path);
                let asked =
                    spawn_blocking(move || file.query_history(&question, Viewer::All)).await;
                let asked = asked.map_err(|error| error.to_string())?;
                asked.map_err(|error| error.to_string())
            }
            (None, Some(manager)) => {
                let question =
                    serde_json::to_string(&question).map_err(|error| error.to_string())?;
                patiently(|| answer(manager.recall(&question))).await
            }
            (None, None) => Err(ClientError::NotRunning.to_string()),
        };
        let rows = rows.map_err(
            |problem| match problem == HistoryError::Nothing.to_string() {
                true => not_recorded(),
                false => problem,
            },
        )?;
        rows.iter()
            .map(|row| serde_json::from_str(row))
            .collect::<Result<_, _>>()
            .map_err(|error| format!("invalid row in the answer: {error}"))
    }

    /// Answers what the user wants to see. Containment works differently: see [`contain`].
    pub async fn answer(&mut self, request: ViewRequest) -> Answer {
        match request {
            ViewRequest::Server(server_key) => {
                let result = self.server(&server_key).await;
                Answer::Server { server_key, result }
            }
            ViewRequest::Messages { session, before } => {
                let question = HistoryQuery::Latest {
                    session: Some(session.clone()),
                    after: None,
                    before,
                    limit: PAGE,
                };
                let result = self.request(question).await;
                Answer::Messages {
                    session,
                    before,
                    result,
                }
            }
            ViewRequest::Message(number) => {
                let result = self.request(HistoryQuery::Message { number }).await;
                let result = result.map(|mut messages| messages.pop().map(Box::new));
                Answer::Message { number, result }
            }
            ViewRequest::Event(id) => {
                let result = self.event(&id).await.map_err(|error| error.to_string());
                Answer::Event { id, result }
            }
            ViewRequest::Contain(server_key, action) => match self.manager().await {
                Ok(manager) => contain(manager, server_key, action).await,
                Err(error) => Answer::Contained(Err(error.to_string())),
            },
        }
    }

    /// The daemon, for a request that may wait for a person.
    pub async fn for_request(&mut self) -> Result<ManagerProxy<'static>, String> {
        self.manager().await.map_err(|error| error.to_string())
    }

    async fn event(&mut self, id: &str) -> Result<String, ClientError> {
        let manager = self.manager().await?;
        answer(manager.get_event(id)).await
    }

    async fn server<S: DeserializeOwned, C: DeserializeOwned>(
        &self,
        (server, _): &ServerKey,
    ) -> Result<(Vec<S>, Vec<C>), String> {
        let sessions = HistoryQuery::Sessions {
            server: Some(server.clone()),
            since: None,
            session: None,
            limit: SESSIONS,
        };
        let calls = HistoryQuery::Statistics {
            server: Some(server.clone()),
            days: None,
        };
        Ok((self.request(sessions).await?, self.request(calls).await?))
    }
}

/// Freezes a server, or lets it run again. polkit may ask the user for a password meanwhile.
pub async fn contain(
    manager: ManagerProxy<'static>,
    (server, _): ServerKey,
    action: ContainmentAction,
) -> Answer {
    let done = match action {
        ContainmentAction::Freeze => manager.freeze(&server).await,
        ContainmentAction::Thaw => manager.thaw(&server).await,
        ContainmentAction::Kill => manager.kill(&server).await,
    };
    Answer::Contained(match done.map_err(ClientError::from) {
        Ok((processes, _, missed)) => {
            let mut result = format!("{} {server}: {} processes", action.done(), processes.len());
            if !missed.is_empty() {
                result.push_str(&format!("; not contained: {}", missed.join("; ")));
            }
            Ok(result)
        }
        Err(error) => Err(format!("cannot {} {server}: {error}", action.as_str())),
    })
}

/// Repeats the question while the daemon answers another one of this user's.
async fn patiently<T, F>(question: impl Fn() -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let mut tries = 1;
    loop {
        match question().await {
            Err(ClientError::Refused(text)) if text.contains(BUSY) && tries < TRIES => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                tries += 1;
            }
            Err(error) => return Err(error.to_string()),
            Ok(result) => return Ok(result),
        }
    }
}

pub fn not_recorded() -> String {
    "Messages are not recorded, so there are no calls and no latencies: set `enabled = true` under [store] in \
     /etc/mcpinspectd/config.toml, and restart mcpinspectd."
        .to_owned()
}
