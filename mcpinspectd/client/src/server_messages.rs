//! What the server says of its own accord: logs, requests, progress, and anything that is not a message.

use mcpinspect_core::model::Timestamp;
use mcpinspect_core::text::bound;
use serde::Serialize;
use serde_json::Value;

/// Most log messages to keep, and most requests.
const MAX_MESSAGES: usize = 10_000;

/// Most bytes of them.
const MAX_BYTES: usize = 32 << 20;

/// Longest quotation of a line that is not a message, in bytes.
const QUOTED: usize = 200;

/// The logger of what this program notices itself.
const OWN: &str = "mcpinspect";

/// A log message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogMessage {
    /// Its severity, in the server's words.
    pub level: String,
    /// Its text; what is not a string is JSON.
    pub message: String,
    /// When it arrived, in RFC 3339.
    pub timestamp: String,
    /// Which part of the server it is from; `mcpinspect` for what was noticed about the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerNotification {
    /// What it is about.
    pub method: String,
    /// Its parameters.
    pub params: Value,
    /// When it arrived, in RFC 3339.
    pub timestamp: String,
}

/// How a server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// By a request of its own.
    Request,
    /// By a result that says what is missing.
    InputRequired,
}

/// A request of the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerRequest {
    /// What it asked for.
    pub method: String,
    /// Its parameters.
    pub params: Value,
    /// How it asked.
    pub via: Via,
    /// Whether a script had the answer; otherwise it was declined, or was a `ping`.
    pub scripted: bool,
    /// The answer: `{"result": …}` or `{"error": …}`.
    pub answer: Value,
}

/// An event to report at once.
#[derive(Clone, Copy, Debug)]
pub enum ServerEvent<'a> {
    /// A log message.
    Log(&'a LogMessage),
    /// The server asked for something.
    Request(&'a ServerRequest),
    /// The server sent a notification, while it is watched.
    Notification(&'a ServerNotification),
    /// A request has got this far, of a total if that is known.
    Progress {
        /// How far.
        progress: f64,
        /// Of how much.
        total: Option<f64>,
        /// What it is doing.
        message: Option<&'a str>,
    },
}

/// What was received, up to a limit.
#[derive(Clone, Debug, Default)]
pub struct ServerMessages {
    /// Log messages, in order.
    pub logs: Vec<LogMessage>,
    /// Requests of the server, in order.
    pub requests: Vec<ServerRequest>,
    /// Notifications other than log messages, if the server is watched.
    pub notifications: Vec<ServerNotification>,
    /// Whether notifications are kept and reported.
    pub is_watched: bool,
    /// Whether the server said that its tools changed.
    pub tools_changed: bool,
    /// Receives everything at once.
    pub listener: Option<fn(ServerEvent<'_>)>,
    bytes: usize,
    more: u64,
}

impl ServerMessages {
    /// Adds a log message.
    pub fn add_log(&mut self, level: &str, message: String, logger: Option<String>) {
        let log = LogMessage {
            level: level.to_owned(),
            message,
            timestamp: Timestamp::now().exact(),
            logger,
        };
        self.report(ServerEvent::Log(&log));
        let bytes = log.level.len() + log.message.len();
        if self.has_room(self.logs.len(), bytes) {
            self.logs.push(log);
        }
    }

    /// Adds a warning of this program about the server.
    pub fn warn(&mut self, message: String) {
        self.add_log("warning", message, Some(OWN.to_owned()));
    }

    /// Adds a warning about a line that is not a message.
    pub fn invalid_line(&mut self, line: &[u8], why: &str) {
        let text = String::from_utf8_lossy(line);
        let text = bound(&text, QUOTED);
        self.warn(format!(
            "the server wrote a line that is not a message ({why}): {text}"
        ));
    }

    /// Adds a request.
    pub fn add_request(&mut self, request: ServerRequest) {
        self.report(ServerEvent::Request(&request));
        let bytes = request.params.to_string().len();
        if self.has_room(self.requests.len(), bytes) {
            self.requests.push(request);
        }
    }

    /// Adds a notification, if the server is watched.
    pub(super) fn add_notification(&mut self, method: &str, params: &Value) {
        if !self.is_watched {
            return;
        }
        let notification = ServerNotification {
            method: method.to_owned(),
            params: params.clone(),
            timestamp: Timestamp::now().exact(),
        };
        self.report(ServerEvent::Notification(&notification));
        let bytes = method.len() + params.to_string().len();
        if self.has_room(self.notifications.len(), bytes) {
            self.notifications.push(notification);
        }
    }

    /// Passes an event to the listener.
    pub fn report(&self, event: ServerEvent<'_>) {
        if let Some(listener) = self.listener {
            listener(event);
        }
    }

    /// Takes what was received since the last call.
    pub fn take(&mut self) -> (Vec<LogMessage>, Vec<ServerRequest>) {
        if self.more > 0 {
            let more = std::mem::take(&mut self.more);
            let text = format!("{more} more messages and requests were not recorded");
            self.logs.push(LogMessage {
                level: "warning".to_owned(),
                message: text,
                timestamp: Timestamp::now().exact(),
                logger: Some(OWN.to_owned()),
            });
        }
        self.bytes = 0;
        let logs = std::mem::take(&mut self.logs);
        (logs, std::mem::take(&mut self.requests))
    }

    fn has_room(&mut self, count: usize, bytes: usize) -> bool {
        let fits = count < MAX_MESSAGES && self.bytes.saturating_add(bytes) <= MAX_BYTES;
        match fits {
            true => self.bytes += bytes,
            false => self.more += 1,
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_a_limit_and_what_is_not_is_counted() {
        let mut server_messages = ServerMessages::default();
        for _ in 0..MAX_MESSAGES + 3 {
            server_messages.add_log("info", "x".to_owned(), None);
        }
        server_messages.add_log("info", "y".repeat(MAX_BYTES), None);
        let (logs, _) = server_messages.take();
        assert_eq!(logs.len(), MAX_MESSAGES + 1);
        assert!(
            logs.last()
                .is_some_and(|log| log.message.starts_with("4 more"))
        );
        server_messages.add_log("info", "z".to_owned(), None);
        assert_eq!(server_messages.take().0.len(), 1);
    }
}
