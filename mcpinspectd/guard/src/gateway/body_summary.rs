//! The parts of a body that decide how it is handled.

use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::{Message, Parsed, Payload};

/// Most requests of a batch whose answers are awaited.
const MAX_IDS: usize = 4096;

/// The messages of a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BodySummary {
    /// The ids of its requests, as JSON text.
    pub requests: Vec<String>,
    /// The ids of its responses.
    pub responses: Vec<String>,
    /// Whether it begins a session.
    pub is_greeting: bool,
    pub is_batch: bool,
}

impl BodySummary {
    /// Reads a body. One that is not a message says nothing.
    pub fn read(body: &[u8]) -> Self {
        let mut summary = Self::default();
        match message::parse(body) {
            Ok(Payload::Single(parsed)) => summary.member(&parsed),
            Ok(Payload::Batch(batch)) => {
                summary.is_batch = true;
                batch.for_each(|member| {
                    if let Ok(parsed) = member {
                        summary.member(&parsed);
                    }
                });
            }
            Err(_) => {}
        }
        summary
    }

    /// The id of its only request, if it has only one.
    pub fn only(&self) -> Option<&str> {
        match self.requests.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    fn member(&mut self, parsed: &Parsed<'_>) {
        let id = parsed.message.id().map(|id| id.0.to_owned());
        let ids = match &parsed.message {
            Message::Request(request) => {
                self.is_greeting |= &*request.method == "initialize";
                &mut self.requests
            }
            Message::Response(_) => &mut self.responses,
            Message::Notification(_) => return,
        };
        if ids.len() < MAX_IDS {
            ids.extend(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read() {
        let summary = BodySummary::read(br#"{"jsonrpc":"2.0","id":"a","method":"initialize"}"#);
        assert!(summary.is_greeting && summary.only() == Some("\"a\""));
        let batch =
            br#"[{"id":1,"method":"x"},{"method":"y"},{"id":2,"result":{}},{"id":3,"method":"z"}]"#;
        let summary = BodySummary::read(batch);
        assert_eq!((summary.requests.len(), summary.only()), (2, None));
        assert_eq!(summary.responses, ["2"]);
        assert_eq!(BodySummary::read(b"<html>"), BodySummary::default());
    }
}
