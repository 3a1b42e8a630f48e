//! What `top` knows, and where in it the user is. No terminal, no bus and no clock: values come in through
//! [`super::update`], and [`super::draw`] shows them.

use std::collections::{BTreeSet, HashMap, VecDeque};

use mcpinspect_bus::rows::SessionRow;
use mcpinspect_core::model::{ContainmentAction, Severity, Timestamp};
use mcpinspect_engine::history::{CallStatistics, RecordedMessage, RecordedSession};

use super::table::{List, Tone};
use super::traffic::{ServerKey, Traffic};
use crate::daemon::Server;

/// Findings to keep; the oldest make room.
const MAX_FINDINGS: usize = 500;

/// Messages of a session to keep while it is shown.
pub const MAX_MESSAGES: usize = 5000;

/// Messages to ask for at a time.
pub const PAGE: usize = 200;

/// A server that the daemon knows.
#[derive(Debug)]
pub struct WatchedServer {
    pub row: Server,
    /// The name of the user that it runs as.
    pub user: String,
}

impl WatchedServer {
    pub fn server_key(&self) -> ServerKey {
        (self.row.server_id.clone(), self.row.uid)
    }
}

/// What the daemon says about itself and about what it watches.
#[derive(Debug)]
pub struct Daemon {
    pub version: String,
    pub state: String,
    pub bytes_written: u64,
    pub bytes_captured: u64,
    pub bytes_lost: u64,
    pub servers: Vec<WatchedServer>,
    pub sessions: Vec<SessionRow>,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub event_id: String,
    pub time: String,
    pub severity: Severity,
    pub server_key: ServerKey,
    pub title: String,
}

/// What is new since the last reading.
#[derive(Debug)]
pub struct TopSnapshot {
    pub time: Timestamp,
    /// Or why the daemon cannot be asked.
    pub daemon: Result<Daemon, String>,
    /// Oldest first.
    pub findings: Vec<Finding>,
    /// Oldest first; or why there are none.
    pub messages: Result<Vec<RecordedMessage>, String>,
    /// Whether more went by than were read.
    pub is_sampled: bool,
}

/// What is asked for because the user wants to see or do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewRequest {
    /// The sessions of a server, and its calls by tool.
    Server(ServerKey),
    /// The latest messages of a session, or those before one.
    Messages {
        session: String,
        before: Option<i64>,
    },
    /// One message.
    Message(i64),
    /// One event.
    Event(String),
    /// Freeze a server, or let it run again.
    Contain(ServerKey, ContainmentAction),
}

/// The answer.
#[derive(Debug)]
pub enum Answer {
    Server {
        server_key: ServerKey,
        result: Result<(Vec<RecordedSession>, Vec<CallStatistics>), String>,
    },
    Messages {
        session: String,
        before: Option<i64>,
        /// Newest first.
        result: Result<Vec<RecordedMessage>, String>,
    },
    Message {
        number: i64,
        result: Result<Option<Box<RecordedMessage>>, String>,
    },
    Event {
        id: String,
        result: Result<String, String>,
    },
    /// A sentence about what was done.
    Contained(Result<String, String>),
}

/// The lists that are always available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    #[default]
    Servers,
    Calls,
    Findings,
}

impl Tab {
    pub const ALL: [Self; 3] = [Self::Servers, Self::Calls, Self::Findings];

    pub fn title(self) -> &'static str {
        match self {
            Self::Servers => "Servers",
            Self::Calls => "In flight",
            Self::Findings => "Findings",
        }
    }
}

/// What was opened from a list.
#[derive(Debug)]
pub enum View {
    Server(ServerView),
    Session(SessionView),
    Text(TextView),
}

/// A server: its recorded sessions, and its calls by tool.
#[derive(Debug)]
pub struct ServerView {
    pub server_key: ServerKey,
    pub list: List,
    pub content: Loadable<(Vec<RecordedSession>, Vec<CallStatistics>)>,
}

/// A session: its messages, oldest first.
#[derive(Debug)]
pub struct SessionView {
    pub server_key: ServerKey,
    pub session: String,
    pub list: List,
    pub messages: VecDeque<RecordedMessage>,
    /// Whether the first message of the session is among them.
    pub is_whole: bool,
    /// Whether earlier ones were requested.
    pub is_waiting: bool,
    pub problem: Option<String>,
    /// Whether anything has arrived yet.
    pub has_content: bool,
}

/// A message or an event in full.
#[derive(Debug)]
pub struct TextView {
    pub title: String,
    pub of: TextOf,
    pub content: Loadable<Vec<String>>,
    /// The first line to show, of those that the terminal's width makes.
    pub scroll: usize,
}

/// Whose text it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextOf {
    Message(i64),
    Event(String),
}

/// Content that was requested.
#[derive(Debug)]
pub enum Loadable<T> {
    Loading,
    Ready(T),
    Failed(String),
}

