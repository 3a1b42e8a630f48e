//! `mcpinspect sessions`: the recorded sessions.

use std::process::ExitCode;

use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::history::{HistoryQuery, RecordedSession};

use super::{Listing, NAME, moment, print_rows, size};

/// List recorded sessions, newest first
#[derive(clap::Args)]
pub struct Sessions {
    /// Only sessions with this server.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

impl Sessions {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let question = HistoryQuery::Sessions {
            server: self.server.clone(),
            since: self.listing.since,
            session: None,
            limit: self.listing.limit.into(),
        };
        if self.listing.json {
            print_rows(&self.listing.location.ask(&question)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let sessions: Vec<RecordedSession> = self.listing.location.ask_for(&question)?;
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
                        session_state(session),
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

/// The state of a session, in a word.
pub fn session_state(session: &RecordedSession) -> String {
    match (&session.end_reason, session.imported) {
        (_, true) => "imported".to_owned(),
        (Some(reason), false) => printable(reason, 24),
        (None, false) => "open".to_owned(),
    }
}
