//! Counters for people who watch many machines: a file in Prometheus' text format, for the textfile
//! collector of node_exporter.
//!
//! A file and not a port: the daemon has no network, and should have none. A separate thread replaces the file
//! as a whole, so that neither a reader nor a slow disk affects the pipeline. If the
//! last one is still being written, the next is skipped. Labels contain nothing that a server
//! chooses: no name, and nothing whose number others decide.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use mcpinspect_core::model::SinkTally;
use mcpinspect_core::model::{Account, CaptureTotals, Severity, Timestamp};
use mcpinspect_engine::event::EventKind;
use mcpinspect_judge::registry::StorageHealth;
use mcpinspect_runtime::files;
use mcpinspect_runtime::priority::Priority;

use crate::status::calls::CallCounts;

/// How many events there were, by type and severity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCounts([[u64; SEVERITIES.len()]; EventKind::ALL.len()]);

const SEVERITIES: [(Option<Severity>, &str); 5] = [
    (None, "none"),
    (Some(Severity::Low), "low"),
    (Some(Severity::Medium), "medium"),
    (Some(Severity::High), "high"),
    (Some(Severity::Critical), "critical"),
];

impl EventCounts {
    /// Counts one more.
    pub fn add(&mut self, kind: EventKind, severity: Option<Severity>) {
        let row = EventKind::ALL.iter().position(|each| *each == kind);
        let column = SEVERITIES.iter().position(|(each, _)| *each == severity);
        if let (Some(row), Some(column)) = (row, column) {
            self.0[row][column] += 1;
        }
    }
}

/// Everything that is counted, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When the daemon started.
    pub started: Timestamp,
    /// What the capture did.
    pub capture: CaptureTotals,
    /// What sessions' streams carried.
    pub streams: Account,
    /// Open sessions.
    pub sessions: usize,
    /// Pinned servers and items.
    pub registry: (usize, usize),
    /// The state of the registry's disk.
    pub health: StorageHealth,
    /// Exchanges.
    pub calls: CallCounts,
    /// Requests waiting for an answer.
    pub in_flight: usize,
    /// Events.
    pub events: EventCounts,
    /// What became of them.
    pub sinks: Vec<SinkTally>,
    /// Whether all servers are paused.
    pub paused: bool,
    /// How many servers are paused.
    pub paused_servers: usize,
}

