//! `mcpinspect sessions`: the sessions that were recorded.

use std::process::ExitCode;

use mcpinspectd::recall::{Question, RecordedSession};
use mcpinspectd::terminal;
use mcpinspectd::terminal::table::aligned;
use mcpinspectd::text::escape::printable;

use super::{NAME, StoreLocation, moment, print_rows, since, size};

/// List recorded sessions, newest first
#[derive(clap::Args)]
pub struct Sessions {
    /// Only sessions with this server.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only sessions that were under way since then: 15m, 24h, 7d, a day or a time.
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<u64>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    location: StoreLocation,
}

impl Sessions {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let question = Question::Sessions {
            server: self.server.clone(),
            since: self.since,
            session: None,
            limit: self.limit.into(),
        };
        if self.json {
            print_rows(&self.location.ask(&question)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let sessions: Vec<RecordedSession> = self.location.ask_for(&question)?;
        if sessions.is_empty() {
            terminal::print(|out| writeln!(out, "No session was recorded."))?;
            return Ok(ExitCode::SUCCESS);
        }
        terminal::print(|out| {
            aligned(out, |out| {
                writeln!(
                    out,
                    "SESSION\tSERVER\tSTARTED\tSTATE\tMESSAGES\tERRORS\tIN FLIGHT\tSIZE\tREVISION"
                )?;
                for session in &sessions {
                    writeln!(
                        out,
                        "{}\t{}\t{}\t{}\t{:>8}\t{:>6}\t{:>9}\t{:>8}\t{}",
                        printable(&session.session_id, NAME),
                        printable(&session.server_id, NAME),
                        moment(&session.started).get(..19).unwrap_or_default(),
                        state(session),
                        session.messages,
                        session.errors,
                        session.in_flight,
                        size(session.bytes),
                        printable(session.protocol_version.as_deref().unwrap_or("-"), 16),
                    )?;
                }
                Ok(())
            })
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// How a session stands, in a word.
fn state(session: &RecordedSession) -> String {
    match (&session.end_reason, session.imported) {
        (_, true) => "imported".to_owned(),
        (Some(reason), false) => printable(reason, 24),
        (None, false) => "open".to_owned(),
    }
}
