//! The daemon's own log: in the form its reader expects.
//!
//! Under systemd the reader is journald. It gets entries by its native protocol: an event's fields
//! become fields of the entry (`error` is `MCPINSPECT_LOG_ERROR`). Plain `journalctl` shows an entry's
//! message alone, and the reason of a failure is a field, so the message repeats the fields.
//! `tracing-journald` ignores entries that it cannot send, so `ForJournal` first checks that
//! journald listens. If it does not, standard error gets the event: systemd keeps that connection for
//! a journald that restarts. Such lines start with their priority (`<4>…`, see `sd-daemon(3)`).
//!
//! On a terminal, lines are coloured unless `NO_COLOR` or a dumb terminal asks otherwise; anywhere
//! else they are plain.

use std::env;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};

use libsystemd::logging::SD_JOURNAL_SOCK_PATH;
use mcpinspect_core::panics;
use mcpinspect_core::text::escape::plain;
use tracing::field::{Field, Value, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// What the names of an event's fields start with in the journal; an underscore follows.
const FIELD_PREFIX: &str = "MCPINSPECT_LOG";

/// What levels are to syslog.
const PRIORITIES: PriorityMappings = PriorityMappings {
    error: Priority::Error,
    warn: Priority::Warning,
    info: Priority::Informational,
    debug: Priority::Debug,
    trace: Priority::Debug,
};

/// Who reads standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// journald.
    Journal,
    /// A person at a terminal.
    Terminal {
        /// Whether colours are welcome.
        colour: bool,
    },
    /// A file or a pipe.
    Plain,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is invalid.
    #[error("invalid log filter {0:?}: {1}")]
    Filter(String, tracing_subscriber::filter::ParseError),
    /// Something else has set up logging in this process.
    #[error("logging is set up twice")]
    Twice,
}

/// Who reads standard error at the moment.
pub fn reader() -> Reader {
    if libsystemd::logging::connected_to_journal() {
        Reader::Journal
    } else if io::stderr().is_terminal() {
        let colour = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && env::var_os("TERM").is_some_and(|term| term != "dumb");
        Reader::Terminal { colour }
    } else {
        Reader::Plain
    }
}

/// Sets up logging for the process, panics included. `filter` (from the command line) wins over `RUST_LOG`, and
/// `info` applies if neither says anything.
///
/// # Errors
/// The filter is invalid, or this is a second call.
pub fn init(filter: Option<&str>) -> Result<Reader, LogError> {
    let from_environment = env::var("RUST_LOG").ok();
    let directives = filter.or(from_environment.as_deref()).unwrap_or("info");
    let filter = EnvFilter::try_new(directives)
        .map_err(|error| LogError::Filter(directives.to_owned(), error))?;
    let reader = reader();
    let lines = |colour| {
        tracing_subscriber::fmt::layer()
            .with_writer(io::stderr)
            .with_ansi(colour)
            // They would be reported with `eprintln!`, which panics when standard error is closed.
            .log_internal_errors(false)
    };
    let log = tracing_subscriber::registry().with(filter);
    match reader {
        Reader::Journal => log.with(ForJournal::new()).try_init(),
        Reader::Terminal { colour } => log.with(lines(colour).with_target(false)).try_init(),
        Reader::Plain => log.with(lines(false)).try_init(),
    }
    .map_err(|_| LogError::Twice)?;
    panics::set_hook(panics::log);
    Ok(reader)
}

/// Sends events to journald, and writes them to standard error while it does not listen.
struct ForJournal {
    /// An error if journald did not listen when the program started.
    native: Result<tracing_journald::Layer, io::ErrorKind>,
    is_unreachable: AtomicBool,
}

impl ForJournal {
    fn new() -> Self {
        let native = tracing_journald::layer().map(|layer| {
            layer
                .with_field_prefix(Some(FIELD_PREFIX.to_owned()))
                .with_priority_mappings(PRIORITIES)
        });
        Self {
            native: native.map_err(|error| error.kind()),
            is_unreachable: AtomicBool::new(false),
        }
    }

    /// The way to journald, if it listens at the moment.
    fn reach(&self) -> io::Result<&tracing_journald::Layer> {
        let native = self.native.as_ref().map_err(|&kind| kind)?;
        UnixDatagram::unbound()?.connect(SD_JOURNAL_SOCK_PATH)?;
        Ok(native)
    }
}

