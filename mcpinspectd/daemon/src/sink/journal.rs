//! The journal: one structured entry per event, by journald's native protocol.
//!
//! journald may be restarted, absent or stuck, and none of that may reach the pipeline or silently lose an
//! event. Sending blocks while journald is stuck, so this sink has a separate thread.
//! While nothing listens at the socket, the current event waits and the queue behind it absorbs
//! what it can; the outage is logged once when it begins and once when it ends. An entry that
//! cannot be sent although journald is there is counted as failed, and the next one goes.
//!
//! An entry that is too large for a datagram travels in a sealed memory file; both ways, and the
//! encoding of values with line breaks, are left to `libsystemd`.

use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::{Duration, Instant};

use libsystemd::logging::{Priority, SD_JOURNAL_SOCK_PATH, journal_send};
use mcpinspect_core::model::Severity;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::Envelope;
use mcpinspect_runtime::backoff::Backoff;

use super::queue::{Item, QueueReceiver};

/// What `journalctl -t` selects.
pub const IDENTIFIER: &str = "mcpinspectd";

/// Longest name of a server or session, in characters.
const MAX_NAME: usize = 128;

/// How long events wait between two checks for an absent journald.
const WAITS: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// Carries events to the journal until the fan-out closes. Blocks: give it its own thread.
pub fn run(mut receiver: QueueReceiver) {
    let mut outage = None;
    while let Some(item) = receiver.blocking_recv() {
        if let Item::Event(record) = item {
            deliver(&record, &receiver, &mut outage);
        }
    }
}

/// Sends one record, waiting for journald if it is away. `outage` is when it went.
fn deliver(record: &Envelope, receiver: &QueueReceiver, outage: &mut Option<Instant>) {
    let mut backoff = WAITS;
    let mut refused = 0;
    loop {
        let error = match send(record) {
            Ok(()) => {
                receiver.delivered();
                if let Some(since) = outage.take() {
                    let seconds = since.elapsed().as_secs();
                    tracing::info!(seconds, "journald is running again");
                }
                return;
            }
            Err(error) => error,
        };
        if somebody_listens() {
            // Once may be due to a restart; twice is about this entry.
            refused += 1;
            if refused == 2 {
                tracing::warn!(event_id = %record.id, %error, "the journal rejected an event");
                receiver.failed();
                return;
            }
            continue;
        }
        if receiver.is_closing() {
            receiver.failed();
            return;
        }
        if outage.is_none() {
            *outage = Some(Instant::now());
            tracing::warn!(%error, "journald is not running: events wait in the queue, as many as fit");
        }
        thread::sleep(backoff.wait());
    }
}

fn somebody_listens() -> bool {
    UnixDatagram::unbound().is_ok_and(|socket| socket.connect(SD_JOURNAL_SOCK_PATH).is_ok())
}

fn send(record: &Envelope) -> Result<(), libsystemd::errors::SdError> {
    journal_send(
        priority(record.severity),
        &record.sentence,
        fields(record).into_iter(),
    )
}

/// The entry's fields besides `MESSAGE` and `PRIORITY`.
pub fn fields(record: &Envelope) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("MESSAGE_ID", record.kind.message_id().to_owned()),
        ("SYSLOG_IDENTIFIER", IDENTIFIER.to_owned()),
        ("MCPINSPECT_EVENT", record.kind.name().to_owned()),
        ("MCPINSPECT_EVENT_ID", record.id.to_string()),
        ("MCPINSPECT_TIMESTAMP", record.time.to_string()),
    ];
    if let Some(severity) = record.severity {
        fields.push(("MCPINSPECT_SEVERITY", severity.as_str().to_owned()));
    }
    if let Some(server) = &record.server {
        fields.push(("MCPINSPECT_SERVER", printable(&server.0, MAX_NAME)));
    }
    if let Some(session) = &record.session {
        fields.push(("MCPINSPECT_SESSION", printable(&session.0, MAX_NAME)));
    }
    if let Some(pid) = record.pid {
        fields.push(("MCPINSPECT_PID", pid.to_string()));
    }
    if let Some(uid) = record.uid {
        fields.push(("MCPINSPECT_UID", uid.to_string()));
    }
    if record.truncated {
        fields.push(("MCPINSPECT_TRUNCATED", "1".to_owned()));
    }
    fields.extend(record.details.iter().cloned());
    fields.push(("MCPINSPECT_JSON", record.json.clone()));
    fields
}

/// `high` is what an administrator is woken up for, and syslog's word for that is `err`.
fn priority(severity: Option<Severity>) -> Priority {
    match severity {
        None => Priority::Info,
        Some(Severity::Low) => Priority::Notice,
        Some(Severity::Medium) => Priority::Warning,
        Some(Severity::High) => Priority::Error,
        Some(Severity::Critical) => Priority::Critical,
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Timestamp;
    use mcpinspect_engine::event::envelope::EventId;
    use mcpinspect_engine::event::testing::examples;

    use super::*;

    /// journald silently drops fields with invalid names, and so does the encoder.
    #[test]
    fn journald_accepts_every_field_name() {
        for event in examples() {
            let id = EventId::new(Timestamp(0), 1);
            let record = Envelope::new(&event, id, Some(0), 4096).unwrap();
            for (name, _) in fields(&record) {
                assert!(name.len() <= 64 && !name.starts_with('_'), "{name}");
                assert!(
                    name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_field_appears_once() {
        for event in examples() {
            let id = EventId::new(Timestamp(0), 1);
            let record = Envelope::new(&event, id, Some(0), 4096).unwrap();
            let mut names: Vec<_> = fields(&record).into_iter().map(|(name, _)| name).collect();
            names.sort_unstable();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all, "{:?}", record.kind);
        }
    }
}
