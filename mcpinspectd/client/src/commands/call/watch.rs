//! Stays with a server after its result, for what it reports of its own accord.
//!
//! A server of the legacy era reports changes without being asked. One of the modern era reports to those who
//! listen, and only what they want to hear.

use std::time::Duration;

use crate::era::Era;
use crate::failure::Failure;
use serde_json::{Map, Value, json};

use super::perform::Session;
use super::request::CallRequest;

/// What a server may offer to report, and the member that requests it.
const CHANGES: [(&str, &str, &str); 3] = [
    ("tools", "listChanged", "toolsListChanged"),
    ("prompts", "listChanged", "promptsListChanged"),
    ("resources", "listChanged", "resourcesListChanged"),
];

impl Session<'_, '_> {
    /// Stays for this long. Returns why the session ended before that, if it did.
    pub fn watch(&mut self, request: &CallRequest, time: Duration) -> Option<Failure> {
        let until = self.connection.elapsed().saturating_add(time);
        let subscriptions = self.subscriptions(request);
        if self.greeting.era == Era::Modern && !subscriptions.is_empty() {
            let mut params = Map::new();
            params.insert("notifications".to_owned(), Value::Object(subscriptions));
            let id = match self.connection.send("subscriptions/listen", params) {
                Ok(id) => id,
                Err(failure) => return Some(failure),
            };
            // It is answered once the server has nothing more to report.
            match self.connection.wait(&[id], until) {
                Ok(None) => return None,
                Ok(Some(answer)) => {
                    let message = match answer.outcome {
                        Ok(_) => "the server sends no more notifications".to_owned(),
                        Err(failure) => failure.message,
                    };
                    self.connection.server_messages.warn(message);
                }
                Err(failure) => return Some(failure),
            }
        }
        self.connection.wait(&[], until).err()
    }

    /// What this server can report about the request, and about its lists.
    fn subscriptions(&self, request: &CallRequest) -> Map<String, Value> {
        let capabilities = self.greeting.capabilities();
        let offers = |part: &str, what: &str| {
            let offered = capabilities.get(part).and_then(|part| part.get(what));
            offered == Some(&Value::Bool(true))
        };
        let mut subscriptions = Map::new();
        for (part, what, member) in CHANGES {
            if offers(part, what) {
                subscriptions.insert(member.to_owned(), Value::Bool(true));
            }
        }
        let uri = request.params.get("uri");
        if let ("resources/read", Some(uri), true) = (
            request.method.as_str(),
            uri,
            offers("resources", "subscribe"),
        ) {
            subscriptions.insert("resourceSubscriptions".to_owned(), json!([uri]));
        }
        subscriptions
    }
}