impl<T> Loadable<T> {
    pub fn ready(&self) -> Option<&T> {
        match self {
            Self::Ready(content) => Some(content),
            Self::Loading | Self::Failed(_) => None,
        }
    }
}

impl<T> From<Result<T, String>> for Loadable<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(content) => Self::Ready(content),
            Err(problem) => Self::Failed(problem),
        }
    }
}

/// What is shown in front of everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialog {
    Help,
    /// Asks whether to do it.
    Contain(ServerKey, ContainmentAction),
}

/// A sentence in the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusLine {
    pub text: String,
    pub tone: Tone,
    pub since: Timestamp,
}

/// The whole state.
#[derive(Debug, Default)]
pub struct State {
    pub now: Timestamp,
    /// Nothing before the first reading.
    pub daemon: Option<Result<Daemon, String>>,
    /// Why there are no messages.
    pub no_messages: Option<String>,
    pub is_sampled: bool,
    pub traffic: Traffic,
    pub findings: VecDeque<Finding>,
    pub tab: Tab,
    lists: [List; 3],
    pub opened: Vec<View>,
    pub dialog: Option<Dialog>,
    pub status_line: Option<StatusLine>,
    /// Columns and rows of the terminal, for moving by pages.
    pub width: u16,
    pub height: u16,
    pub is_over: bool,
}

impl State {
    /// Applies what is new.
    pub fn take(&mut self, snapshot: TopSnapshot) {
        let TopSnapshot {
            time,
            daemon,
            findings,
            messages,
            is_sampled,
        } = snapshot;
        self.now = time;
        self.is_sampled = is_sampled;
        let sessions = daemon.as_ref().map_or(&[][..], |daemon| &daemon.sessions);
        let open: HashMap<&str, ServerKey> = sessions
            .iter()
            .map(|row| {
                let server_key = (row.server_id.clone(), row.server_uid);
                (row.session_id.as_str(), server_key)
            })
            .collect();
        if is_sampled {
            self.traffic.forget_calls();
        }
        match messages {
            Ok(messages) => {
                self.no_messages = None;
                for message in &messages {
                    let server_key = open.get(message.session_id.as_str()).cloned();
                    let server_key =
                        server_key.unwrap_or_else(|| server_key_of(&daemon, &message.server_id));
                    self.traffic.add(message, server_key);
                }
            }
            Err(problem) => self.no_messages = Some(problem),
        }
        let ids: Option<BTreeSet<&str>> = daemon.is_ok().then(|| open.keys().copied().collect());
        self.traffic.settle(time, ids.as_ref());
        for finding in findings {
            let known = self.findings.iter().rev();
            if known
                .take(64)
                .all(|known| known.event_id != finding.event_id)
            {
                self.findings.push_back(finding);
            }
        }
        let too_many = self.findings.len().saturating_sub(MAX_FINDINGS);
        self.findings.drain(..too_many);
        self.daemon = Some(daemon);
    }

    /// What the daemon said, if it answered.
    pub fn running(&self) -> Option<&Daemon> {
        self.daemon.as_ref()?.as_ref().ok()
    }

    /// The servers that the daemon knows.
    pub fn servers(&self) -> &[WatchedServer] {
        self.running().map_or(&[], |daemon| &daemon.servers)
    }

    /// A server that the daemon knows.
    pub fn server(&self, server_key: &ServerKey) -> Option<&WatchedServer> {
        self.servers()
            .iter()
            .find(|server| server.server_key() == *server_key)
    }

    /// Sentences about what is wrong.
    pub fn problems(&self) -> Vec<&str> {
        let daemon = match &self.daemon {
            Some(Err(problem)) => Some(problem.as_str()),
            _ => None,
        };
        daemon
            .into_iter()
            .chain(self.no_messages.as_deref())
            .collect()
    }

    /// The list of a tab.
    pub fn tab_list(&self, tab: Tab) -> &List {
        &self.lists[tab as usize]
    }

    /// The list that keys act on; none if a text is shown.
    pub fn list(&self) -> Option<&List> {
        match self.opened.last() {
            None => Some(self.tab_list(self.tab)),
            Some(View::Server(view)) => Some(&view.list),
            Some(View::Session(view)) => Some(&view.list),
            Some(View::Text(_)) => None,
        }
    }

    pub fn list_mut(&mut self) -> Option<&mut List> {
        match self.opened.last_mut() {
            None => Some(&mut self.lists[self.tab as usize]),
            Some(View::Server(view)) => Some(&mut view.list),
            Some(View::Session(view)) => Some(&mut view.list),
            Some(View::Text(_)) => None,
        }
    }

    /// Shows a sentence in the last line for a while.
    pub fn say(&mut self, text: String, tone: Tone) {
        let since = self.now;
        self.status_line = Some(StatusLine { text, tone, since });
    }
}