impl Snapshot {
    /// The text of the file.
    pub fn text(&self) -> String {
        let mut page = Page::default();
        page.family("build_info", "gauge", "The daemon's version.");
        page.row(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        page.family(
            "start_time_seconds",
            "gauge",
            "When the daemon started, Unix time.",
        );
        page.row(&[], self.started.0 / 1_000_000_000);

        let CaptureTotals {
            records,
            bytes,
            records_lost,
            bytes_lost,
            bytes_faulted,
            lifecycle_lost,
            registrations_failed,
            undecodable,
            sessions_refused,
            calls_missed,
            blind_spots_covered,
        } = &self.capture;
        for (name, help, value) in [
            ("records_total", "Records that the probes wrote.", records),
            ("record_bytes_total", "Payload bytes in them.", bytes),
            (
                "records_lost_total",
                "Records that did not fit into the ring.",
                records_lost,
            ),
            (
                "record_bytes_lost_total",
                "Payload bytes lost with them, of any stream.",
                bytes_lost,
            ),
            (
                "bytes_faulted_total",
                "Payload bytes that could not be read.",
                bytes_faulted,
            ),
            (
                "lifecycle_lost_total",
                "Process and stream records that did not fit.",
                lifecycle_lost,
            ),
            (
                "registrations_failed_total",
                "Streams above the number that can be followed.",
                registrations_failed,
            ),
            (
                "undecodable_total",
                "Records that were not understood.",
                undecodable,
            ),
            (
                "sessions_refused_total",
                "Sessions above the number that can be followed.",
                sessions_refused,
            ),
            (
                "calls_missed_total",
                "Calls that the probes could not examine.",
                calls_missed,
            ),
            (
                "blind_spots_covered_total",
                "Unseen transfers whose bytes were seen at the other end.",
                blind_spots_covered,
            ),
        ] {
            page.family(name, "counter", help);
            page.row(&[], *value);
        }
        let Account {
            written,
            captured,
            lost,
        } = self.streams;
        page.family(
            "stream_bytes",
            "gauge",
            "Bytes of sessions' streams since the start: the ledger.",
        );
        for (state, value) in [("written", written), ("captured", captured), ("lost", lost)] {
            page.row(&[("state", state)], value);
        }
        page.family("sessions", "gauge", "Open sessions.");
        page.row(&[], self.sessions as u64);
        page.family(
            "paused",
            "gauge",
            "Whether watching is paused for all servers.",
        );
        page.row(&[], u64::from(self.paused));
        page.family(
            "paused_servers",
            "gauge",
            "Servers for which watching is paused.",
        );
        page.row(&[], self.paused_servers as u64);

        page.family("registry_servers", "gauge", "Servers with pinned items.");
        page.row(&[], self.registry.0 as u64);
        page.family(
            "registry_items",
            "gauge",
            "Tools and other items that are pinned.",
        );
        page.row(&[], self.registry.1 as u64);
        page.family(
            "registry_unsaved",
            "gauge",
            "Writes that wait for the registry's disk.",
        );
        page.row(&[], self.health.unsaved as u64);
        page.family(
            "registry_lost_total",
            "counter",
            "Writes to the registry that were dropped.",
        );
        page.row(&[], self.health.lost);

        self.calls_text(&mut page);

        page.family("events_total", "counter", "Events by type and severity.");
        for (kind, row) in EventKind::ALL.iter().zip(&self.events.0) {
            for ((_, severity), count) in SEVERITIES.iter().zip(row) {
                if *count > 0 {
                    page.row(&[("type", kind.name()), ("severity", severity)], *count);
                }
            }
        }
        page.family(
            "sink_events_total",
            "counter",
            "Events by sink and outcome.",
        );
        for tally in &self.sinks {
            for (outcome, count) in [
                ("delivered", tally.delivered),
                ("failed", tally.failed),
                ("dropped", tally.dropped),
            ] {
                page.row(&[("sink", tally.sink), ("outcome", outcome)], count);
            }
        }
        page.family("sink_waiting", "gauge", "Events that wait, by sink.");
        for tally in &self.sinks {
            page.row(&[("sink", tally.sink)], tally.waiting);
        }
        page.text
    }
}

#[derive(Default)]
struct Page {
    text: String,
    name: String,
}

impl Page {
    /// What the rows that follow are about.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.name = format!("mcpinspectd_{name}");
        // Writing to a string does not fail, here and below.
        let _ = writeln!(
            self.text,
            "# HELP {} {help}\n# TYPE {} {kind}",
            self.name, self.name
        );
    }

