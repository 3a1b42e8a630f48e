//! `mcpinspect show`: one session, message by message, with what was reported about it.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::{Reader, wants_colour};
use mcpinspect_core::model::Severity;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::history::{RecordedEvent, RecordedMessage, RecordedSession};

use super::{NAME, StoreLocation, content, duration, moment, print_row, size, width};

/// Show the messages of a recorded session, with findings in their place
#[derive(clap::Args)]
pub struct Show {
    /// The session's id, or the beginning of it; see `mcpinspect sessions`.
    session: String,
    /// Show messages in full instead of their beginnings.
    #[arg(long)]
    full: bool,
    /// Print one JSON object per line: the session, then messages and events in order.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    location: StoreLocation,
}

impl Show {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let session = self.location.session(&self.session)?;
        let events = self.location.events(&session.session_id)?;
        let page = Page {
            most: if self.full { usize::MAX } else { width() },
            json: self.json,
            colour: wants_colour(std::io::stdout().is_terminal()),
        };
        if !page.session(&session)? {
            return Ok(ExitCode::SUCCESS);
        }
        // Both are in order of time, and RFC 3339 sorts accordingly.
        let mut events = events.into_iter().peekable();
        let mut is_open = true;
        self.location
            .messages(&session.session_id, |row, message| {
                // What was reported about a message comes after it, and the session's start before everything.
                let comes_first = |event: &RecordedEvent| {
                    event.time < message.time
                        || event.time == message.time && event.kind == "mcp_session_started"
                };
                while let Some(event) = events.next_if(comes_first) {
                    page.event(&event)?;
                }
                is_open = page.message(&row, message)?;
                Ok(is_open)
            })?;
        if is_open {
            events.try_for_each(|event| page.event(&event))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

struct Page {
    most: usize,
    json: bool,
    colour: bool,
}

impl Page {
    fn session(&self, session: &RecordedSession) -> anyhow::Result<bool> {
        if self.json {
            return print_row(&serde_json::to_string(session)?);
        }
        let party = |pid: Option<u32>, exe: &Option<String>| match (pid, exe) {
            (Some(pid), Some(exe)) => format!("{} (pid {pid})", printable(exe, 128)),
            (Some(pid), None) => format!("pid {pid}"),
            (None, _) => "unknown".to_owned(),
        };
        let reader = terminal::print(|out| {
            writeln!(
                out,
                "{}: {}, {}, MCP {}",
                printable(&session.session_id, NAME),
                printable(&session.server_id, NAME),
                printable(&session.transport, 16),
                printable(session.protocol_version.as_deref().unwrap_or("unknown"), 16)
            )?;
            writeln!(
                out,
                "  server  {}",
                party(session.server_pid, &session.server_exe)
            )?;
            writeln!(
                out,
                "  client  {}",
                party(session.client_pid, &session.client_exe)
            )?;
            let end = match (&session.ended, &session.end_reason) {
                (Some(ended), Some(reason)) => {
                    format!("{}, {}", moment(ended), printable(reason, 24))
                }
                _ => "still open".to_owned(),
            };
            writeln!(out, "  time    {} to {end}", moment(&session.started))?;
            writeln!(
                out,
                "  total   {} messages, {} errors, {} without an answer, {}\n",
                session.messages,
                session.errors,
                session.in_flight,
                size(session.bytes)
            )
        })?;
        Ok(reader == Reader::Listening)
    }

    fn message(&self, row: &str, message: &RecordedMessage) -> anyhow::Result<bool> {
        if self.json {
            return print_row(row);
        }
        let style = match message.is_error {
            true if self.colour => AnsiColor::Red.on_default(),
            _ => Style::new(),
        };
        let reader = terminal::print(|out| {
            writeln!(out, "{style}{}{style:#}", headline(message))?;
            let text = content(message, self.most);
            match text.is_empty() {
                true => Ok(()),
                false => writeln!(out, "    {text}"),
            }
        })?;
        Ok(reader == Reader::Listening)
    }

    fn event(&self, event: &RecordedEvent) -> anyhow::Result<()> {
        if self.json {
            print_row(&serde_json::to_string(event)?)?;
            return Ok(());
        }
        let severity = event.severity.as_deref().and_then(Severity::from_word);
        let style = match severity {
            _ if !self.colour => Style::new(),
            Some(Severity::Critical | Severity::High) => AnsiColor::Red.on_default().bold(),
            Some(_) => AnsiColor::Yellow.on_default(),
            None => Style::new().dimmed(),
        };
        terminal::print(|out| {
            writeln!(
                out,
                "{}  {style}! {}{}{style:#}",
                moment(&event.time),
                severity.map_or(String::new(), |severity| format!("{}: ", severity.as_str())),
                printable(&event.title, 200)
            )
        })?;
        Ok(())
    }
}

/// A message in one line, without its text.
pub fn headline(message: &RecordedMessage) -> String {
    let arrow = match message.direction.as_str() {
        "client_to_server" => "→",
        _ => "←",
    };
    let mut line = format!(
        "{}  {arrow} {}{} {}",
        moment(&message.time),
        message.sequence,
        if message.is_member { "·" } else { "" },
        printable(&message.kind, 16)
    );
    for word in [&message.method, &message.tool].into_iter().flatten() {
        line.push(' ');
        line.push_str(&printable(word, NAME));
    }
    if let Some(id) = &message.id {
        line.push_str(&format!(" (id {})", printable(id, 24)));
    }
    if let Some(nanos) = message.latency_ns {
        line.push_str(&format!(", {}", duration(nanos)));
    }
    let correlation = message.correlation.as_deref();
    for word in [
        correlation.filter(|word| *word != "answer"),
        message.is_error.then_some("error"),
        message.gap_before.then_some("bytes lost before it"),
        message.invalid_reason.as_deref(),
    ]
    .into_iter()
    .flatten()
    {
        line.push_str(&format!(", {}", printable(word, 32)));
    }
    line
}
