//! `mcpinspect search`: messages by their words, servers, methods and tools.

use std::process::ExitCode;

use mcpinspect_cli::terminal;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::history;
use mcpinspect_engine::history::{HistoryQuery, RecordedMessage};

use super::show::headline;
use super::{Listing, NAME, content, print_rows, width};

/// Find recorded messages that contain words, newest first
///
/// A message must contain all words; case and accents are ignored. Without words, only the options
/// select. Words of masked secrets are not found, because they were never stored.
#[derive(clap::Args)]
pub struct Search {
    /// The words.
    text: Vec<String>,
    /// Only this method, and responses to it.
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Only this server.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only calls of this tool, and their responses.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only errors, of the protocol or of a tool.
    #[arg(long)]
    error: bool,
    #[command(flatten)]
    listing: Listing,
}

impl Search {
    /// Exits with status 1 if nothing was found.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let question = HistoryQuery::Search(history::Search {
            text: self.text.join(" "),
            method: self.method.clone(),
            server: self.server.clone(),
            tool: self.tool.clone(),
            since: self.listing.since,
            error: self.error,
            limit: self.listing.limit.into(),
        });
        let rows = self.listing.location.ask(&question)?;
        let found = match rows.is_empty() {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        };
        if self.listing.json {
            print_rows(&rows)?;
            return Ok(found);
        }
        let most = width();
        terminal::print(|out| {
            for row in &rows {
                let message: RecordedMessage = serde_json::from_str(row)?;
                writeln!(
                    out,
                    "{} in {}",
                    headline(&message),
                    printable(&message.server_id, NAME)
                )?;
                writeln!(
                    out,
                    "    {}  {}",
                    printable(&message.session_id, NAME),
                    content(&message, most)
                )?;
            }
            Ok(())
        })?;
        Ok(found)
    }
}
