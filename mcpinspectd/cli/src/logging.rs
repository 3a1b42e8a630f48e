//! The daemon's own log: on standard error, in the form its reader expects.
//!
//! Under systemd, standard error *is* the journal: lines then start with their priority (`<4>…`, see
//! `sd-daemon(3)`) and carry neither time nor colour, because the journal knows the first and stores
//! no second. A layer that speaks the native protocol would keep an event's fields apart from its
//! message, and plain `journalctl` shows the message alone: the reason of a failure would be
//! invisible exactly where people look. On a terminal the lines are coloured unless `NO_COLOR` or a
//! dumb terminal asks otherwise; anywhere else they are plain.

use std::env;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal};

use mcpinspect_core::panics;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

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
    #[error("the log filter {0:?} is not understood: {1}")]
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
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // They would be reported with `eprintln!`, which panics when standard error is closed.
        .log_internal_errors(false);
    match reader {
        Reader::Journal => builder.with_ansi(false).event_format(ForJournal).try_init(),
        Reader::Terminal { colour } => builder.with_ansi(colour).with_target(false).try_init(),
        Reader::Plain => builder.with_ansi(false).try_init(),
    }
    .map_err(|_| LogError::Twice)?;
    panics::set_hook(panics::log);
    Ok(reader)
}

/// Lines as journald wants them from a standard stream: each starts with its priority.
struct ForJournal;

impl<S, N> FormatEvent<S, N> for ForJournal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut text = String::new();
        for span in context
            .event_scope()
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            write!(text, "{}", span.name())?;
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>()
                && !fields.is_empty()
            {
                write!(text, "{{{fields}}}")?;
            }
            text.push_str(": ");
        }
        context.format_fields(Writer::new(&mut text), event)?;
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        // Each line becomes an entry of its own there, so each one has its priority.
        for line in text.lines() {
            writeln!(writer, "<{priority}>{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing test may panic")]
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_journal_gets_priority_fields_and_whole_lines() {
        let captured = Captured::default();
        let writer = captured.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .event_format(ForJournal)
            .with_max_level(Level::TRACE)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("reload", path = "/etc/x").entered();
            tracing::error!(code = 5, "cannot\nread");
            tracing::trace!("fine");
        });
        let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
        insta::assert_snapshot!(text, @r#"
        <3>reload{path="/etc/x"}: cannot
        <3>read code=5
        <7>reload{path="/etc/x"}: fine
        "#);
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_named() {
        let error = init(Some("a=b=c")).unwrap_err();
        assert!(error.to_string().contains("a=b=c"), "{error}");
    }
}