impl<S> Layer<S> for ForJournal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Ok(native) = &self.native {
            native.on_new_span(attributes, id, context);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Ok(native) = &self.native {
            native.on_record(id, values, context);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let entry = Entry::of(event);
        match self.reach() {
            Ok(native) => {
                self.is_unreachable.store(false, Ordering::Relaxed);
                let values = entry.values();
                // What the macros of `tracing` expand to.
                let values = metadata.fields().value_set_all(&values);
                native.on_event(&Event::new(metadata, &values), context);
            }
            Err(error) => {
                let mut lines = String::new();
                if !self.is_unreachable.swap(true, Ordering::Relaxed) {
                    let text = format!(
                        "cannot reach journald at {SD_JOURNAL_SOCK_PATH}, logging to standard error: {error}"
                    );
                    lines = with_priority(Level::WARN, &text);
                }
                lines += &with_priority(*metadata.level(), &entry.text);
                // Nobody is left to be told of a failure.
                let _ = io::stderr().write_all(lines.as_bytes());
            }
        }
    }
}

/// `text` as lines for a standard error that journald reads. Each line becomes an entry there, so each
/// one starts with the priority.
fn with_priority(level: Level, text: &str) -> String {
    let priority = match level {
        Level::ERROR => PRIORITIES.error,
        Level::WARN => PRIORITIES.warn,
        Level::INFO => PRIORITIES.info,
        Level::DEBUG => PRIORITIES.debug,
        Level::TRACE => PRIORITIES.trace,
    };
    let priority = char::from(priority as u8);
    text.lines()
        .map(|line| format!("<{priority}>{line}\n"))
        .collect()
}

/// An event as the journal gets it.
struct Entry {
    /// The message and what the other fields say.
    text: String,
    /// In the order of the event's fields; the message is `text`.
    fields: Vec<Option<String>>,
}

impl Entry {
    fn of(event: &Event<'_>) -> Self {
        let fields = event.metadata().fields();
        let mut entry = Self {
            text: String::new(),
            fields: vec![None; fields.len()],
        };
        event.record(&mut entry);
        let message = fields.field("message").map_or(usize::MAX, |it| it.index());
        if let Some(slot) = entry.fields.get_mut(message) {
            *slot = Some(entry.text.clone());
        }
        entry
    }

    fn values(&self) -> Vec<Option<&dyn Value>> {
        let values = self.fields.iter().map(Option::as_ref);
        values.map(|it| it.map(|it| it as &dyn Value)).collect()
    }
}

impl Visit for Entry {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Errors of parsers have several lines.
        let lines: Vec<_> = value.lines().map(plain).collect();
        let value = lines.join("\n");
        match field.name() {
            "message" => self.text.insert_str(0, &value),
            // Where the crate `log` was called.
            name if name.starts_with("log.") => {}
            name => {
                // Writing to a string cannot fail.
                let _ = write!(self.text, " {name}={value}");
            }
        }
        if let Some(slot) = self.fields.get_mut(field.index()) {
            *slot = Some(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Keeps the last event.
    #[derive(Default)]
    struct Last(Mutex<Option<Entry>>);

    impl<S: Subscriber> Layer<S> for &'static Last {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            *self.0.lock().unwrap() = Some(Entry::of(event));
        }
    }

    #[test]
    fn a_message_repeats_the_fields_and_hides_nothing() {
        let last: &'static Last = Box::leak(Box::default());
        let subscriber = tracing_subscriber::registry().with(last);
        tracing::subscriber::with_default(subscriber, || {
            let error = io::Error::other("no\u{1b}[1m space\nleft");
            tracing::error!(%error, code = 5, path = "/x", absent = None::<u8>, "cannot write");
        });
        let entry = last.0.lock().unwrap().take().unwrap();
        let error = "no\\u{1b}[1m space\nleft";
        let text = format!("cannot write error={error} code=5 path=/x");
        assert_eq!(entry.text, text);
        let fields: Vec<_> = entry.fields.iter().map(Option::as_deref).collect();
        assert_eq!(
            fields,
            [Some(&*text), Some(error), Some("5"), Some("/x"), None]
        );
        insta::assert_snapshot!(with_priority(Level::ERROR, &entry.text), @r"
        <3>cannot write error=no\u{1b}[1m space
        <3>left code=5 path=/x
        ");
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_named() {
        let error = init(Some("a=b=c")).unwrap_err();
        assert!(error.to_string().contains("a=b=c"), "{error}");
    }
}