/// The server of this name, if its session is unknown.
fn server_key_of(daemon: &Result<Daemon, String>, server: &str) -> ServerKey {
    let servers = daemon.as_ref().map_or(&[][..], |daemon| &daemon.servers);
    let named = servers.iter().find(|known| known.row.server_id == server);
    named.map_or((server.to_owned(), None), WatchedServer::server_key)
}

impl SessionView {
    pub fn new(server_key: ServerKey, session: String) -> Self {
        Self {
            server_key,
            session,
            list: List::default(),
            messages: VecDeque::new(),
            is_whole: false,
            is_waiting: false,
            problem: None,
            has_content: false,
        }
    }

    /// Applies a page of messages, newest first: the latest ones, or those before one.
    pub fn take(&mut self, mut page: Vec<RecordedMessage>, before: Option<i64>) {
        let position = |message: &RecordedMessage| (message.sequence, message.number);
        self.has_content = true;
        self.problem = None;
        let is_last = page.len() < PAGE;
        page.reverse();
        if before.is_some() {
            self.is_waiting = false;
            self.is_whole |= is_last;
            let first = self.messages.front().map(position);
            page.retain(|message| first.is_none_or(|first| position(message) < first));
            for message in page.into_iter().rev() {
                self.messages.push_front(message);
            }
            return;
        }
        let newest = self.messages.back().map(position);
        let is_joined = page
            .first()
            .is_none_or(|first| newest.is_some_and(|newest| position(first) <= newest));
        match newest {
            // More passed than a page holds.
            _ if !is_joined && !is_last => {
                self.messages = page.into();
                self.is_whole = false;
            }
            None => {
                self.messages = page.into();
                self.is_whole = is_last;
            }
            Some(newest) => {
                let new = page
                    .into_iter()
                    .filter(|message| position(message) > newest);
                self.messages.extend(new);
            }
        }
        let too_many = self.messages.len().saturating_sub(MAX_MESSAGES);
        self.is_whole &= too_many == 0;
        self.messages.drain(..too_many);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, finding, message, snapshot};
    use super::*;

    fn page(numbers: impl DoubleEndedIterator<Item = u64>) -> Vec<RecordedMessage> {
        let numbers = numbers.rev();
        numbers
            .map(|number| message("s1", number, "notification", NOW))
            .collect()
    }

    fn numbers(view: &SessionView) -> Vec<u64> {
        view.messages
            .iter()
            .map(|message| message.sequence)
            .collect()
    }

    #[test]
    fn pages_of_a_session_are_put_together() {
        let server_key = ("files".to_owned(), None);
        let mut view = SessionView::new(server_key, "s1".to_owned());
        view.take(page(101..=300), None);
        assert!(!view.is_whole && view.messages.len() == PAGE);
        // The same and two more.
        view.take(page(103..=302), None);
        assert_eq!(numbers(&view), (101..=302).collect::<Vec<_>>());
        // The ones before, which complete the list.
        view.take(page(1..=100), Some(101));
        assert_eq!(numbers(&view), (1..=302).collect::<Vec<_>>());
        assert!(view.is_whole);
        // More passed than a page holds: what lies between would be missing.
        view.take(page(1001..=1200), None);
        assert_eq!(numbers(&view), (1001..=1200).collect::<Vec<_>>());
        assert!(!view.is_whole);
        // Not forever.
        for last in (1300..20_000).step_by(100) {
            view.take(page(last - 199..=last), None);
        }
        assert_eq!(view.messages.len(), MAX_MESSAGES);
    }

    #[test]
    fn a_short_session_is_whole_at_once() {
        let mut view = SessionView::new(("files".to_owned(), None), "s1".to_owned());
        view.take(Vec::new(), None);
        assert!(view.is_whole && view.has_content);
        view.take(page(1..=3), None);
        view.take(page(1..=4), None);
        assert_eq!(numbers(&view), [1, 2, 3, 4]);
        assert!(view.is_whole);
    }

    #[test]
    fn findings_are_bounded_and_none_comes_twice() {
        let mut state = State::default();
        for round in 0..300 {
            let mut snapshot = snapshot();
            snapshot.findings = (0..4)
                .map(|part| finding(&format!("1-{}", 2 * round + part)))
                .collect();
            state.take(snapshot);
        }
        assert_eq!(state.findings.len(), MAX_FINDINGS);
        let ids: BTreeSet<_> = state
            .findings
            .iter()
            .map(|finding| &finding.event_id)
            .collect();
        assert_eq!(ids.len(), MAX_FINDINGS);
        assert_eq!(state.findings.back().unwrap().event_id, "1-601");
    }

    #[test]
    fn messages_belong_to_the_server_of_their_session() {
        let mut state = State::default();
        state.take(snapshot());
        let alices = ("everything".to_owned(), Some(1000));
        assert!(state.traffic.meter(&alices).messages() > 0);
        let bobs = ("everything".to_owned(), Some(1001));
        assert_eq!(state.traffic.meter(&bobs).messages(), 0);
    }
}
