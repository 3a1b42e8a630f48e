//! Requests that are not admitted, as lines in the log of decisions.
//!
//! They match no rule: they name a host or an origin that is not allowed, can be read in two ways, or find no
//! room. A page in a browser may send any number of them, so only some are written per second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::http::request;
use mcpinspect_core::model::{Direction, Timestamp};
use mcpinspect_core::text::escape::printable;
use mcpinspect_core::text::redact;
use mcpinspect_judge::policy::record::Record;

/// Most refusals to write per second.
const A_SECOND: u32 = 20;
/// Bytes of a path, and of a field, to show.
const PATH: usize = 512;
const FIELD: usize = 128;

/// Counts refusals in the current second.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<Option<(Instant, u32)>>);

impl Refusals {
    /// Whether to write another one. The last one of a second says that there may be more.
    fn admit(&self) -> Option<bool> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (since, count) = counted.unwrap_or((now, 0));
        let (since, count) = match now.duration_since(since) < Duration::from_secs(1) {
            true => (since, count),
            false => (now, 0),
        };
        *counted = Some((since, count.saturating_add(1)));
        (count < A_SECOND).then_some(count + 1 == A_SECOND)
    }

    /// A record of a request that was not admitted, if it should be written.
    pub fn record(
        &self,
        server: &str,
        request: &RefusedRequest,
        reason: &'static str,
    ) -> Option<Record> {
        let is_last = self.admit()?;
        Some(Record {
            kind_of_record: "mcp_guard",
            timestamp: Timestamp::now(),
            server_id: server.to_owned(),
            client: None,
            direction: Direction::ClientToServer,
            kind: None,
            method: None,
            tool: None,
            id: None,
            action: "refuse",
            rules: Vec::new(),
            reason: Some(match is_last {
                true => "too_many_refusals",
                false => reason,
            }),
            asked: None,
            hidden: Vec::new(),
            before: request.0.clone(),
            after: None,
        })
    }
}

/// What a record shows of a request: only where it is sent and where it comes from.
#[derive(Debug)]
pub struct RefusedRequest(String);

impl RefusedRequest {
    /// One whose very head cannot be read with certainty, described in words.
    pub fn unread(text: &str) -> Self {
        Self(printable(text, PATH))
    }

    /// The request with this head.
    pub fn of(head: &request::Parts) -> Self {
        let path = head.uri.to_string();
        let mut description = format!(
            "{} {}",
            printable(head.method.as_str(), FIELD),
            printable(&redact::secrets(&path), PATH)
        );
        for name in [HOST, ORIGIN] {
            let value = text(&head.headers, name.as_str());
            if let Some(value) = value {
                description.push_str(&format!(", {name}: {value}"));
            }
        }
        Self(description)
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(printable(&String::from_utf8_lossy(value.as_bytes()), FIELD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut() {
        let refusals = Refusals::default();
        let head = hyper::Request::builder()
            .method("POST")
            .uri("/mcp?token=ghp_0123456789abcdefghijABCDEFGHIJ456789")
            .header("host", "evil.example")
            .body(())
            .unwrap();
        let request = RefusedRequest::of(&head.into_parts().0);
        let reasons: Vec<_> = (0..1000)
            .filter_map(|_| refusals.record("s", &request, "foreign_host"))
            .map(|record| record.reason.unwrap())
            .collect();
        assert_eq!(reasons.len(), 20);
        assert_eq!(
            (reasons[0], reasons[19]),
            ("foreign_host", "too_many_refusals")
        );
        let description = refusals_shown(&request);
        assert!(
            description.starts_with("POST /mcp?token=")
                && description.ends_with(", host: evil.example")
        );
        assert!(!description.contains("0123456789"), "{description}");
    }

    fn refusals_shown(request: &RefusedRequest) -> String {
        let record = Refusals::default().record("s", request, "x").unwrap();
        record.before
    }
}