    fn row(&mut self, labels: &[(&str, &str)], value: u64) {
        self.text.push_str(&self.name);
        for (number, (label, text)) in labels.iter().enumerate() {
            self.text.push(if number == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

impl Snapshot {
    fn calls_text(&self, page: &mut Page) {
        page.family("requests_total", "counter", "Requests, by method.");
        for (method, counts) in self.calls.methods() {
            page.row(&[("method", method)], counts.requests);
        }
        page.family(
            "request_errors_total",
            "counter",
            "Responses that were errors, by the method of their request.",
        );
        for (method, counts) in self.calls.methods() {
            page.row(&[("method", method)], counts.errors);
        }
        page.family(
            "request_duration_microseconds",
            "summary",
            "How long responses took since the start, by method.",
        );
        for (method, counts) in self.calls.methods() {
            for (part, label) in [(0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99")] {
                if let Some(nanos) = counts.latency.quantile(part) {
                    page.row(&[("method", method), ("quantile", label)], nanos / 1000);
                }
            }
        }
        page.family(
            "responses_total",
            "counter",
            "Responses, by how they relate to their request.",
        );
        for (correlation, count) in self.calls.responses() {
            page.row(&[("correlation", correlation.as_str())], count);
        }
        page.family(
            "requests_overdue_total",
            "counter",
            "Requests that waited longer than call_timeout.",
        );
        page.row(&[], self.calls.overdue());
        page.family(
            "requests_in_flight",
            "gauge",
            "Requests that wait for their response.",
        );
        page.row(&[], self.in_flight as u64);
    }
}

/// A label's value, escaped as the format requires.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// The file, written periodically.
#[derive(Debug)]
pub struct MetricsFile {
    texts: SyncSender<String>,
    every: Duration,
    next: Timestamp,
}

impl MetricsFile {
    /// Starts the thread that writes `path`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(path: PathBuf, every: Duration) -> io::Result<Self> {
        let (texts, receiver) = sync_channel(1);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                Priority::Background.claim();
                write(&path, &receiver);
            })?;
        Ok(Self {
            texts,
            every,
            next: Timestamp(0),
        })
    }

    /// Whether it is time to write again. If so, counts as written.
    pub fn is_due(&mut self, now: Timestamp) -> bool {
        let every = u64::try_from(self.every.as_nanos()).unwrap_or(u64::MAX);
        // A clock that was set back is treated as a new one.
        let due = now >= self.next || self.next.0.saturating_sub(now.0) > every;
        if due {
            self.next = Timestamp(now.0.saturating_add(every));
        }
        due
    }

    /// Has it written.
    pub fn write(&self, snapshot: &Snapshot) {
        // If the disk is slower than that, this one is skipped.
        let _ = self.texts.try_send(snapshot.text());
    }
}

fn write(path: &std::path::Path, texts: &Receiver<String>) {
    let mut failing = false;
    while let Ok(text) = texts.recv() {
        // Counters are not secret, and their reader is another user.
        match files::replace(path, text.as_bytes(), 0o644) {
            Ok(()) => failing = false,
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(path = %path.display(), %error, "cannot write the metrics file");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let mut events = EventCounts::default();
        events.add(EventKind::Detection, Some(Severity::High));
        events.add(EventKind::Detection, Some(Severity::High));
        events.add(EventKind::SessionStarted, None);
        let snapshot = Snapshot {
            events,
            sinks: vec![SinkTally {
                sink: "journal",
                delivered: 3,
                failed: 1,
                dropped: 0,
                waiting: 2,
            }],
            sessions: 7,
            ..Snapshot::default()
        };
        let text = snapshot.text();
        let of = |name: &str| {
            let rows = text.lines().filter(|line| line.starts_with(name));
            rows.collect::<Vec<_>>().join("\n")
        };
        assert_eq!(of("mcpinspectd_sessions "), "mcpinspectd_sessions 7");
        insta::assert_snapshot!(of("mcpinspectd_events_total"), @r#"
        mcpinspectd_events_total{type="mcp_detection",severity="high"} 2
        mcpinspectd_events_total{type="mcp_session_started",severity="none"} 1
        "#);
        insta::assert_snapshot!(of("mcpinspectd_sink"), @r#"
        mcpinspectd_sink_events_total{sink="journal",outcome="delivered"} 3
        mcpinspectd_sink_events_total{sink="journal",outcome="failed"} 1
        mcpinspectd_sink_events_total{sink="journal",outcome="dropped"} 0
        mcpinspectd_sink_waiting{sink="journal"} 2
        "#);
        // Each row's family is declared, once, before it; the text ends with a line end.
        let mut declared = std::collections::HashSet::new();
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(family) => assert!(declared.insert(family.split(' ').next().unwrap())),
                None if line.starts_with('#') => {}
                None => assert!(
                    declared.contains(line.split([' ', '{']).next().unwrap()),
                    "{line}"
                ),
            }
        }
        assert!(text.ends_with('\n'));
        assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }

    #[test]
    fn the_file_appears_whole_and_in_its_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcpinspectd.prom");
        let mut file = MetricsFile::start(path.clone(), Duration::from_secs(15)).unwrap();
        let second = 1_000_000_000;
        assert!(file.is_due(Timestamp(100 * second)));
        assert!(!file.is_due(Timestamp(114 * second)));
        assert!(file.is_due(Timestamp(115 * second)));
        assert!(file.is_due(Timestamp(5 * second)), "the clock was set back");
        file.write(&Snapshot::default());
        let start = std::time::Instant::now();
        while !path.exists() {
            assert!(start.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text, Snapshot::default().text());
    }
}
